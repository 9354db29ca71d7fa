#include "fuzz/bounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "backends/reference/interpreter.h"
#include "ir/primitives.h"
#include "ops/primitives/attention_node.h"

namespace hammock::fuzz {
namespace {

// Note [Bounds]
//
// Both sides get the same operands, so only what one op does has to be bounded.
//  - Moves, integers, truth values, comparisons and correctly rounded functions (+ - * / sqrt,
//    rounding, fmod, ...) have one right answer. The interpreter computes them in f64 and rounds,
//    which for f32, f16 and bf16 gives the correctly rounded result too, as 53 >= 2 * 24 + 2 bits.
//  - Other functions: those of f32 and f64 are within the bounds of scalar_fn.inc, to which
//    scalar_bodies_test.cpp holds the bodies, the interpreter's within 0.5 (f32) or about 2 (f64)
//    units of the last place; 0.3 and 0.8 are left for what tests did not find. Results in 16 bits
//    are rounded from f32, so they lie on one of the two neighbours. gelu is as good only above -1.
//  - Sums of n terms, in any order, are within n * eps / 2 * S of the exact sum to first order,
//    where S is the sum of the absolute values. Of a reduction by kernels an element passes at most
//    n / 32 + 6 additions in each pass. S is found by running the node in f64 on absolute values.
//    Where S overflows, an order of summing may overflow too, and nothing is asked.
//  - Products of n factors are within n * eps / 2, relatively and in any order: the error of each
//    multiplication stays. Where a partial product may overflow or lose bits nothing is asked;
//    whether it may is found by running the node on max(|x|, 1) and min(|x|, 1).
//  - Processors that multiply bf16 take subnormal operands as 0. What such operands add to S is
//    found by running the node once more without them.
//  - Padding of convolutions is a product with 0 to some algorithms and nothing to others, which
//    differ where operands are not finite; nothing is asked there.
//  - A sum of nothing but -0 is 0 or -0, depending on whether it begins with 0.
//  - A maximum of 0 and -0 is either of them.
//  - Attention gets operands between -1 and 1, so that scores are below 40. Products of 40 terms
//    shift them by less than 1e-4 in the exponent, and sums of up to 300 terms add less than that.

constexpr double kAttentionSlack = 2e-4;

bool IsNan(const HostTensor& tensor, int64_t i) {
  return IsFloat(tensor.dtype()) && std::isnan(tensor.at(i).ToDouble());
}

/// How far results of a function may lie apart: by the errors of both sides.
double UlpsOf(ScalarFn fn, DType dtype) {
  const ScalarFnInfo& info = InfoOf(fn);
  if (dtype == DType::kF64) return info.f64_ulps + 2.8;
  return dtype == DType::kF32 ? info.f32_ulps + 0.8 : 1;
}

/// The distance of neighbours at a value.
double UnitAt(double value, DType dtype) {
  int exponent;
  std::frexp(value, &exponent);
  int digits = dtype == DType::kF64    ? 53
               : dtype == DType::kF32  ? 24
               : dtype == DType::kBF16 ? 8
                                       : 11;
  int lowest = dtype == DType::kF64    ? -1074
               : dtype == DType::kF32  ? -149
               : dtype == DType::kBF16 ? -133
                                       : -24;
  return std::ldexp(1.0, std::max(exponent - digits, lowest));
}

bool WithinUlps(double actual, double expected, DType dtype, double ulps) {
  double highest = InfoOf(dtype).highest;
  double slack = ulps * UnitAt(std::min(std::abs(expected), highest), dtype);
  if (std::isinf(actual) || std::isinf(expected)) {
    // The largest number instead of infinity.
    double finite = std::isinf(actual) ? expected : actual;
    return std::signbit(actual) == std::signbit(expected) && std::abs(finite) >= highest - slack;
  }
  return std::abs(actual - expected) <= slack;
}

/// Below -1 gelu is about as good as its argument, whose square is less than minus twice the
/// logarithm of the result; far below, results are close to 0.
bool GeluAgrees(double actual, double expected, DType dtype) {
  double ulps = UlpsOf(ScalarFn::kGelu, dtype) + (expected < 0 ? 2 - 4 * std::log(-expected) : 0);
  double floor = dtype == DType::kF64 ? 0x1p-1022 : 0x1p-34;
  return WithinUlps(actual, expected, dtype, ulps) || std::abs(actual - expected) <= floor;
}

enum class Kind { kExact, kFunction, kSum, kProduct, kExtreme, kAttention, kTransform };

bool IsTransform(const OpDef* op) {
  return op == &ops::kFftC2C || op == &ops::kFftR2C || op == &ops::kFftC2R;
}

Kind KindOf(const GraphNode& node) {
  const OpDef* op = node.op;
  if (op == &ops::kAttention || op == &ops::kAttentionBackward) return Kind::kAttention;
  if (IsTransform(op)) return Kind::kTransform;
  if (!IsFloat(node.type().dtype())) return Kind::kExact;
  if (op->scalar != ScalarFn::kNone) {
    return InfoOf(op->scalar).f32_ulps == 0 ? Kind::kExact : Kind::kFunction;
  }
  auto how = [&](const char* name) { return node.attr(name).str(); };
  if (op == &ops::kReduceSum || op == &ops::kDotGeneral || op == &ops::kConvolution) {
    return Kind::kSum;
  }
  if (op == &ops::kReduceProd) return Kind::kProduct;
  if (op == &ops::kReduceMax || op == &ops::kReduceMin) return Kind::kExtreme;
  if (op == &ops::kScan || op == &ops::kReduceWindow) {
    return how("kind") == "sum"    ? Kind::kSum
           : how("kind") == "prod" ? Kind::kProduct
                                   : Kind::kExtreme;
  }
  if (op == &ops::kScatter) {
    return how("reduce") == "sum"    ? Kind::kSum
           : how("reduce") == "prod" ? Kind::kProduct
           : how("reduce") == "none" ? Kind::kExact
                                     : Kind::kExtreme;
  }
  return Kind::kExact;
}

/// How many additions an element passes at most, or how many multiplications there are.
double StepsOf(const Graph& one, const GraphNode& node) {
  auto type = [&](size_t i) { return one.TypeOf(node.inputs[i]); };
  int64_t count = 1;
  auto along = [&](int64_t d) {
    return type(0).rank() == 0 ? 1 : type(0).size(static_cast<int>(d));
  };
  if (node.op == &ops::kReduceSum || node.op == &ops::kReduceProd) {
    for (int64_t d : node.attrs[0].ints()) count *= along(d);
  }
  if (node.op == &ops::kReduceSum) {
    return static_cast<double>(count) / 32 + 8 * (type(0).rank() + 2);
  }
  if (node.op == &ops::kScan) count = along(node.attr("dim").integer());
  if (node.op == &ops::kReduceWindow) {
    for (int64_t size : node.attr("window").ints()) count *= size;
  }
  if (node.op == &ops::kScatter) count = type(1).numel() + 1;
  if (node.op == &ops::kDotGeneral) {
    for (int64_t d : node.attrs[0].ints()) count *= along(d);
  }
  if (node.op == &ops::kConvolution) {
    Shape weight = type(1);
    count = weight.numel() / std::max<int64_t>(1, std::min(weight.size(0), weight.size(1)));
  }
  return static_cast<double>(count) + 2;
}

/// The node in f64, on operands that `change` was applied to. Positions stay as they are.
template <class F>
HostTensor Widened(const Graph& one, const std::vector<HostTensor>& operands, F change) {
  Graph graph;
  std::vector<HostTensor> wide;
  for (const HostTensor& operand : operands) {
    if (!IsFloat(operand.dtype())) {
      wide.push_back(operand);
    } else {
      HostTensor changed = operand.To(DType::kF64);
      HostTensor copy = HostTensor::Copy(changed.shape(), changed.data());
      for (double& x : copy.mutable_values<double>()) x = change(x);
      wide.push_back(copy);
    }
    graph.AddInput(wide.back().shape());
  }
  const GraphNode& node = one.nodes().back();
  graph.AddOutput({graph.AddNode(*node.op, node.inputs, node.attrs), 0});
  return reference::Interpret(graph, wide)[0];
}

bool AllFinite(const std::vector<HostTensor>& operands) {
  for (const HostTensor& operand : operands) {
    for (int64_t i = 0; i < operand.numel(); ++i) {
      if (!std::isfinite(operand.at(i).ToDouble())) return false;
    }
  }
  return true;
}

/// Real numbers, and both parts of complex ones.
double NumberAt(const HostTensor& tensor, int64_t i) {
  bool wide = tensor.dtype() == DType::kF64 || tensor.dtype() == DType::kC128;
  return wide ? static_cast<const double*>(tensor.data())[i]
              : static_cast<double>(static_cast<const float*>(tensor.data())[i]);
}
int64_t NumbersOf(const HostTensor& tensor) {
  return tensor.numel() * (IsComplex(tensor.dtype()) ? 2 : 1);
}

/// How far the results of two transforms of the same finite numbers may be apart: sums of so many
/// products with sines, in any order, each of them inexact.
double TransformSlack(const GraphNode& node, const HostTensor& operand) {
  double count = 1;
  if (node.op == &ops::kFftC2C) {
    for (int64_t dim : node.attrs[0].ints()) {
      count *= static_cast<double>(operand.shape().size(static_cast<int>(dim)));
    }
  } else {
    const Shape& real = node.op == &ops::kFftR2C ? operand.shape() : node.type();
    count = static_cast<double>(real.size(static_cast<int>(node.attrs[0].integer())));
  }
  double highest = 0;
  for (int64_t i = 0; i < NumbersOf(operand); ++i) {
    highest = std::max(highest, std::abs(NumberAt(operand, i)));
  }
  DType dtype = node.type().dtype();
  bool wide = dtype == DType::kF64 || dtype == DType::kC128;
  double epsilon = InfoOf(wide ? DType::kF64 : DType::kF32).epsilon;
  return 8 * epsilon * (1 + std::log2(count)) * count * highest;
}

bool TransformAgrees(const GraphNode& node, const HostTensor& operand, const HostTensor& actual,
                     const HostTensor& expected) {
  double slack = TransformSlack(node, operand);
  for (int64_t i = 0; i < NumbersOf(actual); ++i) {
    if (!(std::abs(NumberAt(actual, i) - NumberAt(expected, i)) <= slack)) return false;
  }
  return true;
}

/// The expected values and bounds of one node's first result.
class Comparison {
 public:
  Comparison(const Graph& one, const std::vector<HostTensor>& operands)
      : node_(one.nodes().back()), kind_(KindOf(node_)), dtype_(node_.type().dtype()) {
    if (kind_ != Kind::kSum && kind_ != Kind::kProduct) return;
    steps_ = StepsOf(one, node_);
    if (kind_ == Kind::kSum) {
      high_ = Widened(one, operands, [](double x) { return std::abs(x); });
      if (dtype_ == DType::kBF16 && node_.op != &ops::kReduceSum) {
        low_ = Widened(one, operands,
                       [](double x) { return std::abs(x) < 0x1p-126 ? 0 : std::abs(x); });
      }
      padded_ = node_.op == &ops::kConvolution && !AllFinite(operands);
    } else {
      high_ = Widened(one, operands, [](double x) { return std::max(std::abs(x), 1.0); });
      low_ =
          Widened(one, operands, [](double x) { return x == 0 ? 1 : std::min(std::abs(x), 1.0); });
    }
  }

