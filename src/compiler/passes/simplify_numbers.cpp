#include <bit>
#include <cmath>

#include "compiler/passes/repeated_element.h"
#include "compiler/passes/simplify_rules.h"
#include "ir/primitives.h"

namespace hammock {

namespace {

using Result = std::optional<GraphValue>;

/// Whether all elements of `value` are that number. 0.0 is not -0.0; an integer 0 is 0.0.
bool Is(const Rewriter& r, GraphValue value, double number) {
  std::optional<Scalar> constant = ConstantOf(r.graph(), value);
  if (!constant) return false;
  return std::bit_cast<uint64_t>(constant->ToDouble()) == std::bit_cast<uint64_t>(number);
}

bool IsFloatNode(const GraphNode& node) { return IsFloat(node.type().dtype()); }

/// The other operand, if one is that number.
Result OtherThan(const Rewriter& r, const GraphNode& node, double number) {
  if (Is(r, node.inputs[1], number)) return node.inputs[0];
  if (Is(r, node.inputs[0], number)) return node.inputs[1];
  return std::nullopt;
}

/// The first operand, if the second is that number.
Result FirstIfSecondIs(const Rewriter& r, const GraphNode& node, double number) {
  if (Is(r, node.inputs[1], number)) return node.inputs[0];
  return std::nullopt;
}

// constant {value=2.0, dtype=f32} -> constant {value=2.0:f32, dtype=f32}: equal ones look equal
Result ValueOfOwnDType(Rewriter& r, const GraphNode& node) {
  Scalar value = node.attrs[0].scalar().To(node.attrs[1].dtype());
  if (Attr(value) == node.attrs[0]) return std::nullopt;
  return r.Make(ops::kConstant, {}, {Attr(value), node.attrs[1]}, node.type());
}

// x + 0 -> x for integers; for floats x + -0.0, since -0.0 + 0.0 is 0.0
Result AddNothing(Rewriter& r, const GraphNode& node) {
  return OtherThan(r, node, IsFloatNode(node) ? -0.0 : 0.0);
}

// x - 0 -> x
Result SubtractNothing(Rewriter& r, const GraphNode& node) { return FirstIfSecondIs(r, node, 0.0); }

// x * 1 -> x
Result TimesOne(Rewriter& r, const GraphNode& node) { return OtherThan(r, node, 1.0); }

// x * 0 -> 0 for integers: a float may be infinite, NaN or negative
Result TimesZero(Rewriter& r, const GraphNode& node) {
  Result x = OtherThan(r, node, 0.0);
  if (IsFloatNode(node) || !x || r.MayRaise(*x)) return std::nullopt;
  DType dtype = node.type().dtype();
  GraphValue zero =
      r.Make(ops::kConstant, {}, {Attr(Scalar(0).To(dtype)), Attr(dtype)}, Shape(dtype, {}));
  return r.Fill(zero, node.type().sizes());
}

// x / 1 -> x, pow(x, 1) -> x
Result SecondIsOne(Rewriter& r, const GraphNode& node) { return FirstIfSecondIs(r, node, 1.0); }

// floor_divide(x, 1) -> x, trunc_divide(x, 1) -> x for integers
Result DividedByOne(Rewriter& r, const GraphNode& node) {
  return IsFloatNode(node) ? std::nullopt : FirstIfSecondIs(r, node, 1.0);
}

// x | 0 -> x, x ^ 0 -> x
Result BitsWithNothing(Rewriter& r, const GraphNode& node) { return OtherThan(r, node, 0.0); }

// x << 0 -> x, x >> 0 -> x
Result ShiftByNothing(Rewriter& r, const GraphNode& node) { return FirstIfSecondIs(r, node, 0.0); }

// neg(neg(x)) -> x; of logical_not and bitwise_not too
Result Twice(Rewriter& r, const GraphNode& node) {
  if (r.OpOf(node.inputs[0]) != node.op) return std::nullopt;
  return r.Producer(node.inputs[0]).inputs[0];
}

// where(true, x, y) -> x, where(false, x, y) -> y, where(c, x, x) -> x
Result KnownChoice(Rewriter& r, const GraphNode& node) {
  if (node.inputs[1] == node.inputs[2]) {
    return r.MayRaise(node.inputs[0]) ? std::nullopt : Result(node.inputs[1]);
  }
  std::optional<Scalar> condition = ConstantOf(r.graph(), node.inputs[0]);
  if (!condition) return std::nullopt;
  GraphValue chosen = node.inputs[condition->ToBool() ? 1 : 2];
  GraphValue other = node.inputs[condition->ToBool() ? 2 : 1];
  return r.MayRaise(other) ? std::nullopt : Result(chosen);
}

// cast(x, its dtype) -> x; of bitcast too
Result ToOwnDType(Rewriter&, const GraphNode& node) { return node.inputs[0]; }

/// Bits of the significand, the leading one included.
int Precision(DType dtype) { return 1 - std::ilogb(InfoOf(dtype).epsilon); }

/// Whether `to` has all values of `from`.
bool HoldsAll(DType from, DType to) {
  if (from == to || from == DType::kBool) return true;
  if (to == DType::kBool) return false;
  const DTypeInfo& a = InfoOf(from);
  const DTypeInfo& b = InfoOf(to);
  if (IsFloat(from)) {
    return IsFloat(to) && Precision(from) <= Precision(to) && a.highest <= b.highest;
  }
  if (IsFloat(to)) return a.bits - IsSigned(from) <= Precision(to) && a.highest <= b.highest;
  if (IsSigned(from) == IsSigned(to)) return a.bits <= b.bits;
  return !IsSigned(from) && a.bits < b.bits;
}

// cast(cast(x, f64), f32) -> cast(x, f32), if the inner one loses nothing. Not from floats or via
// floats to integers: what does not fit depends on the way.
Result ThroughWiderDType(Rewriter& r, const GraphNode& node) {
  GraphValue inner = node.inputs[0];
  if (r.OpOf(inner) != &ops::kCast) return std::nullopt;
  GraphValue x = r.Producer(inner).inputs[0];
  DType from = r.TypeOf(x).dtype(), via = r.TypeOf(inner).dtype(), to = node.type().dtype();
  if (!HoldsAll(from, via)) return std::nullopt;
  bool to_integer = IsIntegral(to) && to != from && to != DType::kBool;
  if (to_integer && from != DType::kBool && IsFloat(via)) return std::nullopt;
  return r.Make(ops::kCast, {x}, node.attrs, node.type());
}

constexpr RuleFor kRules[] = {
    {&ops::kConstant, ValueOfOwnDType},
    {&ops::kAdd, AddNothing},
    {&ops::kSub, SubtractNothing},
    {&ops::kMul, TimesOne},
    {&ops::kMul, TimesZero},
    {&ops::kDiv, SecondIsOne},
    {&ops::kPow, SecondIsOne},
    {&ops::kFloorDivide, DividedByOne},
    {&ops::kTruncDivide, DividedByOne},
    {&ops::kBitwiseOr, BitsWithNothing},
    {&ops::kBitwiseXor, BitsWithNothing},
    {&ops::kShiftLeft, ShiftByNothing},
    {&ops::kShiftRight, ShiftByNothing},
    {&ops::kNeg, Twice},
    {&ops::kLogicalNot, Twice},
    {&ops::kBitwiseNot, Twice},
    {&ops::kWhere, KnownChoice},
    {&ops::kCast, ToOwnDType},
    {&ops::kBitcast, ToOwnDType},
    {&ops::kCast, ThroughWiderDType},
};

}  // namespace

std::span<const RuleFor> NumberRules() { return kRules; }

}  // namespace hammock
