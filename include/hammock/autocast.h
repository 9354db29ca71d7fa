#pragma once
/// Mixed precision: in the scope of a guard, ops that gain from 16 bits get them, and ops that need
/// f32 get that.
///
///   Tensor loss;
///   {
///     AutocastGuard autocast(bf16);
///     loss = cross_entropy(net(x), y);  // matmuls in bf16, the loss in f32
///   }
///   loss.backward();                    // gradients have the dtypes of the parameters
///
/// The dtype that an op gets is in its record (`OpDef::autocast`) and in docs/ops.md: matmuls,
/// convolutions, attention and recurrent layers get the guard's dtype; logarithms, exponentials,
/// powers, sums, softmax, norms and losses get f32; some ops that want operands of one dtype get
/// the widest of theirs; all others take what comes. These are PyTorch's lists. f64 and integers
/// stay as they are, and so do in-place ops' own tensors. With f16 use an optim::GradScaler as
/// well.
///
/// Casts are recorded like other ops: a parameter that a step uses twice is cast once, since equal
/// nodes are one. Guards nest; each thread has its own; the backward pass runs without.

#include <optional>

#include "hammock/export.h"
#include "hammock/ir/dtype.h"
#include "hammock/location.h"

namespace hammock {

class HAMMOCK_API AutocastGuard {
 public:
  /// bf16 or f16, else ValueError.
  explicit AutocastGuard(DType dtype, Location at = Location::current());
  ~AutocastGuard();
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;
  /// That of the innermost guard; none outside of guards and where it is switched off.
  static std::optional<DType> dtype();

 protected:
  AutocastGuard();

 private:
  std::optional<DType> before_;
};

/// Switches it off.
struct NoAutocastGuard : AutocastGuard {
  NoAutocastGuard() = default;
};

}  // namespace hammock
