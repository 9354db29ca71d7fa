#include "trace/autocast.h"

#include "base/throw.h"
#include "trace/apply.h"

namespace hammock {
namespace {

/// Floats but f64, as in PyTorch.
bool IsCast(const Tensor& x) {
  return x.defined() && x.is_floating_point() && x.dtype() != DType::kF64;
}

}  // namespace

AutocastGuard::AutocastGuard(DType dtype, Location at) : AutocastGuard() {
  LocationScope scope(at);
  if (dtype != DType::kF16 && dtype != DType::kBF16) {
    Context().autocast = before_;
    Throw(ErrorCode::kValue, "AutocastGuard: the dtype is {}, expected f16 or bf16", NameOf(dtype));
  }
  Context().autocast = dtype;
}
AutocastGuard::AutocastGuard() : before_(std::exchange(Context().autocast, std::nullopt)) {}
AutocastGuard::~AutocastGuard() { Context().autocast = before_; }
std::optional<DType> AutocastGuard::dtype() { return Context().autocast; }

std::optional<DType> Autocasted::DTypeFor(const OpDef& op) {
  switch (op.autocast) {
    case AutocastRule::kLow:
      return Context().autocast;
    case AutocastRule::kF32:
      return DType::kF32;
    case AutocastRule::kWidest:
    case AutocastRule::kNone:
      break;
  }
  return std::nullopt;
}

void Autocasted::Widen(const Tensor& x) {
  if (IsCast(x)) dtype_ = dtype_ ? PromoteTypes(*dtype_, x.dtype()) : x.dtype();
}
void Autocasted::Widen(const std::optional<Tensor>& x) {
  if (x) Widen(*x);
}
void Autocasted::Widen(const std::vector<Tensor>& tensors) {
  for (const Tensor& x : tensors) Widen(x);
}

Tensor Autocasted::operator()(const Tensor& x) const {
  return dtype_ && IsCast(x) && x.dtype() != *dtype_ ? ApplyCast(Location(), x, *dtype_) : x;
}
std::optional<Tensor> Autocasted::operator()(const std::optional<Tensor>& x) const {
  return x ? std::optional((*this)(*x)) : x;
}
std::vector<Tensor> Autocasted::operator()(const std::vector<Tensor>& tensors) const {
  std::vector<Tensor> cast;
  for (const Tensor& x : tensors) cast.push_back((*this)(x));
  return cast;
}

}  // namespace hammock
