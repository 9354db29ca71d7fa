// Random programs, run lazily, op by op and on plain strided arrays: the results agree bit for bit.
//
// With gradients those of all leaves agree lazily and eagerly.
//
//   random_program_tests --seed 123        the programs of that seed only, printed first
//   RANDOM_PROGRAMS=100000                how many are run
//   SEED_SHARE=2/8                        every eighth of them

#include "support/random_program.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <optional>

#include "hammock/executor.h"
#include "support/plain_tensor.h"
#include "support/program_run.h"
#include "support/record_call.h"
#include "support/seed_share.h"

namespace hammock::testing {
namespace {

using Kind = Statement::Kind;

// About a minute in all; sanitizers are slower by far.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int64_t kDefaultPrograms = 1000;
#else
constexpr int64_t kDefaultPrograms = 6000;
#endif

std::optional<uint64_t> only_seed;
volatile uint64_t running_seed = 0;

/// A crash prints the seed, so that it can be repeated.
void PrintSeed(int signal) {
  char text[] = "\nrandom program: crashed, repeat with --seed ....................\n";
  char* digit = text + sizeof(text) - 3;
  for (uint64_t seed = running_seed;; seed /= 10) {
    *digit-- = static_cast<char>('0' + seed % 10);
    if (seed < 10) break;
  }
  while (*digit == '.') *digit-- = ' ';
  [[maybe_unused]] ssize_t written = write(2, text, sizeof(text) - 1);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

int64_t ProgramCount() {
  const char* count = std::getenv("RANDOM_PROGRAMS");
  return count ? std::atoll(count) : kDefaultPrograms;
}

/// The failure of a program as a person wants it: shrunk, as C++, with the line that repeats it.
std::string Report(const Program& program, const InjectedBug& bug = nullptr) {
  auto fails = [&](const Program& p) { return !FindDifference(p, bug).empty(); };
  Program small = ShrinkProgram(program, fails);
  return "repeat with --seed " + std::to_string(program.seed) + "\n" + FindDifference(small, bug) +
         "the smallest program that shows it:\n\n" + ToCpp(small);
}

void RunPrograms(bool gradients, int64_t count) {
  uint64_t first = only_seed.value_or(1);
  uint64_t last = only_seed ? first : static_cast<uint64_t>(count);
  int64_t ran = 0;
  int failures = 0;
  for (uint64_t seed = first; seed <= last && failures < 3; ++seed) {
    if (!only_seed && !IsMySeed(seed)) continue;
    running_seed = seed;
    ++ran;
    Program program = GenerateProgram(seed, gradients);
    if (only_seed) std::cout << ToCpp(program);
    std::string difference = FindDifference(program);
    if (difference.empty()) continue;
    ++failures;
    ADD_FAILURE() << Report(program);
  }
  EXPECT_GT(ran, 0) << "RANDOM_PROGRAMS and SEED_SHARE leave none";
  EXPECT_EQ(InternalErrors(), std::vector<std::string>());
}

TEST(RandomProgram, GivesTheSameBitsLazilyEagerlyAndPlainly) { RunPrograms(false, ProgramCount()); }

TEST(RandomProgram, GivesTheSameGradientsLazilyAndEagerly) {
  RunPrograms(true, ProgramCount() / 3);
}

TEST(RandomProgram, IsTheSameForTheSameSeed) {
  EXPECT_EQ(ToCpp(GenerateProgram(7)), ToCpp(GenerateProgram(7)));
  EXPECT_NE(ToCpp(GenerateProgram(7)), ToCpp(GenerateProgram(8)));
}

TEST(RandomProgram, UsesEveryOp) {
  for (uint64_t seed = 1; seed <= 300; ++seed) GenerateProgram(seed);
  for (const char* op :
       {"abs",     "add",        "add_",         "all",         "amax",        "amin",   "any",
        "argmax",  "as_strided", "cat",          "clone",       "copy_",       "cumsum", "diagonal",
        "div",     "eq",         "exp",          "expand",      "fill_",       "flip",   "floor",
        "ge",      "getitem",    "index_select", "logical_and", "logical_not", "lt",     "matmul",
        "maximum", "mean",       "minimum",      "mul",         "mul_",        "narrow", "ne",
        "neg",     "neg_",       "permute",      "rand",        "randint",     "randn",  "relu",
        "reshape", "select",     "setitem",      "sigmoid",     "sign",        "sin",    "slice",
        "softmax", "square",     "squeeze",      "stack",       "sub",         "sub_",   "sum",
        "tanh",    "to",         "transpose",    "unsqueeze",   "view",        "where",  "zero_",
        "conj",    "real",       "imag",         "view_as_real"}) {
    EXPECT_GT(GeneratedOps().count(op), 0u) << op << " is never generated";
  }
}

TEST(RandomProgram, HasComplexUnsignedAndStorageTypes) {
  std::map<DType, int> seen, gradients;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    TensorRun run;
    run.Execute(GenerateProgram(seed, seed % 2 == 0));
    for (const Observation& o : run.observations())
      ++(o.gradient ? gradients : seen)[o.value.dtype()];
  }
  for (DType dtype : {c64, u8, u16, u32, DType::kF8E4M3, DType::kF8E5M2, DType::kI4, DType::kU4}) {
    EXPECT_GT(seen[dtype], 0) << dtype;
  }
  EXPECT_GT(gradients[c64], 0);
}

TEST(RandomProgram, CallsMostRecords) {
  for (uint64_t seed = 1; seed <= 1500; ++seed) GenerateProgram(seed, seed % 2 == 0);
  size_t called = 0;
  for (const OpDef* op : CallableRecords()) called += GeneratedOps().count(op->name());
  EXPECT_GT(called, CallableRecords().size() / 2);
}

TEST(RandomProgram, HasGradientsThatAreNotZero) {
  int64_t with = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    TensorRun run;
    run.Execute(GenerateProgram(seed, true));
    for (const Observation& o : run.observations()) {
      for (int64_t i = 0; o.gradient && i < o.value.numel(); ++i) {
        with += o.value.at(i).ToDouble() != 0;
      }
    }
  }
  EXPECT_GT(with, 500);
}

/// Loses writes to transposed tensors when lazy.
bool LosesWritesToTransposed(const Program& program, const Statement& statement) {
  if (statement.kind != Kind::kInPlace) return false;
  for (const Statement& other : program.statements) {
    if (other.result == UsesOf(statement)[0]) return other.op == "transpose";
  }
  return false;
}

TEST(RandomProgram, FindsAndShrinksAnInjectedBug) {
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    Program program = GenerateProgram(seed);
    if (FindDifference(program, LosesWritesToTransposed).empty()) continue;
    auto fails = [&](const Program& p) {
      return !FindDifference(p, LosesWritesToTransposed).empty();
    };
    Program small = ShrinkProgram(program, fails);
    ASSERT_LE(small.statements.size(), 4u) << ToCpp(small);
    std::string text = Report(program, LosesWritesToTransposed);
    EXPECT_NE(text.find("repeat with --seed " + std::to_string(seed)), std::string::npos) << text;
    EXPECT_NE(text.find("= transpose(v"), std::string::npos) << text;
    EXPECT_NE(text.find("int main"), std::string::npos) << text;
    return;
  }
  FAIL() << "3000 programs do not show the injected bug";
}

