#include "hammock/distributions/transforms.h"

#include <cmath>

#include "distributions/parameters.h"

namespace hammock::distributions {

Transform AffineTransform(const TensorArg& loc, const TensorArg& scale) {
  std::vector<Tensor> both = Broadcast({loc, scale});
  Tensor shift = both[0], factor = both[1];
  return {"AffineTransform", [=](const Tensor& x) { return shift + factor * x; },
          [=](const Tensor& y) { return (y - shift) / factor; },
          [=](const Tensor& x, const Tensor&) {
            return expand(log(abs(factor)), broadcast_shapes({x.sizes(), factor.sizes()}));
          }};
}

Transform ExpTransform() {
  return {"ExpTransform", [](const Tensor& x) { return exp(x); },
          [](const Tensor& y) { return log(y); }, [](const Tensor& x, const Tensor&) { return x; }};
}

Transform SigmoidTransform() {
  return {"SigmoidTransform", [](const Tensor& x) { return sigmoid(x); },
          [](const Tensor& y) { return logit(y); },
          [](const Tensor& x, const Tensor&) { return -softplus(-x) - softplus(x); }};
}

Transform TanhTransform() {
  return {"TanhTransform", [](const Tensor& x) { return tanh(x); },
          [](const Tensor& y) { return atanh(y); },
          [](const Tensor& x, const Tensor&) {
            return (std::log(2.0) - x - softplus(x * -2.0)) * 2.0;
          }};
}

Transform SoftplusTransform() {
  return {"SoftplusTransform", [](const Tensor& x) { return softplus(x); },
          [](const Tensor& y) { return log(-expm1(-y)) + y; },
          [](const Tensor& x, const Tensor&) { return -softplus(-x); }};
}

Transform PowerTransform(const TensorArg& given) {
  Tensor exponent = Broadcast({given})[0];
  return {"PowerTransform", [=](const Tensor& x) { return pow(x, exponent); },
          [=](const Tensor& y) { return pow(y, reciprocal(exponent)); },
          [=](const Tensor& x, const Tensor& y) { return log(abs(exponent * y / x)); }};
}

// ---- TransformedDistribution

TransformedDistribution::TransformedDistribution(std::shared_ptr<const Distribution> base,
                                                 std::vector<Transform> transforms)
    : Distribution(base->batch_shape(), base->event_shape()),
      base_(std::move(base)),
      transforms_(std::move(transforms)) {}

Tensor TransformedDistribution::Draw(const Dims& sizes) const {
  Tensor value = DrawFrom(*base_, sizes);
  for (const Transform& transform : transforms_) value = transform(value);
  return value;
}

Tensor TransformedDistribution::LogProb(const Tensor& value) const {
  Tensor y = value, scaling;
  for (size_t i = transforms_.size(); i-- > 0;) {
    Tensor x = transforms_[i].inverse(y);
    Tensor jacobian = transforms_[i].log_abs_det_jacobian(x, y);
    scaling = scaling.defined() ? scaling + jacobian : jacobian;
    y = x;
  }
  Tensor density = base_->log_prob(y);
  return scaling.defined() ? density - SumLast(scaling, event_shape().size()) : density;
}

}  // namespace hammock::distributions
