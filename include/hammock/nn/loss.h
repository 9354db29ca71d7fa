#pragma once
/// Losses as layers: `nn::CrossEntropyLoss()(scores, labels)`. `reduction` is mean, sum or none.

#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hammock/nn/layer.h"

namespace hammock::nn {

class HAMMOCK_API LossImpl : public Module {
 public:
  using LossFn = std::function<Tensor(const std::vector<Tensor>&)>;
  LossImpl(std::string class_name, size_t inputs, LossFn loss,
           const std::optional<Tensor>& weight = std::nullopt);
  template <std::convertible_to<Tensor>... T>
  Tensor forward(const Tensor& input, const T&... rest) {
    return Run({input, rest...});
  }

 private:
  Tensor Run(const std::vector<Tensor>& inputs) const;
  size_t inputs_;
  LossFn loss_;
};
using Loss = Layer<LossImpl>;

// ---- Of input and target
HAMMOCK_API Loss L1Loss(const std::string& reduction = "mean");
HAMMOCK_API Loss MSELoss(const std::string& reduction = "mean");
HAMMOCK_API Loss SmoothL1Loss(const std::string& reduction = "mean", double beta = 1);
HAMMOCK_API Loss HuberLoss(const std::string& reduction = "mean", double delta = 1);
HAMMOCK_API Loss KLDivLoss(const std::string& reduction = "mean", bool log_target = false);
HAMMOCK_API Loss SoftMarginLoss(const std::string& reduction = "mean");
HAMMOCK_API Loss HingeEmbeddingLoss(double margin = 1, const std::string& reduction = "mean");
HAMMOCK_API Loss MultiLabelMarginLoss(const std::string& reduction = "mean");

struct ClassLossOptions {
  std::optional<Tensor> weight = std::nullopt;  ///< of each class
  int64_t ignore_index = -100;
  std::string reduction = "mean";
  double label_smoothing = 0;  ///< CrossEntropyLoss only
};
HAMMOCK_API Loss CrossEntropyLoss(const ClassLossOptions& options = {});
HAMMOCK_API Loss NLLLoss(const ClassLossOptions& options = {});

struct BinaryLossOptions {
  std::optional<Tensor> weight = std::nullopt;
  std::string reduction = "mean";
  std::optional<Tensor> pos_weight = std::nullopt;  ///< BCEWithLogitsLoss only
};
HAMMOCK_API Loss BCELoss(const BinaryLossOptions& options = {});
HAMMOCK_API Loss BCEWithLogitsLoss(const BinaryLossOptions& options = {});
HAMMOCK_API Loss MultiLabelSoftMarginLoss(const BinaryLossOptions& options = {});

struct MultiMarginOptions {
  int64_t p = 1;
  double margin = 1;
  std::optional<Tensor> weight = std::nullopt;
  std::string reduction = "mean";
};
HAMMOCK_API Loss MultiMarginLoss(const MultiMarginOptions& options = {});

struct PoissonOptions {
  bool log_input = true, full = false;
  double eps = 1e-8;
  std::string reduction = "mean";
};
HAMMOCK_API Loss PoissonNLLLoss(const PoissonOptions& options = {});

// ---- Of more tensors
/// Of input, target and variance.
HAMMOCK_API Loss GaussianNLLLoss(bool full = false, double eps = 1e-6,
                                 const std::string& reduction = "mean");
/// Of two inputs and the target, which is 1 or -1.
HAMMOCK_API Loss MarginRankingLoss(double margin = 0, const std::string& reduction = "mean");
HAMMOCK_API Loss CosineEmbeddingLoss(double margin = 0, const std::string& reduction = "mean");

struct TripletOptions {
  double margin = 1, p = 2, eps = 1e-6;
  bool swap = false;
  std::string reduction = "mean";
};
/// Of anchor, positive and negative.
HAMMOCK_API Loss TripletMarginLoss(const TripletOptions& options = {});
/// Of log-probabilities, targets, lengths of inputs and of targets.
HAMMOCK_API Loss CTCLoss(int64_t blank = 0, const std::string& reduction = "mean",
                         bool zero_infinity = false);

}  // namespace hammock::nn
