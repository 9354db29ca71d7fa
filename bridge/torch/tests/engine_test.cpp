// Graphs of aten ops by Hammock against PyTorch's own interpreter, in strict mode: recorded in the
// first run, replayed in the second.

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/ir/irparser.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/library.h>

#include <cmath>

#include "engine/jit_graph.h"
#include "engine/kept_inputs.h"

namespace hammock_torch {
namespace {

using hammock::Any;

// A library that calls something else by a name of PyTorch's.
TORCH_LIBRARY(hammock_test, m) {
  m.def("relu(Tensor self) -> Tensor", [](const at::Tensor& self) { return self * 2; });
}

std::shared_ptr<torch::jit::Graph> Parse(const std::string& text) {
  auto graph = std::make_shared<torch::jit::Graph>();
  torch::jit::parseIR(text, graph.get());
  return graph;
}

struct StrictScope {
  explicit StrictScope(bool strict) : before(IsStrict()) { SetStrict(strict); }
  ~StrictScope() { SetStrict(before); }
  bool before;
};

std::vector<c10::IValue> ByTorch(const std::shared_ptr<torch::jit::Graph>& graph,
                                 std::vector<c10::IValue> inputs) {
  at::NoGradGuard no_grad;
  torch::jit::GraphExecutor executor(graph->copy(), "test");
  torch::jit::Stack stack = std::move(inputs);
  executor.run(stack);
  return stack;
}

std::vector<c10::IValue> ByHammock(const Program& program, const std::vector<c10::IValue>& inputs) {
  std::vector<Any> given;
  for (const c10::IValue& input : inputs) given.push_back(FromIValue(input, program.device()));
  std::vector<c10::IValue> results;
  for (const Any& result : program.Run(given)) {
    results.push_back(ToIValue(result, c10::AnyType::get()));
  }
  return results;
}

void ExpectSame(const c10::IValue& expected, const c10::IValue& actual) {
  if (!expected.isTensor()) {
    EXPECT_EQ(expected, actual);
    return;
  }
  at::Tensor x = expected.toTensor(), y = actual.toTensor();
  EXPECT_EQ(x.scalar_type(), y.scalar_type());
  ASSERT_EQ(x.sizes(), y.sizes());
  EXPECT_TRUE(at::allclose(x, y, 1e-4, 1e-5, true)) << x << "\n" << y;
}

void ExpectLikeTorch(const std::string& text, const std::vector<c10::IValue>& inputs) {
  StrictScope strict(true);
  auto graph = Parse(text);
  Program program = ProgramOf(*graph, hammock::Device("cpu"));
  for (int run = 0; run < 2; ++run) {
    at::manual_seed(5);
    std::vector<c10::IValue> expected = ByTorch(graph, inputs);
    at::manual_seed(5);
    std::vector<c10::IValue> actual = ByHammock(program, inputs);
    ASSERT_EQ(expected.size(), actual.size());
    for (size_t i = 0; i < expected.size(); ++i) ExpectSame(expected[i], actual[i]);
  }
  EXPECT_EQ(program.replays(), 1) << "the second run is a replay";
}

TEST(Engine, ChoosesAmongRecordsByArguments) {
  at::Tensor x = at::randn({3, 4}), y = at::randn({4});
  ExpectLikeTorch(R"(graph(%x : Tensor, %y : Tensor):
    %one : int = prim::Constant[value=1]()
    %three : int = prim::Constant[value=3]()
    %a : Tensor = aten::add(%x, %y, %one)
    %b : Tensor = aten::add(%x, %y, %three)
    %c : Tensor = aten::rsub(%a, %three, %one)
    return (%a, %b, %c))",
                  {x, y});
}

TEST(Engine, TakesNumbersAndLists) {
  ExpectLikeTorch(R"(graph(%x : Tensor, %n : int):
    %none : NoneType = prim::Constant()
    %false : bool = prim::Constant[value=0]()
    %dims : int[] = prim::ListConstruct(%n)
    %s : Tensor = aten::sum(%x, %dims, %false, %none)
    %m : Tensor = aten::mul(%s, %n)
    return (%m, %n))",
                  {at::randn({3, 4}), int64_t{1}});
}

