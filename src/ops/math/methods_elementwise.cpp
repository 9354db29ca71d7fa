// Tensor methods of elementwise.h: each forwards to the function of its name.

#include "hammock/ops/elementwise.h"
#include "hammock/ops/nn.h"

namespace hammock {

#define METHOD(name) \
  Tensor Tensor::name(Location at) const { return hammock::name(*this, at); }
HAMMOCK_UNARY_OPS(METHOD)
HAMMOCK_UNARY_FUNCTIONS(METHOD)
METHOD(relu)
#undef METHOD

#define METHOD(name) \
  Tensor& Tensor::name##_(Location at) { return hammock::name##_(*this, at); }
HAMMOCK_UNARY_OPS(METHOD)
METHOD(relu)
METHOD(zero)
#undef METHOD

#define METHOD(name)                                               \
  Tensor Tensor::name(const TensorArg& other, Location at) const { \
    return hammock::name(*this, other, at);                        \
  }
HAMMOCK_BINARY_OPS(METHOD)
HAMMOCK_BINARY_FUNCTIONS(METHOD)
METHOD(heaviside)
METHOD(clamp_min)
METHOD(clamp_max)
#undef METHOD

#define METHOD(name)                                             \
  Tensor& Tensor::name##_(const TensorArg& other, Location at) { \
    return hammock::name##_(*this, other, at);                   \
  }
HAMMOCK_BINARY_OPS(METHOD)
METHOD(heaviside)
METHOD(clamp_min)
METHOD(clamp_max)
METHOD(fill)
#undef METHOD

Tensor Tensor::add(const TensorArg& other, const Scalar& alpha, Location at) const {
  return hammock::add(*this, other, alpha, at);
}
Tensor Tensor::sub(const TensorArg& other, const Scalar& alpha, Location at) const {
  return hammock::sub(*this, other, alpha, at);
}
Tensor& Tensor::add_(const TensorArg& other, const Scalar& alpha, Location at) {
  return hammock::add_(*this, other, alpha, at);
}
Tensor& Tensor::sub_(const TensorArg& other, const Scalar& alpha, Location at) {
  return hammock::sub_(*this, other, alpha, at);
}
Tensor Tensor::div(const TensorArg& other, const std::optional<std::string>& rounding_mode,
                   Location at) const {
  return hammock::div(*this, other, rounding_mode, at);
}
Tensor& Tensor::div_(const TensorArg& other, const std::optional<std::string>& rounding_mode,
                     Location at) {
  return hammock::div_(*this, other, rounding_mode, at);
}
Tensor Tensor::round(int64_t decimals, Location at) const {
  return hammock::round(*this, decimals, at);
}
Tensor Tensor::clamp(const std::optional<TensorArg>& min, const std::optional<TensorArg>& max,
                     Location at) const {
  return hammock::clamp(*this, min, max, at);
}
Tensor& Tensor::clamp_(const std::optional<TensorArg>& min, const std::optional<TensorArg>& max,
                       Location at) {
  return hammock::clamp_(*this, min, max, at);
}
Tensor Tensor::where(const Tensor& condition, const TensorArg& other, Location at) const {
  return hammock::where(condition, *this, other, at);
}
Tensor Tensor::lerp(const Tensor& end, const TensorArg& weight, Location at) const {
  return hammock::lerp(*this, end, weight, at);
}
Tensor& Tensor::lerp_(const Tensor& end, const TensorArg& weight, Location at) {
  return hammock::lerp_(*this, end, weight, at);
}
Tensor Tensor::addcmul(const Tensor& tensor1, const Tensor& tensor2, const Scalar& value,
                       Location at) const {
  return hammock::addcmul(*this, tensor1, tensor2, value, at);
}
Tensor Tensor::addcdiv(const Tensor& tensor1, const Tensor& tensor2, const Scalar& value,
                       Location at) const {
  return hammock::addcdiv(*this, tensor1, tensor2, value, at);
}
Tensor& Tensor::addcmul_(const Tensor& tensor1, const Tensor& tensor2, const Scalar& value,
                         Location at) {
  return hammock::addcmul_(*this, tensor1, tensor2, value, at);
}
Tensor& Tensor::addcdiv_(const Tensor& tensor1, const Tensor& tensor2, const Scalar& value,
                         Location at) {
  return hammock::addcdiv_(*this, tensor1, tensor2, value, at);
}
Tensor Tensor::isclose(const Tensor& other, double rtol, double atol, bool equal_nan,
                       Location at) const {
  return hammock::isclose(*this, other, rtol, atol, equal_nan, at);
}

}  // namespace hammock
