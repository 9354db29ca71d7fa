#include "onnx/operators/families.h"

namespace hammock::onnx {
namespace {

/// Minus the scores of the labels, which are along dim 1, weighted and reduced.
Tensor NegativeLikelihood(const Call& c, const Tensor& scores, const Tensor& labels,
                          const std::optional<Tensor>& weight) {
  std::string reduction = c.Text("reduction", "mean");
  bool ignores = c.HasAttribute("ignore_index");
  Tensor index = labels.to(DType::kI64);
  Tensor kept = ignores ? index != c.Int("ignore_index", 0) : Tensor();
  Tensor safe = ignores ? where(kept, index, zeros_like(index)) : index;
  Tensor loss = -gather(scores, 1, safe.unsqueeze(1)).squeeze(1);
  Tensor share = weight ? index_select(*weight, 0, safe.reshape({-1})).reshape(index.sizes())
                        : ones_like(loss);
  if (ignores) share = where(kept, share, zeros_like(share));
  loss = loss * share;
  if (reduction == "none") return loss;
  if (reduction == "sum") return sum(loss);
  return sum(loss) / sum(share);
}

Values NegativeLogLikelihoodLoss(Call& c) {
  return {NegativeLikelihood(c, c[0], c[1], c.Optional(2))};
}

Values SoftmaxCrossEntropyLoss(Call& c) {
  Tensor logs = log_softmax(c[0], 1);
  return {NegativeLikelihood(c, logs, c[1], c.Optional(2)), logs};
}

constexpr Operator kRows[] = {
    {"NegativeLogLikelihoodLoss", 12, kNewestOpset, NegativeLogLikelihoodLoss},
    {"SoftmaxCrossEntropyLoss", 12, kNewestOpset, SoftmaxCrossEntropyLoss},
};

}  // namespace

std::span<const Operator> LossOperators() { return kRows; }

}  // namespace hammock::onnx
