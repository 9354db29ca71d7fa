#pragma once
/// How ops take part in autocast. Nodes do by their records, when they are recorded; functions that
/// look at the dtypes of their arguments before that begin with
///
///   if (Autocasted cast(kMm, at, self, mat2); cast) return mm(cast(self), cast(mat2), at);

#include <optional>
#include <vector>

#include "base/location_scope.h"
#include "hammock/autocast.h"
#include "hammock/ir/op_def.h"
#include "hammock/tensor.h"
#include "trace/tensor_impl.h"

namespace hammock {

/// Whether a guard's dtype holds: expansions and gradients are written for the dtypes they get.
inline bool IsAutocast(const ThreadContext& context) {
  return context.autocast.has_value() && context.baking == 0 && context.symbolic == 0;
}

/// True where the op has a rule and a guard is there. While one lives the guard is off: what the op
/// is made of gets what the op gets.
class Autocasted {
 public:
  template <class... Operands>
  Autocasted(const OpDef& op, const Location& at, const Operands&... operands) {
    if (op.autocast == AutocastRule::kNone || !IsAutocast(Context())) return;
    dtype_ = DTypeFor(op);
    off_.emplace(at);
    if (op.autocast == AutocastRule::kWidest) (Widen(operands), ...);
  }

  explicit operator bool() const { return off_.has_value(); }
  Tensor operator()(const Tensor& x) const;
  std::optional<Tensor> operator()(const std::optional<Tensor>& x) const;
  std::vector<Tensor> operator()(const std::vector<Tensor>& tensors) const;

 private:
  struct Off {
    explicit Off(const Location& at) : location(at) {}
    std::optional<DType> before = std::exchange(Context().autocast, std::nullopt);
    LocationScope location;
    ~Off() { Context().autocast = before; }
  };
  static std::optional<DType> DTypeFor(const OpDef& op);
  void Widen(const Tensor& x);
  void Widen(const std::optional<Tensor>& x);
  void Widen(const std::vector<Tensor>& tensors);

  std::optional<Off> off_;
  std::optional<DType> dtype_;
};

}  // namespace hammock
