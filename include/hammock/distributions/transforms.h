#pragma once
/// Invertible functions, and distributions of what they give.
///
///   TransformedDistribution squashed(Normal(mean, std), {TanhTransform(),
///   AffineTransform(0.0, 2.0)});

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hammock/distributions/distribution.h"

namespace hammock::distributions {

/// An elementwise function with its inverse and the logarithm of its derivative's magnitude.
struct HAMMOCK_API Transform {
  using Fn = std::function<Tensor(const Tensor&)>;
  std::string name;
  Fn forward, inverse;
  std::function<Tensor(const Tensor& x, const Tensor& y)> log_abs_det_jacobian;

  Tensor operator()(const Tensor& x) const { return forward(x); }
};

HAMMOCK_API Transform AffineTransform(const TensorArg& loc, const TensorArg& scale);
HAMMOCK_API Transform ExpTransform();
HAMMOCK_API Transform SigmoidTransform();
HAMMOCK_API Transform TanhTransform();
HAMMOCK_API Transform SoftplusTransform();
HAMMOCK_API Transform PowerTransform(const TensorArg& exponent);

/// Draws of the base, to which the transforms are applied in order.
class HAMMOCK_API TransformedDistribution : public Distribution {
 public:
  template <std::derived_from<Distribution> D>
  TransformedDistribution(const D& base, std::vector<Transform> transforms)
      : TransformedDistribution(std::make_shared<const D>(base), std::move(transforms)) {}
  TransformedDistribution(std::shared_ptr<const Distribution> base,
                          std::vector<Transform> transforms);
  std::string name() const override { return "TransformedDistribution"; }
  bool has_rsample() const override { return base_->has_rsample(); }
  const Distribution& base() const { return *base_; }

 protected:
  Tensor Draw(const Dims& sizes) const override;
  Tensor LogProb(const Tensor& value) const override;

 private:
  std::shared_ptr<const Distribution> base_;
  std::vector<Transform> transforms_;
};

}  // namespace hammock::distributions