  bool Agrees(int64_t i, double actual, double expected) const {
    switch (kind_) {
      case Kind::kExact:
        return false;
      case Kind::kFunction:
        return node_.op->scalar == ScalarFn::kGelu
                   ? GeluAgrees(actual, expected, dtype_)
                   : WithinUlps(actual, expected, dtype_, UlpsOf(node_.op->scalar, dtype_));
      case Kind::kSum:
        return SumAgrees(i, actual, expected);
      case Kind::kProduct:
        return ProductAgrees(i, actual, expected);
      case Kind::kExtreme:
        return actual == 0 && expected == 0;
      case Kind::kAttention:
        return std::abs(actual - expected) <=
               kAttentionSlack * (1 + std::abs(expected)) + 2 * UnitAt(expected, dtype_);
      case Kind::kTransform:
        return false;  // compared as a whole
    }
    return false;
  }
  bool HoldsForAllResults() const { return kind_ == Kind::kAttention; }

 private:
  double Accuracy() const {
    return dtype_ == DType::kF64 ? 2 * InfoOf(DType::kF64).epsilon : InfoOf(DType::kF32).epsilon;
  }
  double HighestOnTheWay() const {
    return std::min(InfoOf(dtype_).highest, InfoOf(DType::kF64).highest / 4);
  }