TEST(Engine, ConvolutionWithGradients) {
  at::Tensor x = at::randn({2, 4, 6, 5}), w = at::randn({6, 2, 3, 2}), b = at::randn({6});
  at::Tensor g = at::randn({2, 6, 3, 4});
  ExpectLikeTorch(R"(graph(%x : Tensor, %w : Tensor, %b : Tensor, %g : Tensor):
    %one : int = prim::Constant[value=1]()
    %two : int = prim::Constant[value=2]()
    %zero : int = prim::Constant[value=0]()
    %f : bool = prim::Constant[value=0]()
    %t : bool = prim::Constant[value=1]()
    %six : int = prim::Constant[value=6]()
    %stride : int[] = prim::ListConstruct(%two, %one)
    %padding : int[] = prim::ListConstruct(%one, %zero)
    %dilation : int[] = prim::ListConstruct(%one)
    %none : int[] = prim::ListConstruct(%zero, %zero)
    %bias : int[] = prim::ListConstruct(%six)
    %mask : bool[] = prim::ListConstruct(%t, %t, %t)
    %y : Tensor = aten::convolution(%x, %w, %b, %stride, %padding, %dilation, %f, %none, %two)
    %gx : Tensor, %gw : Tensor, %gb : Tensor = aten::convolution_backward(%g, %x, %w, %bias, %stride, %padding, %dilation, %f, %none, %two, %mask)
    return (%y, %gx, %gw, %gb))",
                  {x, w, b, g});
}

TEST(Engine, LayerNormWithGradients) {
  at::Tensor x = at::randn({5, 8}), w = at::randn({8}), b = at::randn({8}), g = at::randn({5, 8});
  ExpectLikeTorch(R"(graph(%x : Tensor, %w : Tensor, %b : Tensor, %g : Tensor):
    %n : int = prim::Constant[value=8]()
    %eps : float = prim::Constant[value=0.001]()
    %t : bool = prim::Constant[value=1]()
    %shape : int[] = prim::ListConstruct(%n)
    %mask : bool[] = prim::ListConstruct(%t, %t, %t)
    %y : Tensor, %m : Tensor, %r : Tensor = aten::native_layer_norm(%x, %shape, %w, %b, %eps)
    %gx : Tensor, %gw : Tensor, %gb : Tensor = aten::native_layer_norm_backward(%g, %x, %shape, %m, %r, %w, %b, %mask)
    return (%y, %m, %r, %gx, %gw, %gb))",
                  {x, w, b, g});
}

TEST(Engine, BatchNormWithGradients) {
  at::Tensor x = at::randn({5, 3, 4}), w = at::randn({3}), b = at::randn({3});
  at::Tensor g = at::randn({5, 3, 4});
  ExpectLikeTorch(R"(graph(%x : Tensor, %w : Tensor, %b : Tensor, %g : Tensor):
    %none : NoneType = prim::Constant()
    %eps : float = prim::Constant[value=0.001]()
    %t : bool = prim::Constant[value=1]()
    %mask : bool[] = prim::ListConstruct(%t, %t, %t)
    %y : Tensor, %m : Tensor, %r : Tensor = aten::native_batch_norm(%x, %w, %b, %none, %none, %t, %eps, %eps)
    %gx : Tensor, %gw : Tensor, %gb : Tensor = aten::native_batch_norm_backward(%g, %x, %w, %none, %none, %m, %r, %t, %eps, %mask)
    return (%y, %m, %r, %gx, %gw, %gb))",
                  {x, w, b, g});
}

