#include "compiler/passes/widen_sums.h"

#include <array>

#include "compiler/passes/rewrite.h"
#include "ir/primitives.h"

namespace hammock {
namespace {

std::optional<GraphValue> Widened(Rewriter& rewriter, const GraphNode& node) {
  if (node.type().dtype() != DType::kF32) return std::nullopt;
  std::vector<GraphValue> inputs = node.inputs;
  for (GraphValue& input : inputs) {
    Shape type = rewriter.TypeOf(input).With(DType::kF64);
    input = rewriter.Make(ops::kCast, {input}, {Attr(DType::kF64)}, type);
  }
  GraphValue sums =
      rewriter.Make(*node.op, std::move(inputs), node.attrs, node.type().With(DType::kF64));
  return rewriter.Make(ops::kCast, {sums}, {Attr(DType::kF32)}, node.type());
}

constexpr std::array kRules = {
    RuleFor{&ops::kDotGeneral, Widened},
    RuleFor{&ops::kConvolution, Widened},
    RuleFor{&ops::kConvolutionWeightBackward, Widened},
};

}  // namespace

Graph WidenSums(Graph graph) { return Rewriter(kRules).Run(std::move(graph)); }

}  // namespace hammock
