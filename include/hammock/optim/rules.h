#pragma once
/// Optimisers that update each parameter from its own gradient. Names, defaults and arithmetic are
/// PyTorch's.
///
///   optim::AdamW optimizer({{.params = decayed, .options = {.lr = 3e-4}},
///                           {.params = others, .options = {.lr = 3e-4, .weight_decay = 0}}});

#include <optional>

#include "hammock/ir/attr.h"
#include "hammock/optim/optimizer.h"

namespace hammock {
struct OpDef;
class SparseTensor;
}  // namespace hammock

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
/// Adam of rows: takes sparse gradients only (hammock/sparse.h), and leaves rows without one alone.
struct HAMMOCK_API SparseAdamOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  bool maximize = false;
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

/// Whether an update takes gradients that have some rows of the parameter only.
enum class SparseGrads { kRefused, kTaken, kOnly };

/// The base of the rules below, whatever their options.
class HAMMOCK_API RuleOptimizer : public Optimizer {
 public:
  /// Updates every parameter that has a gradient: one recorded op for each.
  void step(Location at = Location::current());

  StateDict state_dict() const override;
  void load_state_dict(const StateDict& state, Location at = Location::current()) override;
  std::vector<Tensor> tensors() const override;

 protected:
  /// The update of all parameters of a group.
  struct GroupUpdate {
    const OpDef* op;
    std::vector<Tensor> operands;  // behind the gradient, but for the count of steps
    std::vector<Attr> attrs;
    int step_operand;  // where the count goes; -1: nowhere
    std::vector<const char*> state_names;
    SparseGrads sparse;
  };
  struct Slot {
    std::vector<Tensor> updated;  // the parameter, then its state
    int group;
    size_t count;  // which of `counts_`
  };

  std::vector<GroupUpdate> updates_;  // by group
  std::vector<Slot> slots_;
  std::vector<Tensor> counts_;  // f64[]; parameters that had the same number of updates share one

 private:
  void CountSteps(const std::vector<Tensor>& grads);
  std::optional<SparseTensor> SparseGradOf(size_t number, const Tensor& dense) const;
};

template <class Options>
class HAMMOCK_API Rule : public RuleOptimizer {
 public:
  explicit Rule(std::vector<Tensor> params, Options options = {},
                Location at = Location::current());
  explicit Rule(std::vector<Group<Options>> groups, Location at = Location::current());

  /// As they were given; `lr()` and `momentum()` have the present values of those two.
  const Options& options(int group = 0, Location at = Location::current()) const {
    params(group, at);
    return options_[static_cast<size_t>(group)];
  }

 private:
  std::vector<Options> options_;
};

using SGD = Rule<SGDOptions>;
using Adam = Rule<AdamOptions>;
using AdamW = Rule<AdamWOptions>;
using SparseAdam = Rule<SparseAdamOptions>;
using Adamax = Rule<AdamaxOptions>;
using NAdam = Rule<NAdamOptions>;
using RAdam = Rule<RAdamOptions>;
using RMSprop = Rule<RMSpropOptions>;
using Adagrad = Rule<AdagradOptions>;
using Adadelta = Rule<AdadeltaOptions>;
using Lion = Rule<LionOptions>;

}  // namespace hammock::optim