TEST(Engine, LossesWithGradients) {
  at::Tensor x = at::randn({6, 5}).log_softmax(1), target = at::randint(0, 5, {6});
  at::Tensor weight = at::rand({5}), g = at::randn({});
  target[2] = 1;
  ExpectLikeTorch(R"(graph(%x : Tensor, %target : Tensor, %weight : Tensor, %g : Tensor):
    %mean : int = prim::Constant[value=1]()
    %ignored : int = prim::Constant[value=1]()
    %loss : Tensor, %total : Tensor = aten::nll_loss_forward(%x, %target, %weight, %mean, %ignored)
    %gx : Tensor = aten::nll_loss_backward(%g, %x, %target, %weight, %mean, %ignored, %total)
    return (%loss, %total, %gx))",
                  {x, target, weight, g});
}

TEST(Engine, RandomNumbersAreThoseOfTorch) {
  ExpectLikeTorch(R"(graph(%x : Tensor, %p : Tensor):
    %none : NoneType = prim::Constant()
    %half : float = prim::Constant[value=0.5]()
    %t : bool = prim::Constant[value=1]()
    %y : Tensor, %mask : Tensor = aten::native_dropout(%x, %half, %t)
    %z : Tensor = aten::bernoulli(%p, %none)
    %d : Tensor = aten::dropout(%x, %half, %t)
    %e : Tensor = aten::exponential(%p, %half, %none)
    %n : Tensor = aten::normal(%p, %half, %none)
    return (%y, %mask, %z, %d, %e, %n))",
                  {at::randn({7, 9}), at::rand({40})});
}

TEST(Engine, RecordsDrawNoRandomNumbers) {
  auto& dispatcher = c10::Dispatcher::singleton();
  int random = 0;
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    auto op = dispatcher.findSchema(name);
    if (!op) continue;
    const auto& arguments = op->schema().arguments();
    bool draws = std::any_of(arguments.begin(), arguments.end(), [](const c10::Argument& argument) {
      return argument.type()->str().find("Generator") != std::string::npos;
    });
    if (!draws && !op->hasTag(at::Tag::nondeterministic_seeded)) continue;
    ++random;
    EXPECT_FALSE(AtenOp::Of(op->schema()).by_records()) << name;
  }
  EXPECT_GT(random, 60);
}

TEST(Engine, WritesToItsInputs) {
  // By value: the tensor that was given has the sum.
  StrictScope strict(true);
  auto graph = Parse(R"(graph(%x : Tensor, %y : Tensor):
    %one : int = prim::Constant[value=1]()
    %z : Tensor = aten::add_(%x, %y, %one)
    return (%z))");
  Program program = ProgramOf(*graph, hammock::Device("cpu"));
  Any x = FromIValue(at::ones({3}), program.device());
  Any y = FromIValue(at::ones({3}), program.device());
  for (int run = 0; run < 3; ++run) program.Run({x, y});
  EXPECT_TRUE(ExportTensor(x.ToTensor()).equal(at::full({3}, 4.0)));
}

hammock::Any CallOverload(const char* name, const char* overload, std::vector<Any> values) {
  auto handle = c10::Dispatcher::singleton().findSchema({name, overload});
  return AtenOp::Of(handle->schema()).Call(values);
}

TEST(Engine, OutArgumentsAreWritten) {
  hammock::Device cpu("cpu");
  at::Tensor x = at::randn({2, 3}), y = at::randn({2, 3});
  // `cat` has an adaptor of all overloads, `sort` a record.
  Any out = FromIValue(at::zeros({4, 3}), cpu);
  hammock::AnyList both = {FromIValue(x, cpu), FromIValue(y, cpu)};
  CallOverload("aten::cat", "out", {both, Any(int64_t{0}), out});
  EXPECT_TRUE(ExportTensor(out.ToTensor()).equal(at::cat({x, y})));
  Any values = FromIValue(at::zeros({2, 3}), cpu);
  Any indices = FromIValue(at::zeros({2, 3}, at::kLong), cpu);
  CallOverload("aten::sort", "values", {both[0], Any(int64_t{1}), Any(false), values, indices});
  EXPECT_TRUE(ExportTensor(values.ToTensor()).equal(std::get<0>(x.sort(1))));
  EXPECT_TRUE(ExportTensor(indices.ToTensor()).equal(std::get<1>(x.sort(1))));
}

