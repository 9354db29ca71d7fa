#include "hammock/nn/loss.h"

#include "base/throw.h"
#include "hammock/ops.h"

namespace hammock::nn {
namespace {

using Inputs = std::vector<Tensor>;

void CheckReduction(const char* loss, const std::string& reduction, bool batchmean = false) {
  if (reduction == "mean" || reduction == "sum" || reduction == "none") return;
  if (batchmean && reduction == "batchmean") return;
  Throw(ErrorCode::kValue, "{}: reduction '{}' is not mean, sum or none", loss, reduction);
}

Loss Make(const char* name, size_t inputs, const std::string& reduction, LossImpl::LossFn loss,
          const std::optional<Tensor>& weight = std::nullopt) {
  CheckReduction(name, reduction, std::string_view(name) == "KLDivLoss");
  return Loss(name, inputs, std::move(loss), weight);
}

}  // namespace

LossImpl::LossImpl(std::string name, size_t inputs, LossFn loss,
                   const std::optional<Tensor>& weight)
    : Module(std::move(name)), inputs_(inputs), loss_(std::move(loss)) {
  if (weight) register_buffer("weight", *weight);
  std::string arguments = "Tensor input, Tensor target";
  for (size_t i = 2; i < inputs; ++i) arguments += fmt::format(", Tensor input{}", i + 1);
  define("forward(" + arguments + ") -> Tensor", [](Module& self, const std::vector<Any>& args) {
    Inputs tensors;
    for (const Any& arg : args) tensors.push_back(arg.ToTensor());
    return Any(dynamic_cast<LossImpl&>(self).Run(tensors));
  });
}

Tensor LossImpl::Run(const Inputs& inputs) const {
  if (inputs.size() != inputs_) {
    Throw(ErrorCode::kValue, "{}: called with {} tensors, expected {}", class_name(), inputs.size(),
          inputs_);
  }
  return loss_(inputs);
}

Loss L1Loss(const std::string& reduction) {
  return Make("L1Loss", 2, reduction,
              [=](const Inputs& in) { return l1_loss(in[0], in[1], reduction); });
}
Loss MSELoss(const std::string& reduction) {
  return Make("MSELoss", 2, reduction,
              [=](const Inputs& in) { return mse_loss(in[0], in[1], reduction); });
}
Loss SmoothL1Loss(const std::string& reduction, double beta) {
  return Make("SmoothL1Loss", 2, reduction,
              [=](const Inputs& in) { return smooth_l1_loss(in[0], in[1], reduction, beta); });
}
Loss HuberLoss(const std::string& reduction, double delta) {
  return Make("HuberLoss", 2, reduction,
              [=](const Inputs& in) { return huber_loss(in[0], in[1], reduction, delta); });
}
Loss KLDivLoss(const std::string& reduction, bool log_target) {
  return Make("KLDivLoss", 2, reduction,
              [=](const Inputs& in) { return kl_div(in[0], in[1], reduction, log_target); });
}
Loss SoftMarginLoss(const std::string& reduction) {
  return Make("SoftMarginLoss", 2, reduction,
              [=](const Inputs& in) { return soft_margin_loss(in[0], in[1], reduction); });
}
Loss HingeEmbeddingLoss(double margin, const std::string& reduction) {
  return Make("HingeEmbeddingLoss", 2, reduction, [=](const Inputs& in) {
    return hinge_embedding_loss(in[0], in[1], margin, reduction);
  });
}
Loss MultiLabelMarginLoss(const std::string& reduction) {
  return Make("MultiLabelMarginLoss", 2, reduction,
              [=](const Inputs& in) { return multilabel_margin_loss(in[0], in[1], reduction); });
}
Loss CrossEntropyLoss(const ClassLossOptions& o) {
  return Make(
      "CrossEntropyLoss", 2, o.reduction,
      [=](const Inputs& in) {
        return cross_entropy(in[0], in[1], o.weight, o.ignore_index, o.reduction,
                             o.label_smoothing);
      },
      o.weight);
}
Loss NLLLoss(const ClassLossOptions& o) {
  return Make(
      "NLLLoss", 2, o.reduction,
      [=](const Inputs& in) {
        return nll_loss(in[0], in[1], o.weight, o.ignore_index, o.reduction);
      },
      o.weight);
}
Loss BCELoss(const BinaryLossOptions& o) {
  return Make(
      "BCELoss", 2, o.reduction,
      [=](const Inputs& in) { return binary_cross_entropy(in[0], in[1], o.weight, o.reduction); },
      o.weight);
}
Loss BCEWithLogitsLoss(const BinaryLossOptions& o) {
  return Make(
      "BCEWithLogitsLoss", 2, o.reduction,
      [=](const Inputs& in) {
        return binary_cross_entropy_with_logits(in[0], in[1], o.weight, o.reduction, o.pos_weight);
      },
      o.weight);
}
Loss MultiLabelSoftMarginLoss(const BinaryLossOptions& o) {
  return Make(
      "MultiLabelSoftMarginLoss", 2, o.reduction,
      [=](const Inputs& in) {
        return multilabel_soft_margin_loss(in[0], in[1], o.weight, o.reduction);
      },
      o.weight);
}
Loss MultiMarginLoss(const MultiMarginOptions& o) {
  return Make(
      "MultiMarginLoss", 2, o.reduction,
      [=](const Inputs& in) {
        return multi_margin_loss(in[0], in[1], o.p, o.margin, o.weight, o.reduction);
      },
      o.weight);
}
Loss PoissonNLLLoss(const PoissonOptions& o) {
  return Make("PoissonNLLLoss", 2, o.reduction, [=](const Inputs& in) {
    return poisson_nll_loss(in[0], in[1], o.log_input, o.full, o.eps, o.reduction);
  });
}
Loss GaussianNLLLoss(bool full, double eps, const std::string& reduction) {
  return Make("GaussianNLLLoss", 3, reduction, [=](const Inputs& in) {
    return gaussian_nll_loss(in[0], in[1], in[2], full, eps, reduction);
  });
}
Loss MarginRankingLoss(double margin, const std::string& reduction) {
  return Make("MarginRankingLoss", 3, reduction, [=](const Inputs& in) {
    return margin_ranking_loss(in[0], in[1], in[2], margin, reduction);
  });
}
Loss CosineEmbeddingLoss(double margin, const std::string& reduction) {
  return Make("CosineEmbeddingLoss", 3, reduction, [=](const Inputs& in) {
    return cosine_embedding_loss(in[0], in[1], in[2], margin, reduction);
  });
}
Loss TripletMarginLoss(const TripletOptions& o) {
  return Make("TripletMarginLoss", 3, o.reduction, [=](const Inputs& in) {
    return triplet_margin_loss(in[0], in[1], in[2], o.margin, o.p, o.eps, o.swap, o.reduction);
  });
}
Loss CTCLoss(int64_t blank, const std::string& reduction, bool zero_infinity) {
  return Make("CTCLoss", 4, reduction, [=](const Inputs& in) {
    return ctc_loss(in[0], in[1], in[2], in[3], blank, reduction, zero_infinity);
  });
}

}  // namespace hammock::nn