  bool SumAgrees(int64_t i, double actual, double expected) const {
    double sum = high_.values<double>()[i];
    double lost = low_.defined() ? sum - low_.values<double>()[i] : 0;
    if (padded_) return true;
    if (std::isnan(sum)) return false;  // NaN whatever the order
    if (sum > 0.9 * HighestOnTheWay()) return true;
    double slack = steps_ * Accuracy() * sum + UnitAt(expected, dtype_) + lost;
    // Numbers that are smaller than any normal number may be taken as 0.
    slack += steps_ * (dtype_ == DType::kF64 ? 0x1p-1022 : 0x1p-126);
    return std::abs(actual - expected) <= slack;
  }

  bool ProductAgrees(int64_t i, double actual, double expected) const {
    double high = high_.values<double>()[i];
    double low = low_.values<double>()[i];
    if (std::isnan(high)) return false;
    double highest = dtype_ == DType::kF64 ? 0x1p1000 : 0x1p126;
    if (high > highest || low < 1 / highest) return true;
    double slack = steps_ * Accuracy() * std::abs(expected) + UnitAt(expected, dtype_);
    if (std::isinf(actual) || std::isinf(expected)) return high > 0.9 * InfoOf(dtype_).highest;
    return std::abs(actual - expected) <= slack;
  }

