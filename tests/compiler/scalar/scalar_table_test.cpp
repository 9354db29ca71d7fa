// Every function of scalar_fn.inc has a record, and is computed wherever its row says so.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

#include "backends/cpu/emit/emit_values.h"
#include "backends/cpu/interpret/lane_functions.h"
#include "backends/cpu/interpret/scalar_loops.h"
#include "backends/cuda/emit/cuda_text.h"
#include "backends/run_graph.h"
#include "compiler/loops/computed_type.h"
#include "compiler/scalar/scalar_bodies.h"

namespace hammock {
namespace {

constexpr DType kDTypes[] = {DType::kBool, DType::kU8,  DType::kU16, DType::kU32, DType::kU64,
                             DType::kI8,   DType::kI16, DType::kI32, DType::kI64, DType::kF16,
                             DType::kBF16, DType::kF32, DType::kF64};

std::vector<ScalarFn> AllFunctions() {
  std::vector<ScalarFn> all;
  for (size_t i = 1; i < kNumScalarFns; ++i) all.push_back(static_cast<ScalarFn>(i));
  return all;
}

class ScalarTable : public testing::TestWithParam<ScalarFn> {
 protected:
  ScalarFn fn() const { return GetParam(); }
  const ScalarFnInfo& info() const { return InfoOf(fn()); }
  const OpDef& op() const { return op_registry::Get(NameOf(fn())); }

  /// One element for each operand. A select's first one is a truth value.
  std::vector<HostTensor> Operands(DType dtype) const {
    std::vector<HostTensor> operands(static_cast<size_t>(ArityOf(fn())), Make(dtype, {1}));
    if (fn() == ScalarFn::kSelect) operands[0] = Make(DType::kBool, {1});
    return operands;
  }

