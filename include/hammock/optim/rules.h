#pragma once
/// Optimisers that update each parameter from its own gradient. Names, defaults and arithmetic are
/// PyTorch's.
///
///   optim::AdamW optimizer({{.params = decayed, .options = {.lr = 3e-4}},
///                           {.params = others, .options = {.lr = 3e-4, .weight_decay = 0}}});

#include "hammock/optim/optimizer.h"

namespace hammock::optim {

struct HAMMOCK_API SGDOptions {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false, maximize = false;
};
struct HAMMOCK_API AdamOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool amsgrad = false, maximize = false;
};
struct HAMMOCK_API AdamWOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 1e-2;
  bool amsgrad = false, maximize = false;
};
struct HAMMOCK_API AdamaxOptions {
  double lr = 2e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool maximize = false;
};
struct HAMMOCK_API NAdamOptions {
  double lr = 2e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  double momentum_decay = 4e-3;
};
struct HAMMOCK_API RAdamOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
};
struct HAMMOCK_API RMSpropOptions {
  double lr = 1e-2, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0;
  bool centered = false, maximize = false;
};
struct HAMMOCK_API AdagradOptions {
  double lr = 1e-2, lr_decay = 0, weight_decay = 0, initial_accumulator_value = 0, eps = 1e-10;
  bool maximize = false;
};
struct HAMMOCK_API AdadeltaOptions {
  double lr = 1.0, rho = 0.9, eps = 1e-6, weight_decay = 0;
  bool maximize = false;
};
struct HAMMOCK_API LionOptions {
  double lr = 1e-4, beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
};

/// Parameters that share options.
template <class Options>
struct Group {
  std::vector<Tensor> params;
  Options options;
};

template <class Options>
class HAMMOCK_API Rule : public Optimizer {
 public:
  explicit Rule(std::vector<Tensor> params, Options options = {});
  explicit Rule(std::vector<Group<Options>> groups);

  /// Updates every parameter that has a gradient.
  void step();
  /// As they were given; `lr()` and `momentum()` have the present values of those two.
  const Options& options(int group = 0) const { return options_.at(group); }

  StateDict state_dict() const override;
  void load_state_dict(const StateDict& state) override;

 private:
  struct Slot {
    Tensor param;
    int group;
    Tensor step;  // f64[]; parameters that had the same number of updates share one
    StateDict state;
  };
  void CountSteps();

  std::vector<Options> options_;
  std::vector<Slot> slots_;
};

using SGD = Rule<SGDOptions>;
using Adam = Rule<AdamOptions>;
using AdamW = Rule<AdamWOptions>;
using Adamax = Rule<AdamaxOptions>;
using NAdam = Rule<NAdamOptions>;
using RAdam = Rule<RAdamOptions>;
using RMSprop = Rule<RMSpropOptions>;
using Adagrad = Rule<AdagradOptions>;
using Adadelta = Rule<AdadeltaOptions>;
using Lion = Rule<LionOptions>;

extern template class Rule<SGDOptions>;
extern template class Rule<AdamOptions>;
extern template class Rule<AdamWOptions>;
extern template class Rule<AdamaxOptions>;
extern template class Rule<NAdamOptions>;
extern template class Rule<RAdamOptions>;
extern template class Rule<RMSpropOptions>;
extern template class Rule<AdagradOptions>;
extern template class Rule<AdadeltaOptions>;
extern template class Rule<LionOptions>;

}  // namespace hammock::optim