  const GraphNode& node_;
  Kind kind_;
  DType dtype_;
  double steps_ = 0;
  bool padded_ = false;
  HostTensor high_, low_;
};

bool SameElement(const HostTensor& a, const HostTensor& b, int64_t i) {
  int64_t width = InfoOf(a.dtype()).bits / 8;
  if (width == 0) return a.at(i) == b.at(i);
  const char* x = static_cast<const char*>(a.data()) + i * width;
  const char* y = static_cast<const char*>(b.data()) + i * width;
  return std::memcmp(x, y, static_cast<size_t>(width)) == 0 || (IsNan(a, i) && IsNan(b, i));
}

template <class Agrees>
std::string FirstDifference(const HostTensor& actual, const HostTensor& expected, Agrees agrees) {
  if (actual.shape() != expected.shape()) {
    return fmt::format("is {}, expected {}", actual.shape().to_string(),
                       expected.shape().to_string());
  }
  if (actual.bytes() == 0 ||
      std::memcmp(actual.data(), expected.data(), static_cast<size_t>(actual.bytes())) == 0) {
    return "";
  }
  int64_t count = 0;
  int64_t first = -1;
  for (int64_t i = 0; i < actual.numel(); ++i) {
    if (SameElement(actual, expected, i) || agrees(i)) continue;
    if (first < 0) first = i;
    ++count;
  }
  if (count == 0) return "";
  return fmt::format("element {} of {} is {}, expected {} ({} of {} differ)", first,
                     actual.shape().to_string(), actual.at(first).to_string(),
                     expected.at(first).to_string(), count, actual.numel());
}

}  // namespace

std::string CompareBits(const HostTensor& actual, const HostTensor& expected) {
  return FirstDifference(actual, expected, [](int64_t) { return false; });
}

std::string CompareNode(const Graph& one, const std::vector<HostTensor>& operands,
                        const std::vector<HostTensor>& actual,
                        const std::vector<HostTensor>& expected) {
  const GraphNode& node = one.nodes().back();
  if (IsTransform(node.op) && actual[0].shape() == expected[0].shape()) {
    return TransformAgrees(node, operands[0], actual[0], expected[0])
               ? ""
               : fmt::format("{} is further from the interpreter's than its bound",
                             actual[0].shape().to_string());
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    std::optional<Comparison> comparison;  // made where it is needed: it may cost a run
    auto agrees = [&](int64_t element) {
      if (!IsFloat(expected[i].dtype())) return false;
      if (!comparison) comparison.emplace(one, operands);
      if (i > 0 && !comparison->HoldsForAllResults()) return false;
      return comparison->Agrees(element, actual[i].at(element).ToDouble(),
                                expected[i].at(element).ToDouble());
    };
    std::string difference = FirstDifference(actual[i], expected[i], agrees);
    if (!difference.empty()) return difference;
  }
  return "";
}

}  // namespace hammock::fuzz