  /// The dtypes that the op computes in, as its record says.
  std::vector<DType> ComputedTypes() const {
    std::vector<DType> computed;
    for (DType dtype : kDTypes) {
      std::vector<HostTensor> operands = Operands(dtype);
      std::vector<const Shape*> types;
      for (const HostTensor& operand : operands) types.push_back(&operand.shape());
      try {
        InferShapes(op(), types, {});
        if (ComputeDType(op(), types) == dtype) computed.push_back(dtype);
      } catch (const Error&) {  // refused
      }
    }
    return computed;
  }
};

TEST_P(ScalarTable, IsThatOfItsRecord) {
  ASSERT_TRUE(op_registry::Find(NameOf(fn()))) << "no op of this name";
  EXPECT_EQ(op().scalar, fn());
  EXPECT_TRUE(op().IsPrimitive());
  EXPECT_EQ(op().info().operand_args.size(), static_cast<size_t>(ArityOf(fn())));
  EXPECT_EQ(op().can_fail, info().raises != ScalarError::kNone);
  bool is_truth = op().rule == DTypeRule::kCompare || op().rule == DTypeRule::kLogical ||
                  op().rule == DTypeRule::kFloatTest;
  EXPECT_EQ(IsTruth(fn()), is_truth);
}

TEST_P(ScalarTable, AgreesWithItself) {
  EXPECT_GE(info().cost, 1);
  EXPECT_EQ(info().f32_ulps == 0, info().f64_ulps == 0);
  if (info().exact || info().floats == ScalarBody::kAbsent) {
    EXPECT_EQ(info().f32_ulps, 0);
  }
  if (info().raises == ScalarError::kDivide) {
    EXPECT_EQ(info().ints, ScalarBody::kByLane);
  }
}

TEST_P(ScalarTable, IsThereForWhatItsOpComputesIn) {
  bool floats = false, ints = false;
  for (DType dtype : ComputedTypes()) (IsFloat(dtype) ? floats : ints) = true;
  EXPECT_EQ(info().floats != ScalarBody::kAbsent, floats);
  EXPECT_EQ(info().ints != ScalarBody::kAbsent, ints);
}

TEST_P(ScalarTable, IsComputedByTheReference) {
  for (DType dtype : ComputedTypes()) {
    EXPECT_NO_THROW(Eval(NameOf(fn()), Operands(dtype))) << NameOf(dtype);
  }
}

TEST_P(ScalarTable, IsInterpreted) {
  if (fn() == ScalarFn::kSelect) return;  // written out in the interpreter
  for (DType dtype : ComputedTypes()) {
    DType held = compiler::IsNarrowFloat(dtype) ? DType::kF32 : dtype;
    bool has_loop = cpu::UnaryLoopFor(fn(), held) || cpu::BinaryLoopFor(fn(), held);
    bool has_lane = cpu::LaneUnaryFor(fn(), dtype) || cpu::LaneBinaryFor(fn(), dtype) ||
                    cpu::LaneIntBinaryFor(fn(), dtype);
    EXPECT_TRUE(compiler::HasBody(fn(), dtype) ? has_loop : has_lane) << NameOf(dtype);
  }
}

TEST_P(ScalarTable, IsPrintedAsLlvmIr) {
  for (DType dtype : ComputedTypes()) {
    compiler::IrText ir;
    ir.BeginFunction("void @f()");
    compiler::Instr instr{.kind = compiler::Instr::Kind::kScalar,
                          .dtype = IsTruth(fn()) ? DType::kBool : dtype,
                          .fn = fn()};
    std::vector<std::string> operands(static_cast<size_t>(ArityOf(fn())), "%x");
    std::string value = cpu::ValueEmitter(ir).Scalar(instr, dtype, 16, operands);
    ir.EndFunction();
    EXPECT_NE(value, "") << NameOf(dtype);
  }
}

TEST_P(ScalarTable, IsPrintedAsCuda) {
  for (DType dtype : ComputedTypes()) {
    if (fn() == ScalarFn::kGcd && dtype == DType::kBool) continue;
    ASSERT_TRUE(cuda::HasText(fn(), dtype)) << NameOf(dtype);
    std::vector<std::string> operands(static_cast<size_t>(ArityOf(fn())), "x");
    EXPECT_NE(cuda::ScalarText().Scalar(fn(), dtype, operands), "") << NameOf(dtype);
  }
}

/// Functions that the text calls, and that neither it nor the language nor the program around it
/// defines (hammock/compiler/scalar_text.h).
std::set<std::string> UndefinedFunctions(const std::string& text) {
  // Keywords before a parenthesis, built-in functions of OpenCL C, and those that programs define.
  std::set<std::string> known = {
      "if",      "for",      "while",     "return", "as_int", "as_float", "as_long", "as_double",
      "ceil",    "copysign", "cos",       "erf",    "erfc",   "exp",      "expm1",   "fabs",
      "floor",   "fma",      "fmax",      "fmin",   "fmod",   "lgamma",   "log",     "log1p",
      "pow",     "rint",     "sin",       "sqrt",   "tan",    "trunc",    "to_f16",  "from_f16",
      "to_bf16", "to_i64",   "from_bf16", "to_u64"};
  std::set<std::string> called;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line.resize(std::min(line.find("//"), line.size()));
    if (line.starts_with("#define SPECIAL_LGAMMA ")) known.insert("SPECIAL_LGAMMA");
    const bool defines = line.starts_with("static inline ") || line.starts_with("SPECIAL_FUNCTION");
    const size_t first = line.find('(');
    for (size_t paren = first; paren != std::string::npos; paren = line.find('(', paren + 1)) {
      size_t begin = paren;
      while (begin > 0 && (std::isalnum(line[begin - 1]) || line[begin - 1] == '_')) --begin;
      if (begin == paren) continue;
      (defines && paren == first ? known : called).insert(line.substr(begin, paren - begin));
    }
  }
  std::set<std::string> undefined;
  std::ranges::set_difference(called, known, std::inserter(undefined, undefined.end()));
  return undefined;
}

TEST_P(ScalarTable, IsPrintedAsOpenClC) {
  for (DType dtype : ComputedTypes()) {
    if (fn() == ScalarFn::kGcd && dtype == DType::kBool) continue;
    ASSERT_TRUE(compiler::HasText(fn(), dtype)) << NameOf(dtype);
    compiler::ScalarText scalars(compiler::kOpenClC);
    std::vector<std::string> operands(static_cast<size_t>(ArityOf(fn())), "x");
    EXPECT_NE(scalars.Scalar(fn(), dtype, operands), "") << NameOf(dtype);
    EXPECT_EQ(UndefinedFunctions(scalars.Functions()), std::set<std::string>()) << NameOf(dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ScalarTable, testing::ValuesIn(AllFunctions()),
                         [](const testing::TestParamInfo<ScalarFn>& fn) {
                           return std::string(NameOf(fn.param));
                         });

TEST(NoBody, NamesTheFunction) {
  // A row that promises a body which no switch has.
  EXPECT_THROW(compiler::Unary(ScalarFn::kLgamma, compiler::Number<float>{1}), InternalError);
  EXPECT_THROW(compiler::Binary(ScalarFn::kGcd, compiler::Number<int>{1}, compiler::Number<int>{1}),
               InternalError);
}

}  // namespace
}  // namespace hammock
