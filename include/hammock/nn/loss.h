#pragma once
/// Losses as layers: `nn::CrossEntropyLoss()(scores, labels)`. `reduction` is mean, sum or none.

#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "hammock/nn/containers.h"
#include "hammock/nn/layer.h"
#include "hammock/nn/linear.h"

namespace hammock::nn {

class HAMMOCK_API LossImpl : public Module {
 public:
  using LossFn = std::function<Tensor(const LossImpl& self, const std::vector<Tensor>&)>;
  LossImpl(std::string class_name, size_t inputs, LossFn loss,
           const std::optional<Tensor>& weight = std::nullopt,
           const std::optional<Tensor>& pos_weight = std::nullopt);
  template <std::convertible_to<Tensor>... T>
  Tensor forward(const TensorAt& input, const T&... rest) {
    return Run({input.tensor, rest...}, input.at);
  }

  Buffer weight, pos_weight;  ///< undefined unless given

 private:
  Tensor Run(const std::vector<Tensor>& inputs, const Location& at) const;
  size_t inputs_;
  LossFn loss_;
};
using Loss = Layer<LossImpl>;

// ---- Of input and target
HAMMOCK_API Loss L1Loss(const std::string& reduction = "mean", Location at = Location::current());
HAMMOCK_API Loss MSELoss(const std::string& reduction = "mean", Location at = Location::current());
HAMMOCK_API Loss SmoothL1Loss(const std::string& reduction = "mean", double beta = 1,
                              Location at = Location::current());
HAMMOCK_API Loss HuberLoss(const std::string& reduction = "mean", double delta = 1,
                           Location at = Location::current());
HAMMOCK_API Loss KLDivLoss(const std::string& reduction = "mean", bool log_target = false,
                           Location at = Location::current());
HAMMOCK_API Loss SoftMarginLoss(const std::string& reduction = "mean",
                                Location at = Location::current());
HAMMOCK_API Loss HingeEmbeddingLoss(double margin = 1, const std::string& reduction = "mean",
                                    Location at = Location::current());
HAMMOCK_API Loss MultiLabelMarginLoss(const std::string& reduction = "mean",
                                      Location at = Location::current());

struct ClassLossOptions {
  std::optional<Tensor> weight = std::nullopt;  ///< of each class
  int64_t ignore_index = -100;
  std::string reduction = "mean";
  double label_smoothing = 0;  ///< CrossEntropyLoss only
};
HAMMOCK_API Loss CrossEntropyLoss(const ClassLossOptions& options = {},
                                  Location at = Location::current());
HAMMOCK_API Loss NLLLoss(const ClassLossOptions& options = {}, Location at = Location::current());

struct BinaryLossOptions {
  std::optional<Tensor> weight = std::nullopt;
  std::string reduction = "mean";
  std::optional<Tensor> pos_weight = std::nullopt;  ///< BCEWithLogitsLoss only
};
HAMMOCK_API Loss BCELoss(const BinaryLossOptions& options = {}, Location at = Location::current());
HAMMOCK_API Loss BCEWithLogitsLoss(const BinaryLossOptions& options = {},
                                   Location at = Location::current());
HAMMOCK_API Loss MultiLabelSoftMarginLoss(const BinaryLossOptions& options = {},
                                          Location at = Location::current());

struct MultiMarginOptions {
  int64_t p = 1;
  double margin = 1;
  std::optional<Tensor> weight = std::nullopt;
  std::string reduction = "mean";
};
HAMMOCK_API Loss MultiMarginLoss(const MultiMarginOptions& options = {},
                                 Location at = Location::current());

struct PoissonOptions {
  bool log_input = true, full = false;
  double eps = 1e-8;
  std::string reduction = "mean";
};
HAMMOCK_API Loss PoissonNLLLoss(const PoissonOptions& options = {},
                                Location at = Location::current());

// ---- Of more tensors
/// Of input, target and variance.
HAMMOCK_API Loss GaussianNLLLoss(bool full = false, double eps = 1e-6,
                                 const std::string& reduction = "mean",
                                 Location at = Location::current());
/// Of two inputs and the target, which is 1 or -1.
HAMMOCK_API Loss MarginRankingLoss(double margin = 0, const std::string& reduction = "mean",
                                   Location at = Location::current());
HAMMOCK_API Loss CosineEmbeddingLoss(double margin = 0, const std::string& reduction = "mean",
                                     Location at = Location::current());

struct TripletOptions {
  double margin = 1, p = 2, eps = 1e-6;
  bool swap = false;
  std::string reduction = "mean";
};
/// Of anchor, positive and negative.
HAMMOCK_API Loss TripletMarginLoss(const TripletOptions& options = {},
                                   Location at = Location::current());
struct TripletDistanceOptions {
  std::function<Tensor(const Tensor&, const Tensor&)> distance = nullptr;  ///< pairwise_distance
  double margin = 1;
  bool swap = false;
  std::string reduction = "mean";
};
HAMMOCK_API Loss TripletMarginWithDistanceLoss(const TripletDistanceOptions& options = {},
                                               Location at = Location::current());
/// Of log-probabilities, targets, lengths of inputs and of targets.
HAMMOCK_API Loss CTCLoss(int64_t blank = 0, const std::string& reduction = "mean",
                         bool zero_infinity = false, Location at = Location::current());

// ---- Distances of two tensors
HAMMOCK_API Loss CosineSimilarity(int64_t dim = 1, double eps = 1e-8);
HAMMOCK_API Loss PairwiseDistance(double p = 2, double eps = 1e-6, bool keepdim = false);

// ---- Losses with parameters

struct LinearCrossEntropyOptions {
  int64_t in_features, num_classes;
  bool bias = false;
  ClassLossOptions loss = {};
};
/// CrossEntropyLoss of a linear layer's output.
class HAMMOCK_API LinearCrossEntropyLossImpl : public Module {
 public:
  using Options = LinearCrossEntropyOptions;
  explicit LinearCrossEntropyLossImpl(const Options& options);
  LinearCrossEntropyLossImpl(int64_t in_features, int64_t num_classes)
      : LinearCrossEntropyLossImpl(Options{in_features, num_classes}) {}
  Tensor forward(const TensorAt& input, const Tensor& target);

  Linear linear;
  Buffer weight;

 private:
  ClassLossOptions loss_;
};
using LinearCrossEntropyLoss = Layer<LinearCrossEntropyLossImpl>;

struct AdaptiveLogSoftmaxOptions {
  int64_t in_features, n_classes;
  std::vector<int64_t> cutoffs;  ///< where a cluster of rarer classes begins
  double div_value = 4;
  bool head_bias = false;
};
/// Softmax over many classes that are sorted by frequency; rarer ones have smaller projections. All
/// clusters are computed for all rows, so that one graph serves every batch.
class HAMMOCK_API AdaptiveLogSoftmaxWithLossImpl : public Module {
 public:
  using Options = AdaptiveLogSoftmaxOptions;
  explicit AdaptiveLogSoftmaxWithLossImpl(const Options& options);
  /// (log-probability of each target, loss)
  std::tuple<Tensor, Tensor> forward(const TensorAt& input, const Tensor& target);
  Tensor log_prob(const TensorAt& input);  ///< of all classes
  Tensor predict(const TensorAt& input);   ///< the likeliest class

  Options options;
  Linear head = nullptr;
  ModuleList tail = nullptr;

 private:
  std::vector<int64_t> cutoffs_;  // and the number of classes
};
using AdaptiveLogSoftmaxWithLoss = Layer<AdaptiveLogSoftmaxWithLossImpl>;

}  // namespace hammock::nn
