#pragma once
/// Optimizer: what all optimisers have in common.
///
///   optim::SGD optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
///   optimizer.zero_grad();
///   loss.backward();
///   optimizer.step();    // recorded, not run: one graph with the forward and backward pass
///
/// Numbers that change from step to step (learning rate, momentum, the count of steps) are in
/// tensors, so a schedule never causes a compile. An optimiser is used by one thread at a time.

#include <memory>
#include <string>
#include <vector>

#include "hammock/export.h"
#include "hammock/state_dict.h"
#include "hammock/tensor.h"

namespace hammock::optim {

using hammock::StateDict;

/// A number that schedules change: the f64[] tensor that the update reads. A step that fails puts
/// it back with everything else that the step has written.
class HAMMOCK_API Hyper {
 public:
  Hyper(double value, const Device& device);
  /// Reads the tensor, unless its value is the one last set or read.
  double value() const;
  const Tensor& tensor() const { return tensor_; }
  void set(double value);

 private:
  Tensor tensor_;                               // the same handle for ever
  mutable std::shared_ptr<const Value> known_;  // of the tensor, when it had the number `number_`
  mutable double number_;
};

class HAMMOCK_API Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Forgets all gradients.
  void zero_grad(Location at = Location::current());

  int groups() const { return static_cast<int>(groups_.size()); }
  const std::vector<Tensor>& params(int group = 0, Location at = Location::current()) const;
  double lr(int group = 0, Location at = Location::current()) const;
  void set_lr(double lr, Location at = Location::current());
  void set_lr(int group, double lr, Location at = Location::current());
  /// The momentum of SGD and RMSprop, the first beta of the Adam family; 0 where there is none.
  double momentum(int group = 0, Location at = Location::current()) const;
  void set_momentum(int group, double momentum, Location at = Location::current());

  /// All that a resumed run needs, as the optimiser's own tensors: "0.exp_avg" and "0.step" of the
  /// parameter with that number, "groups.0.lr", "groups.0.momentum".
  virtual StateDict state_dict() const;
  /// Copies from what state_dict gave. Missing and unexpected entries and those of another dtype or
  /// shape are listed in one ValueError; then nothing has been loaded.
  virtual void load_state_dict(const StateDict& state, Location at = Location::current());
  /// The shapes that load_state_dict expects when it is given a state of such shapes.
  virtual StateShapes ExpectedState(const StateShapes& given) const;
  /// All tensors that a step may change, always in the same order; some may be given twice.
  virtual std::vector<Tensor> tensors() const;

 protected:
  struct ParamGroup {
    std::vector<Tensor> params;
    Hyper lr, momentum;
  };
  Optimizer();
  /// Refuses parameters that are undefined, not leaves, not floats, or given before.
  void AddGroup(const std::vector<Tensor>& params, double lr, double momentum);
  const ParamGroup& GroupAt(int group) const;
  ParamGroup& GroupAt(int group);

 private:
  std::vector<ParamGroup> groups_;
};

}  // namespace hammock::optim
