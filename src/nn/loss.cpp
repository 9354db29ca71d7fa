#include "hammock/nn/loss.h"

#include <algorithm>
#include <functional>

#include "base/throw.h"
#include "hammock/ops.h"
#include "nn/call_forward.h"
#include "nn/given.h"

namespace hammock::nn {
namespace {

using Inputs = std::vector<Tensor>;

void CheckReduction(const char* loss, const std::string& reduction, bool batchmean = false) {
  if (reduction == "mean" || reduction == "sum" || reduction == "none") return;
  if (batchmean && reduction == "batchmean") return;
  Throw(ErrorCode::kValue, "{}: reduction '{}' is not mean, sum or none", loss, reduction);
}

Tensor Reduced(const Tensor& losses, const std::string& reduction) {
  if (reduction == "none") return losses;
  return reduction == "sum" ? losses.sum() : losses.mean();
}

/// For what a loss keeps: its weights are buffers.
template <class Options>
Options WithoutWeights(Options options) {
  options.weight.reset();
  if constexpr (requires { options.pos_weight; }) options.pos_weight.reset();
  return options;
}

Loss Make(const Location& at, const char* name, size_t inputs, const std::string& reduction,
          LossImpl::LossFn loss, const std::optional<Tensor>& weight = std::nullopt,
          const std::optional<Tensor>& pos_weight = std::nullopt) {
  LocationScope scope(at);
  CheckReduction(name, reduction, std::string_view(name) == "KLDivLoss");
  return Loss(name, inputs, std::move(loss), weight, pos_weight);
}

}  // namespace

LossImpl::LossImpl(std::string name, size_t inputs, LossFn loss,
                   const std::optional<Tensor>& class_weight,
                   const std::optional<Tensor>& positive_weight)
    : Module(std::move(name)), inputs_(inputs), loss_(std::move(loss)) {
  if (class_weight) weight = register_buffer("weight", *class_weight);
  if (positive_weight) pos_weight = register_buffer("pos_weight", *positive_weight);
  std::string arguments = "Tensor input, Tensor target";
  for (size_t i = 2; i < inputs; ++i) arguments += fmt::format(", Tensor input{}", i + 1);
  define("forward(" + arguments + ") -> Tensor", [](Module& self, const std::vector<Any>& args) {
    Inputs tensors;
    for (const Any& arg : args) tensors.push_back(arg.ToTensor());
    return Any(dynamic_cast<LossImpl&>(self).Run(tensors, Location()));
  });
}

Tensor LossImpl::Run(const Inputs& inputs, const Location& at) const {
  return CallForward(*this, at, [&] {
    if (inputs.size() != inputs_) {
      Throw(ErrorCode::kValue, "{}: called with {} tensors, expected {}", class_name(),
            inputs.size(), inputs_);
    }
    return loss_(*this, inputs);
  });
}

Loss L1Loss(const std::string& reduction, Location at) {
  return Make(at, "L1Loss", 2, reduction,
              [=](const LossImpl&, const Inputs& in) { return l1_loss(in[0], in[1], reduction); });
}
Loss MSELoss(const std::string& reduction, Location at) {
  return Make(at, "MSELoss", 2, reduction,
              [=](const LossImpl&, const Inputs& in) { return mse_loss(in[0], in[1], reduction); });
}
Loss SmoothL1Loss(const std::string& reduction, double beta, Location at) {
  return Make(at, "SmoothL1Loss", 2, reduction, [=](const LossImpl&, const Inputs& in) {
    return smooth_l1_loss(in[0], in[1], reduction, beta);
  });
}
Loss HuberLoss(const std::string& reduction, double delta, Location at) {
  return Make(at, "HuberLoss", 2, reduction, [=](const LossImpl&, const Inputs& in) {
    return huber_loss(in[0], in[1], reduction, delta);
  });
}
Loss KLDivLoss(const std::string& reduction, bool log_target, Location at) {
  return Make(at, "KLDivLoss", 2, reduction, [=](const LossImpl&, const Inputs& in) {
    return kl_div(in[0], in[1], reduction, log_target);
  });
}
Loss SoftMarginLoss(const std::string& reduction, Location at) {
  return Make(at, "SoftMarginLoss", 2, reduction, [=](const LossImpl&, const Inputs& in) {
    return soft_margin_loss(in[0], in[1], reduction);
  });
}
Loss HingeEmbeddingLoss(double margin, const std::string& reduction, Location at) {
  return Make(at, "HingeEmbeddingLoss", 2, reduction, [=](const LossImpl&, const Inputs& in) {
    return hinge_embedding_loss(in[0], in[1], margin, reduction);
  });
}
Loss MultiLabelMarginLoss(const std::string& reduction, Location at) {
  return Make(at, "MultiLabelMarginLoss", 2, reduction, [=](const LossImpl&, const Inputs& in) {
    return multilabel_margin_loss(in[0], in[1], reduction);
  });
}
Loss CrossEntropyLoss(const ClassLossOptions& o, Location at) {
  return Make(
      at, "CrossEntropyLoss", 2, o.reduction,
      [o = WithoutWeights(o)](const LossImpl& self, const Inputs& in) {
        return cross_entropy(in[0], in[1], Given(self.weight), o.ignore_index, o.reduction,
                             o.label_smoothing);
      },
      o.weight);
}
Loss NLLLoss(const ClassLossOptions& o, Location at) {
  return Make(
      at, "NLLLoss", 2, o.reduction,
      [o = WithoutWeights(o)](const LossImpl& self, const Inputs& in) {
        return nll_loss(in[0], in[1], Given(self.weight), o.ignore_index, o.reduction);
      },
      o.weight);
}
Loss BCELoss(const BinaryLossOptions& o, Location at) {
  return Make(
      at, "BCELoss", 2, o.reduction,
      [o = WithoutWeights(o)](const LossImpl& self, const Inputs& in) {
        return binary_cross_entropy(in[0], in[1], Given(self.weight), o.reduction);
      },
      o.weight);
}
Loss BCEWithLogitsLoss(const BinaryLossOptions& o, Location at) {
  return Make(
      at, "BCEWithLogitsLoss", 2, o.reduction,
      [o = WithoutWeights(o)](const LossImpl& self, const Inputs& in) {
        return binary_cross_entropy_with_logits(in[0], in[1], Given(self.weight), o.reduction,
                                                Given(self.pos_weight));
      },
      o.weight, o.pos_weight);
}
Loss MultiLabelSoftMarginLoss(const BinaryLossOptions& o, Location at) {
  return Make(
      at, "MultiLabelSoftMarginLoss", 2, o.reduction,
      [o = WithoutWeights(o)](const LossImpl& self, const Inputs& in) {
        return multilabel_soft_margin_loss(in[0], in[1], Given(self.weight), o.reduction);
      },
      o.weight);
}
Loss MultiMarginLoss(const MultiMarginOptions& o, Location at) {
  return Make(
      at, "MultiMarginLoss", 2, o.reduction,
      [o = WithoutWeights(o)](const LossImpl& self, const Inputs& in) {
        return multi_margin_loss(in[0], in[1], o.p, o.margin, Given(self.weight), o.reduction);
      },
      o.weight);
}
Loss PoissonNLLLoss(const PoissonOptions& o, Location at) {
  return Make(at, "PoissonNLLLoss", 2, o.reduction, [=](const LossImpl&, const Inputs& in) {
    return poisson_nll_loss(in[0], in[1], o.log_input, o.full, o.eps, o.reduction);
  });
}
Loss GaussianNLLLoss(bool full, double eps, const std::string& reduction, Location at) {
  return Make(at, "GaussianNLLLoss", 3, reduction, [=](const LossImpl&, const Inputs& in) {
    return gaussian_nll_loss(in[0], in[1], in[2], full, eps, reduction);
  });
}
Loss MarginRankingLoss(double margin, const std::string& reduction, Location at) {
  return Make(at, "MarginRankingLoss", 3, reduction, [=](const LossImpl&, const Inputs& in) {
    return margin_ranking_loss(in[0], in[1], in[2], margin, reduction);
  });
}
Loss CosineEmbeddingLoss(double margin, const std::string& reduction, Location at) {
  return Make(at, "CosineEmbeddingLoss", 3, reduction, [=](const LossImpl&, const Inputs& in) {
    return cosine_embedding_loss(in[0], in[1], in[2], margin, reduction);
  });
}
Loss TripletMarginLoss(const TripletOptions& o, Location at) {
  return Make(at, "TripletMarginLoss", 3, o.reduction, [=](const LossImpl&, const Inputs& in) {
    return triplet_margin_loss(in[0], in[1], in[2], o.margin, o.p, o.eps, o.swap, o.reduction);
  });
}
Loss TripletMarginWithDistanceLoss(const TripletDistanceOptions& o, Location at) {
  return Make(at, "TripletMarginWithDistanceLoss", 3, o.reduction,
              [=](const LossImpl&, const Inputs& in) {
                auto distance = [&](const Tensor& a, const Tensor& b) {
                  return o.distance ? o.distance(a, b) : pairwise_distance(a, b);
                };
                Tensor positive = distance(in[0], in[1]), negative = distance(in[0], in[2]);
                if (o.swap) negative = minimum(negative, distance(in[1], in[2]));
                return Reduced(relu(positive - negative + o.margin), o.reduction);
              });
}
Loss CosineSimilarity(int64_t dim, double eps) {
  return Loss("CosineSimilarity", 2, [=](const LossImpl&, const Inputs& in) {
    return cosine_similarity(in[0], in[1], dim, eps);
  });
}
Loss PairwiseDistance(double p, double eps, bool keepdim) {
  return Loss("PairwiseDistance", 2, [=](const LossImpl&, const Inputs& in) {
    return pairwise_distance(in[0], in[1], p, eps, keepdim);
  });
}
Loss CTCLoss(int64_t blank, const std::string& reduction, bool zero_infinity, Location at) {
  return Make(at, "CTCLoss", 4, reduction, [=](const LossImpl&, const Inputs& in) {
    return ctc_loss(in[0], in[1], in[2], in[3], blank, reduction, zero_infinity);
  });
}

// ---- Of a linear layer's output

LinearCrossEntropyLossImpl::LinearCrossEntropyLossImpl(const Options& given)
    : Module("LinearCrossEntropyLoss"),
      linear(register_module("linear", Linear(given.in_features, given.num_classes, given.bias))),
      loss_(given.loss) {
  CheckReduction("LinearCrossEntropyLoss", loss_.reduction);
  if (loss_.weight) weight = register_buffer("weight", *loss_.weight);
  loss_.weight.reset();
  define("forward(Tensor input, Tensor target) -> Tensor", &LinearCrossEntropyLossImpl::forward);
}

Tensor LinearCrossEntropyLossImpl::forward(const TensorAt& input, const Tensor& target) {
  return CallForward(*this, input.at, [&] {
    return cross_entropy(linear(input.tensor), target, Given(weight), loss_.ignore_index,
                         loss_.reduction, loss_.label_smoothing);
  });
}

AdaptiveLogSoftmaxWithLossImpl::AdaptiveLogSoftmaxWithLossImpl(const Options& given)
    : Module("AdaptiveLogSoftmaxWithLoss"), options(given), cutoffs_(given.cutoffs) {
  bool increasing = !cutoffs_.empty() && cutoffs_.front() > 0 &&
                    cutoffs_.back() < options.n_classes &&
                    std::ranges::adjacent_find(cutoffs_, std::greater_equal()) == cutoffs_.end();
  if (!increasing) {
    Throw(ErrorCode::kValue,
          "AdaptiveLogSoftmaxWithLoss: cutoffs must increase from above 0 to below {}",
          options.n_classes);
  }
  cutoffs_.push_back(options.n_classes);
  const auto clusters = static_cast<int64_t>(cutoffs_.size()) - 1;
  head = register_module("head",
                         Linear(options.in_features, cutoffs_[0] + clusters, options.head_bias));
  tail = register_module("tail", ModuleList());
  double size = static_cast<double>(options.in_features);
  for (size_t i = 0; i + 1 < cutoffs_.size(); ++i) {
    size /= options.div_value;
    auto projected = static_cast<int64_t>(size);
    tail->push_back(Sequential(Linear(options.in_features, projected, false),
                               Linear(projected, cutoffs_[i + 1] - cutoffs_[i], false)));
  }
  define("forward(Tensor input, Tensor target) -> (Tensor, Tensor)",
         &AdaptiveLogSoftmaxWithLossImpl::forward);
  define("log_prob(Tensor input) -> Tensor", &AdaptiveLogSoftmaxWithLossImpl::log_prob);
  define("predict(Tensor input) -> Tensor", &AdaptiveLogSoftmaxWithLossImpl::predict);
}

Tensor AdaptiveLogSoftmaxWithLossImpl::log_prob(const TensorAt& input) {
  return CallForward(*this, input.at, [&] {
    Tensor head_log_prob = log_softmax(head(input.tensor), -1);
    std::vector<Tensor> parts = {narrow(head_log_prob, -1, 0, cutoffs_[0])};
    for (size_t i = 0; i < tail->size(); ++i) {
      Tensor cluster = log_softmax((*(*tail)[i])(input.tensor), -1);
      parts.push_back(cluster +
                      narrow(head_log_prob, -1, cutoffs_[0] + static_cast<int64_t>(i), 1));
    }
    return cat(parts, -1);
  });
}

std::tuple<Tensor, Tensor> AdaptiveLogSoftmaxWithLossImpl::forward(const TensorAt& input,
                                                                   const Tensor& target) {
  return CallForward(*this, input.at, [&] {
    Tensor output = squeeze(gather(log_prob(input), -1, unsqueeze(target, -1)), -1);
    return std::tuple<Tensor, Tensor>(output, -output.mean());
  });
}

Tensor AdaptiveLogSoftmaxWithLossImpl::predict(const TensorAt& input) {
  return CallForward(*this, input.at, [&] { return argmax(log_prob(input), -1); });
}

}  // namespace hammock::nn
