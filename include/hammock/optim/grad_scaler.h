#pragma once
/// GradScaler: keeps the gradients of half precision from vanishing. The loss is multiplied by a
/// number and the gradients are divided by it again; where they overflow, the step is skipped and
/// the number is halved; after many good steps it is doubled. Semantics and defaults are PyTorch's.
///
///   optim::GradScaler scaler;
///   ...each step:
///     scaler.scale(loss).backward();
///     scaler.unscale_(optimizer);                     // only to look at the gradients, such as
///     optim::clip_grad_norm_(net.parameters(), 1.0);  // to limit them
///     scaler.step(optimizer);
///     scaler.update();
///
/// Nothing is read: whether a step counts is decided where it runs. Where ranks have shards of the
/// parameters (hammock/distributed/shard.h), all of them skip a step that one would skip. A scaler
/// is used by one thread at a time, and can be given to `compile` and to a Checkpoint.

#include <vector>

#include "hammock/device.h"
#include "hammock/export.h"
#include "hammock/optim/optimizer.h"
#include "hammock/tensor.h"

namespace hammock::optim {

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2, backoff_factor = 0.5;
  int64_t growth_interval = 2000;  ///< good steps in a row before the scale grows
  bool enabled = true;             ///< else everything passes through
  Device device = {};              ///< of the parameters
};

class HAMMOCK_API GradScaler {
 public:
  explicit GradScaler(const GradScalerOptions& options = {}, Location at = Location::current());

  /// The loss times the scale.
  Tensor scale(const Tensor& loss, Location at = Location::current()) const;
  /// Divides the gradients of the optimiser's parameters by the scale. At most once between two
  /// updates; f16 gradients are refused, as parameters should be f32.
  void unscale_(Optimizer& optimizer, Location at = Location::current());
  /// Unscales, unless that was done, and makes the step; it changes nothing where a gradient is not
  /// finite. At most once between two updates.
  template <class O>
  void step(O& optimizer, Location at = Location::current()) {
    BeforeStep(optimizer, at);
    if constexpr (requires { optimizer.step(at); }) {
      optimizer.step(at);
    } else {
      optimizer.step();
    }
    AfterStep(optimizer, at);
  }
  /// The next scale, by what the steps since the last update met; or a given one.
  void update(Location at = Location::current());
  void update(double new_scale, Location at = Location::current());

  bool is_enabled() const { return options_.enabled; }
  /// Computes.
  double get_scale(Location at = Location::current()) const;

  /// "scale" and "growth_tracker".
  StateDict state_dict() const;
  void load_state_dict(const StateDict& state, Location at = Location::current());

 private:
  /// A number, and whether it was set: not if the step that set it failed, and was undone with what
  /// else it wrote.
  class Mark {
   public:
    explicit Mark(const Device& device);
    void Set(const Tensor& value);
    bool is_set() const;
    const Tensor& number() const { return number_; }

   private:
    Tensor number_, unset_;
  };
  /// The state of an optimiser since the last update.
  struct Entry {
    const Optimizer* optimizer;
    Mark unscaled;  // f32[]: 1 where a gradient is not finite
    Mark stepped;
    std::vector<Tensor> before;  // the values of its tensors, while it steps
  };
  Entry& EntryOf(const Optimizer& optimizer);
  void BeforeStep(Optimizer& optimizer, Location at);
  void AfterStep(Optimizer& optimizer, Location at);

  GradScalerOptions options_;
  Tensor scale_, growth_tracker_;
  std::vector<Entry> entries_;
};

}  // namespace hammock::optim