TEST(Engine, OutArgumentsAreWrittenBesideOthers) {
  if (!c10::Dispatcher::singleton().findSchema({"aten::_native_batch_norm_legit", "out"})) {
    GTEST_SKIP() << "this version of PyTorch has no such operator";
  }
  hammock::Device cpu("cpu");
  at::Tensor x = at::randn({8, 3, 4}), one = at::ones({3}), none = at::zeros({3});
  at::Tensor mean = at::zeros({3}), var = at::ones({3});
  at::Tensor expected = at::batch_norm(x, one, none, mean, var, true, 0.1, 1e-5, false);
  auto given = [&](const at::Tensor& tensor) { return FromIValue(tensor.clone(), cpu); };
  Any our_mean = given(none), our_var = given(one), out = given(x);
  CallOverload("aten::_native_batch_norm_legit", "out",
               {given(x), given(one), given(none), our_mean, our_var, Any(true), Any(0.1),
                Any(1e-5), out, given(none), given(none)});
  ExpectSame(expected, ExportTensor(out.ToTensor()));
  ExpectSame(mean, ExportTensor(our_mean.ToTensor()));
  ExpectSame(var, ExportTensor(our_var.ToTensor()));
}

Program Scaled() {
  Program program(hammock::Device("cpu"));
  int x = program.AddInput(), w = program.AddInput();
  int product = program.AddCall("aten::mm", {x, w})[0];
  program.SetOutputs({product, w});
  return program;
}

TEST(RunNow, ComputesInPlaceAndPassesInputsOn) {
  StrictScope strict(true);
  Program program = Scaled();
  for (int run = 0; run < 5; ++run) {
    at::Tensor x = at::randn({4, 3}), w = at::randn({3, 2});
    std::vector<c10::IValue> results = program.RunNow(std::vector<c10::IValue>{x, w});
    ExpectSame(at::mm(x, w), results[0]);
    EXPECT_TRUE(results[1].toTensor().is_same(w));
  }
  EXPECT_EQ(program.replays(), 4);
}

TEST(RunNow, SeesWhatWasWrittenToAnInputThatComesAgain) {
  Program program = Scaled();
  at::Tensor x = at::randn({4, 3}), w = at::randn({3, 3});
  for (int run = 0; run < 8; ++run) {
    // The same memory in another order, new values, and the same once more.
    at::Tensor given = run % 4 == 1 ? w.t() : w;
    ExpectSame(at::mm(x, given), program.RunNow(std::vector<c10::IValue>{x, given})[0]);
    if (run == 5) w.mul_(2);
  }
}

TEST(RunNow, TensorsThatCountVersionsOnTheirOwnAreNotTheSame) {
  Program program = Scaled();
  at::Tensor x = at::randn({4, 3}), w = at::randn({3, 3});
  for (int run = 0; run < 6; ++run) {
    // As `w.data` in Python: version 0 whatever was written to `w`. Not row-major: it is copied.
    at::Tensor given = w.variable_data().t();
    ExpectSame(at::mm(x, given), program.RunNow(std::vector<c10::IValue>{x, given})[0]);
    w.mul_(2);
  }
}

TEST(RunNow, UpdatesThatRaiseNoVersionAreSeen) {
  Program program = Scaled();
  at::Tensor x = at::randn({4, 64}), w = at::randn({64, 32});
  for (int run = 0; run < 6; ++run) {
    ExpectSame(at::mm(x, w), program.RunNow(std::vector<c10::IValue>{x, w})[0]);
    // As `w.data.mul_(2)` in Python. What was packed of `w` is stale.
    if (run >= 3) w.variable_data().mul_(2);
  }
}

