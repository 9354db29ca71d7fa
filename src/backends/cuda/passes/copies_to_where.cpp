#include "backends/cuda/passes/copies_to_where.h"

#include "compiler/passes/repeated_element.h"
#include "compiler/passes/rewrite.h"
#include "ir/primitives.h"

namespace hammock::cuda {
namespace {

constexpr int64_t kMostPositions = 8;  // every position reads the source, which is written at one

/// Whether an element of `sizes` has the index `wanted` in `dim`.
GraphValue IsAt(Rewriter& rewriter, int dim, int64_t wanted, const Dims& sizes) {
  const int64_t size = sizes[dim];
  Dims along(std::vector<int64_t>(static_cast<size_t>(sizes.size()), 1));
  along[dim] = size;
  GraphValue position =
      rewriter.Make(ops::kIota, {}, {Attr(size), Attr(DType::kI64)}, Shape(DType::kI64, {size}));
  GraphValue number = rewriter.Make(ops::kConstant, {}, {Attr(Scalar(wanted)), Attr(DType::kI64)},
                                    Shape(DType::kI64, {}));
  GraphValue here = rewriter.Make(ops::kEq, {position, rewriter.Fill(number, {size})}, {},
                                  Shape(DType::kBool, {size}));
  here = rewriter.MakeSized(ops::kReshape, here, along);
  return rewriter.MakeSized(ops::kBroadcast, here, sizes);
}

std::optional<GraphValue> SliceAsWhere(Rewriter& rewriter, const GraphNode& node) {
  GraphValue self = node.inputs[0], source = node.inputs[1];
  const Shape type = node.type();
  const int dim = static_cast<int>(node.attr("dim").integer());
  const int64_t start = node.attr("start").integer();
  if (rewriter.TypeOf(source).size(dim) != 1 || type.size(dim) > kMostPositions)
    return std::nullopt;
  if (!RepeatedElement(rewriter.graph(), self)) return std::nullopt;
  GraphValue here = IsAt(rewriter, dim, start, type.sizes());
  source = rewriter.MakeSized(ops::kBroadcast, source, type.sizes());
  return rewriter.Make(ops::kWhere, {here, source, self}, {}, type);
}

std::optional<GraphValue> HalvesAsWhere(Rewriter& rewriter, const GraphNode& node) {
  const std::vector<GraphValue> parts = node.inputs;
  const Shape type = node.type();
  if (parts.size() != 2 || type.numel() == 0 || type.rank() == kMaxRank) return std::nullopt;
  const Dims half = rewriter.TypeOf(parts[0]).sizes();
  if (half != rewriter.TypeOf(parts[1]).sizes()) return std::nullopt;
  auto computed = [&](GraphValue part) { return IsElementwisePrimitive(*rewriter.OpOf(part)); };
  if (!computed(parts[0]) && !computed(parts[1])) return std::nullopt;
  const int dim = static_cast<int>(node.attr("dim").integer());
  Dims one, two;  // sizes with a dim for the number of the part
  for (int d = 0; d < half.size(); ++d) {
    if (d == dim) one.push_back(1), two.push_back(2);
    one.push_back(half[d]), two.push_back(half[d]);
  }
  auto repeated = [&](GraphValue part) {
    return rewriter.MakeSized(ops::kBroadcast, rewriter.MakeSized(ops::kReshape, part, one), two);
  };
  GraphValue first = repeated(parts[0]), second = repeated(parts[1]);
  GraphValue joined = rewriter.Make(ops::kWhere, {IsAt(rewriter, dim, 0, two), first, second}, {},
                                    Shape(type.dtype(), two));
  return rewriter.MakeSized(ops::kReshape, joined, type.sizes());
}

constexpr RuleFor kRules[] = {{&ops::kUpdateSlice, SliceAsWhere}, {&ops::kConcat, HalvesAsWhere}};

}  // namespace

Graph CopiesToWhere(Graph graph) { return Rewriter(kRules).Run(std::move(graph)); }

}  // namespace hammock::cuda