TEST(RandomProgram, FindsAndShrinksALostBackwardPass) {
  InjectedBug bug = [](const Program&, const Statement& s) { return s.kind == Kind::kBackward; };
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Program program = GenerateProgram(seed, true);
    if (FindDifference(program, bug).empty()) continue;
    auto fails = [&](const Program& p) { return !FindDifference(p, bug).empty(); };
    Program small = ShrinkProgram(program, fails);
    EXPECT_LE(small.statements.size(), 3u) << ToCpp(small);
    EXPECT_NE(ToCpp(small).find(".requires_grad_();"), std::string::npos) << ToCpp(small);
    EXPECT_NE(ToCpp(small).find("backward("), std::string::npos) << ToCpp(small);
    return;
  }
  FAIL() << "100 programs do not show the injected bug";
}

TEST(ShrinkProgram, KeepsWhatTheFailureNeeds) {
  Program program = GenerateProgram(3);
  auto has_reads = [](const Program& p) {
    return std::count_if(p.statements.begin(), p.statements.end(),
                         [](const Statement& s) { return s.kind == Kind::kInput; }) >= 2;
  };
  ASSERT_TRUE(has_reads(program));
  Program small = ShrinkProgram(program, has_reads);
  EXPECT_EQ(small.statements.size(), 2u);
}