TEST(RunNow, WritesOfOneElementThatRaiseNoVersionAreSeen) {
  Program program = Scaled();
  at::Tensor x = at::randn({4, 64}), w = at::randn({64, 32});
  for (const at::Tensor& given : {w, w.t().contiguous().t()}) {
    for (int run = 0; run < 8; ++run) {
      ExpectSame(at::mm(x, given), program.RunNow(std::vector<c10::IValue>{x, given})[0]);
      // As `w.data[i, 7] = 10` in Python.
      if (run >= 3) given.variable_data()[run * 8][7] = 10.0 * run;
    }
  }
}

TEST(KeptInputs, ChecksumsSeeAnyWrite) {
  for (int64_t size : {1, 7, 64, 1000, 5000}) {
    at::Tensor x = at::zeros({size});
    uint64_t before = ChecksumOf(x);
    for (int64_t i = 0; i < size; i += std::max<int64_t>(size / 7, 1)) {
      x[i] = 1;
      EXPECT_NE(ChecksumOf(x), before) << size << " " << i;
      x[i] = 0;
    }
    EXPECT_EQ(ChecksumOf(x), before);
  }
  // Values that change places, whole blocks apart too.
  at::Tensor x = at::zeros({1 << 14});
  x[0] = 1;
  uint64_t before = ChecksumOf(x);
  for (int64_t i = 1; i < (1 << 14); i *= 2) {
    EXPECT_NE(ChecksumOf(x.roll(i)), before) << i;
  }
}

TEST(RunNow, ResultsAreNobodyElses) {
  Program program(hammock::Device("cpu"));
  int x = program.AddInput();
  int sum = program.AddCall("aten::relu", {x})[0];
  program.SetOutputs({sum, sum, program.AddCall("aten::alias", {x})[0]});
  at::Tensor given = at::rand({3, 2});
  for (int run = 0; run < 4; ++run) {
    at::Tensor expected = given.clone();
    for (const c10::IValue& result : program.RunNow(std::vector<c10::IValue>{given})) {
      ExpectSame(expected, result);
      result.toTensor().zero_();
    }
    EXPECT_TRUE(given.equal(expected));
  }
}

TEST(RunNow, KeepsNoInputAlive) {
  Program program = Scaled();
  at::Tensor w = at::randn({3, 2});
  c10::weak_intrusive_ptr<c10::StorageImpl> memory = w.storage().getWeakStorageImpl();
  for (int run = 0; run < 5; ++run) {
    at::Tensor x = at::randn({4, 3});
    memory = x.storage().getWeakStorageImpl();
    program.RunNow(std::vector<c10::IValue>{x, w});
  }
  EXPECT_TRUE(memory.expired());
}

constexpr char kBranch[] = R"(graph(%x : Tensor, %n : int):
    %zero : int = prim::Constant[value=0]()
    %one : int = prim::Constant[value=1]()
    %t : bool = prim::Constant[value=1]()
    %positive : bool = aten::gt(%n, %zero)
    %y : Tensor = prim::If(%positive)
      block0():
        %a : Tensor = aten::add(%x, %n, %one)
        -> (%a)
      block1():
        %b : Tensor = aten::neg(%x)
        -> (%b)
    %z : Tensor = prim::Loop(%n, %t, %y)
      block0(%i : int, %c : Tensor):
        %d : Tensor = aten::mul(%c, %x)
        -> (%t, %d)
    return (%z))";

