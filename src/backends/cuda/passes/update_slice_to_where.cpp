#include "backends/cuda/passes/update_slice_to_where.h"

#include "compiler/passes/rewrite.h"
#include "ir/primitives.h"

namespace hammock::cuda {
namespace {

constexpr int64_t kMostPositions = 8;  // every position reads the source, which is written at one

std::optional<GraphValue> SliceAsWhere(Rewriter& rewriter, const GraphNode& node) {
  GraphValue self = node.inputs[0], source = node.inputs[1];
  const Shape type = node.type();
  const int dim = static_cast<int>(node.attr("dim").integer());
  const int64_t start = node.attr("start").integer();
  if (rewriter.TypeOf(source).size(dim) != 1 || type.size(dim) > kMostPositions)
    return std::nullopt;
  if (!RepeatedElement(rewriter, self)) return std::nullopt;
  Dims along(std::vector<int64_t>(static_cast<size_t>(type.rank()), 1));
  along[dim] = type.size(dim);
  GraphValue position = rewriter.Make(ops::kIota, {}, {Attr(type.size(dim)), Attr(DType::kI64)},
                                      Shape(DType::kI64, {type.size(dim)}));
  GraphValue wanted = rewriter.Make(ops::kConstant, {}, {Attr(Scalar(start)), Attr(DType::kI64)},
                                    Shape(DType::kI64, {}));
  wanted = rewriter.Fill(wanted, {type.size(dim)});
  GraphValue here =
      rewriter.Make(ops::kEq, {position, wanted}, {}, Shape(DType::kBool, {type.size(dim)}));
  here = rewriter.MakeSized(ops::kReshape, here, along);
  here = rewriter.MakeSized(ops::kBroadcast, here, type.sizes());
  source = rewriter.MakeSized(ops::kBroadcast, source, type.sizes());
  return rewriter.Make(ops::kWhere, {here, source, self}, {}, type);
}

constexpr RuleFor kRules[] = {{&ops::kUpdateSlice, SliceAsWhere}};

}  // namespace

Graph UpdateSliceToWhere(Graph graph) { return Rewriter(kRules).Run(std::move(graph)); }

}  // namespace hammock::cuda