TEST(Program, PrintsAsCpp) {
  Program program{5, {}};
  program.statements.push_back(
      {Kind::kInput, "", 0, {}, HostTensor::From(std::vector<float>{1, 2.5, 3, -4}, {2, 2})});
  program.statements.push_back({Kind::kView, "transpose", 1, {Var{0}, int64_t{0}, int64_t{1}}, {}});
  program.statements.push_back({Kind::kInPlace, "add_", -1, {Var{1}, 0.5}, {}});
  program.statements.push_back(
      {Kind::kView, "getitem", 2, {Var{0}, std::vector<IndexItem>{{1, 0, 0}, {0, 2, 1}}}, {}});
  program.statements.push_back({Kind::kStep, "", -1, {}, {}});
  program.statements.push_back({Kind::kDelete, "", -1, {Var{0}}, {}});
  EXPECT_EQ(ToCpp(program), R"(#include <hammock/hammock.h>

#include <complex>
#include <iostream>

using namespace hammock;

int main(int argc, char**) {
  std::optional<EagerMode> eager;
  if (argc > 1) eager.emplace();  // any argument: op by op
  Tensor v0 = tensor(std::vector<float>{1.0f, 2.5f, 3.0f, -4.0f}, Dims{2, 2});
  Tensor v1 = transpose(v0, 0, 1);
  add_(v1, 0.5);
  Tensor v2 = v0.index({1, Slice(0, 2, 1)});
  mark_step();
  v0 = Tensor();
  std::cout << v1 << '\n';
  std::cout << v2 << '\n';
}
)");
}

TEST(Program, PrintsGradientsAsCpp) {
  Statement input{Kind::kInput, "", 0, {}, HostTensor::From(std::vector<float>{1, 2}, {2})};
  input.requires_grad = true;
  EXPECT_EQ(ToCpp(input),
            "Tensor v0 = tensor(std::vector<float>{1.0f, 2.0f}, Dims{2}).requires_grad_();");
  Statement call{Kind::kByName, "topk", 1, {Var{0}, int64_t{1}, Absent{}, false, Absent{}}, {}};
  call.part = 0;
  EXPECT_EQ(ToCpp(call),
            "Tensor v1 = CallOp(\"topk\", {}, {{\"self\", v0}, {\"k\", 1}, {\"largest\", false}})"
            ".ToList().at(0).ToTensor().clone();");
  Statement write{Kind::kInPlace, "add_", -1, {Var{1}, 0.5}, {}};
  write.no_grad = true;
  EXPECT_EQ(ToCpp(write), "{ NoGradGuard no_grad; add_(v1, 0.5); }");
  EXPECT_EQ(ToCpp({Kind::kBackward, "", -1, {Var{1}}, {}}),
            "if (v1.requires_grad()) "
            "backward(std::vector{sum(v1.is_complex() ? view_as_real(v1) : v1)}, {}, true);");
  EXPECT_EQ(ToCpp({Kind::kGradient, "", 2, {Var{0}}, {}}),
            "Tensor v2 = v0.grad().defined() ? v0.grad().clone() : zeros_like(v0);");
}

TEST(PlainTensor, WritesGoThroughViews) {
  PlainTensor base(HostTensor::From(std::vector<int64_t>{0, 1, 2, 3, 4, 5}, {2, 3}));
  PlainTensor view = base.View({Kind::kView, "transpose", 1, {Var{0}, int64_t{0}, int64_t{1}}, {}})
                         .View({Kind::kView, "select", 2, {Var{1}, int64_t{0}, int64_t{2}}, {}});
  EXPECT_EQ(view.strides(), Dims({3}));
  view.Write(HostTensor::From(Scalar(9)));
  HostTensor expected = HostTensor::From(std::vector<int64_t>{0, 1, 9, 3, 4, 9}, {2, 3});
  EXPECT_TRUE(base.Read().SameBits(expected));
  EXPECT_TRUE(base.SharesElement(view));
}

TEST(PlainTensor, KnowsWhenSizesCanBeViewed) {
  EXPECT_EQ(ViewStrides({2, 3}, {3, 1}, {6}), Dims({1}));
  EXPECT_EQ(ViewStrides({2, 3}, {1, 2}, {6}), std::nullopt);
  EXPECT_EQ(ViewStrides({4, 3}, {6, 1}, {2, 2, 3}), Dims({12, 6, 1}));
  EXPECT_EQ(ViewStrides({}, {}, {1, 1}), Dims({1, 1}));
}

}  // namespace
}  // namespace hammock::testing

int main(int argc, char** argv) {
  for (int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS}) {
    std::signal(signal, hammock::testing::PrintSeed);
  }
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], "--seed") == 0) {
      hammock::testing::only_seed = std::strtoull(argv[i + 1], nullptr, 10);
    }
  }
  return RUN_ALL_TESTS();
}
