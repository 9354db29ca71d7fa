#pragma once
/// Limits on gradients, and averages of parameters. Nothing here computes: it is recorded.

#include <limits>
#include <vector>

#include "hammock/export.h"
#include "hammock/state_dict.h"
#include "hammock/tensor.h"

namespace hammock::optim {

/// Scales all gradients together so that their norm is at most `max_norm`; returns the norm they
/// had. Of parameters in shards (hammock/distributed/shard.h) it is the norm of all ranks' shards.
HAMMOCK_API Tensor clip_grad_norm_(const std::vector<Tensor>& params, double max_norm,
                                   double norm_type = 2.0, Location at = Location::current());

/// Limits every element of the gradients to [-clip_value, clip_value].
HAMMOCK_API void clip_grad_value_(const std::vector<Tensor>& params, double clip_value,
                                  Location at = Location::current());

/// Exponential moving averages of parameters.
///
///   optim::EMA average(net.parameters(), 0.999);
///   ...each step: average.update();
///   average.swap();  // evaluate with the averages
///   average.swap();  // and go on with the parameters
class HAMMOCK_API EMA {
 public:
  EMA(std::vector<Tensor> params, double decay, Location at = Location::current());
  void update(Location at = Location::current());
  /// Exchanges the values of parameters and averages.
  void swap(Location at = Location::current());
  const std::vector<Tensor>& averages() const { return averages_; }

  /// The averages by the numbers of their parameters.
  StateDict state_dict() const;
  void load_state_dict(const StateDict& state, Location at = Location::current());

 private:
  std::vector<Tensor> params_, averages_;
  Tensor keep_;  // the decay, a number in f64
};

}  // namespace hammock::optim