TEST(RunNow, ZerosOfBothSignsAreTwoNumbers) {
  auto graph = Parse(R"(graph(%x : Tensor, %factor : float):
    %y : Tensor = aten::mul(%x, %factor)
    return (%y))");
  Program program = ProgramOf(*graph, hammock::Device("cpu"));
  for (double factor : {0.0, 0.0, 0.0, -0.0, -0.0, -0.0}) {
    std::vector<c10::IValue> results =
        program.RunNow(std::vector<c10::IValue>{at::ones({2}), factor});
    EXPECT_EQ(std::signbit(results[0].toTensor()[0].item<double>()), std::signbit(factor));
  }
}

TEST(Engine, BranchesAndLoops) {
  for (int64_t n : {0, 1, 3}) ExpectLikeTorch(kBranch, {at::randn({4}), n});
}

constexpr char kUnknown[] = R"(graph(%x : Tensor):
    %n : int = prim::Constant[value=2]()
    %a : Tensor = aten::mul(%x, %n)
    %b : Tensor = aten::matrix_exp_backward(%a, %a)
    %c : Tensor = aten::mul(%b, %n)
    return (%c))";

TEST(Engine, OneMissingOpCostsOneOp) {
  StrictScope strict(false);
  ResetFallbackCounts();
  auto graph = Parse(kUnknown);
  at::Tensor x = at::randn({3, 3});
  Program program = ProgramOf(*graph, hammock::Device("cpu"));
  for (int run = 0; run < 2; ++run) ExpectSame(ByTorch(graph, {x})[0], ByHammock(program, {x})[0]);
  std::map<std::string, int64_t> expected = {{"aten::matrix_exp_backward", 2}};
  EXPECT_EQ(FallbackCounts(), expected);
}

TEST(Engine, OpsOfOtherLibrariesAreTheirs) {
  StrictScope strict(false);
  ResetFallbackCounts();
  auto graph = Parse(R"(graph(%x : Tensor):
    %y : Tensor = hammock_test::relu(%x)
    %z : Tensor = aten::relu(%y)
    return (%z))");
  Program program = ProgramOf(*graph, hammock::Device("cpu"));
  for (int run = 0; run < 2; ++run) {
    ExpectSame(at::full({2}, 6.0), ByHammock(program, {at::full({2}, 3.0)})[0]);
  }
  std::map<std::string, int64_t> expected = {{"hammock_test::relu", 2}};
  EXPECT_EQ(FallbackCounts(), expected);
}

TEST(Engine, StrictModeNamesTheMissingOp) {
  StrictScope strict(true);
  Program program = ProgramOf(*Parse(kUnknown), hammock::Device("cpu"));
  try {
    ByHammock(program, {at::randn({3, 3})});
    FAIL() << "no error";
  } catch (const Unsupported& error) {
    EXPECT_NE(std::string(error.what()).find("aten::matrix_exp_backward"), std::string::npos);
  }
}

TEST(Engine, WrongArgumentsAreTorchErrors) {
  StrictScope strict(false);
  auto graph = Parse(R"(graph(%x : Tensor, %y : Tensor):
    %z : Tensor = aten::mm(%x, %y)
    return (%z))");
  Program program = ProgramOf(*graph, hammock::Device("cpu"));
  EXPECT_THROW(ByHammock(program, {at::randn({2, 3}), at::randn({2, 3})}), c10::Error);
}

TEST(Values, ImportsWithoutACopyAndExportsItsOwnMemory) {
  at::Tensor x = at::randn({4, 3});
  hammock::Tensor imported = ImportTensor(x, hammock::Device("cpu"));
  at::Tensor exported = ExportTensor(imported);
  EXPECT_NE(exported.data_ptr(), x.data_ptr());
  exported.zero_();
  EXPECT_FALSE(x.equal(exported));
  at::Tensor turned = ExportTensor(ImportTensor(x.t(), hammock::Device("cpu")));
  EXPECT_TRUE(turned.equal(x.t()));
  EXPECT_EQ(ExportTensor(ImportTensor(at::empty({0, 2}), hammock::Device("cpu"))).size(1), 2);
}

}  // namespace
}  // namespace hammock_torch
