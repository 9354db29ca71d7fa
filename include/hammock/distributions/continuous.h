#pragma once
/// Distributions of a real number.

#include <string>

#include "hammock/distributions/distribution.h"

namespace hammock::distributions {

/// A distribution that is known by two parameters of equal sizes.
class HAMMOCK_API TwoParameters : public Distribution {
 public:
  bool has_rsample() const override { return true; }

 protected:
  TwoParameters(const TensorArg& first, const TensorArg& second);
  Tensor first_, second_;
};

class HAMMOCK_API Normal : public TwoParameters {
 public:
  Normal(const TensorArg& loc, const TensorArg& scale) : TwoParameters(loc, scale) {
    NeedPositive("Normal", "scale must be positive", scale, second_);
  }
  std::string name() const override { return "Normal"; }
  const Tensor& loc() const { return first_; }
  const Tensor& scale() const { return second_; }

 protected:
  Tensor Draw(const Dims& sizes) const override;
  Tensor LogProb(const Tensor& value) const override;
  Tensor Cdf(const Tensor& value) const override;
  Tensor Icdf(const Tensor& value) const override;
  Tensor Entropy() const override;
  Tensor Mean() const override { return loc(); }
  Tensor Variance() const override;
};

/// The exponential of a normal one.
class HAMMOCK_API LogNormal : public TwoParameters {
 public:
  LogNormal(const TensorArg& loc, const TensorArg& scale) : TwoParameters(loc, scale) {
    NeedPositive("LogNormal", "scale must be positive", scale, second_);
  }
  std::string name() const override { return "LogNormal"; }
  const Tensor& loc() const { return first_; }
  const Tensor& scale() const { return second_; }
  Normal base() const { return Normal(loc(), scale()); }

 protected:
  Tensor Draw(const Dims& sizes) const override;
  Tensor LogProb(const Tensor& value) const override;
  Tensor Cdf(const Tensor& value) const override;
  Tensor Icdf(const Tensor& value) const override;
  Tensor Entropy() const override;
  Tensor Mean() const override;
  Tensor Variance() const override;
};

/// In [low, high).
class HAMMOCK_API Uniform : public TwoParameters {
 public:
  Uniform(const TensorArg& low, const TensorArg& high);
  std::string name() const override { return "Uniform"; }
  const Tensor& low() const { return first_; }
  const Tensor& high() const { return second_; }

 protected:
  Tensor Draw(const Dims& sizes) const override;
  Tensor LogProb(const Tensor& value) const override;
  Tensor Cdf(const Tensor& value) const override;
  Tensor Icdf(const Tensor& value) const override;
  Tensor Entropy() const override;
  Tensor Mean() const override;
  Tensor Variance() const override;
};

class HAMMOCK_API Laplace : public TwoParameters {
 public:
  Laplace(const TensorArg& loc, const TensorArg& scale) : TwoParameters(loc, scale) {
    NeedPositive("Laplace", "scale must be positive", scale, second_);
  }
  std::string name() const override { return "Laplace"; }
  const Tensor& loc() const { return first_; }
  const Tensor& scale() const { return second_; }

 protected:
  Tensor Draw(const Dims& sizes) const override;
  Tensor LogProb(const Tensor& value) const override;
  Tensor Cdf(const Tensor& value) const override;
  Tensor Icdf(const Tensor& value) const override;
  Tensor Entropy() const override;
  Tensor Mean() const override { return loc(); }
  Tensor Variance() const override;
};

/// Mean is NaN, variance too.
class HAMMOCK_API Cauchy : public TwoParameters {
 public:
  Cauchy(const TensorArg& loc, const TensorArg& scale) : TwoParameters(loc, scale) {
    NeedPositive("Cauchy", "scale must be positive", scale, second_);
  }
  std::string name() const override { return "Cauchy"; }
  const Tensor& loc() const { return first_; }
  const Tensor& scale() const { return second_; }

 protected:
  Tensor Draw(const Dims& sizes) const override;
  Tensor LogProb(const Tensor& value) const override;
  Tensor Cdf(const Tensor& value) const override;
  Tensor Icdf(const Tensor& value) const override;
  Tensor Entropy() const override;
  Tensor Mean() const override;
  Tensor Variance() const override;
};

class HAMMOCK_API Gumbel : public TwoParameters {
 public:
  Gumbel(const TensorArg& loc, const TensorArg& scale) : TwoParameters(loc, scale) {
    NeedPositive("Gumbel", "scale must be positive", scale, second_);
  }
  std::string name() const override { return "Gumbel"; }
  const Tensor& loc() const { return first_; }
  const Tensor& scale() const { return second_; }

 protected:
  Tensor Draw(const Dims& sizes) const override;
  Tensor LogProb(const Tensor& value) const override;
  Tensor Cdf(const Tensor& value) const override;
  Tensor Icdf(const Tensor& value) const override;
  Tensor Entropy() const override;
  Tensor Mean() const override;
  Tensor Variance() const override;
};

/// Gradients with respect to the concentration are those of the inverse distribution function.
class HAMMOCK_API Gamma : public TwoParameters {
 public:
  Gamma(const TensorArg& concentration, const TensorArg& rate)
      : TwoParameters(concentration, rate) {
    NeedPositive("Gamma", "concentration must be positive", concentration, first_);
    NeedPositive("Gamma", "rate must be positive", rate, second_);
  }
  std::string name() const override { return "Gamma"; }
  const Tensor& concentration() const { return first_; }
  const Tensor& rate() const { return second_; }

 protected:
  Tensor Draw(const Dims& sizes) const override;
  Tensor LogProb(const Tensor& value) const override;
  Tensor Cdf(const Tensor& value) const override;
  Tensor Entropy() const override;
  Tensor Mean() const override;
  Tensor Variance() const override;
};

class HAMMOCK_API Beta : public TwoParameters {
 public:
  Beta(const TensorArg& concentration1, const TensorArg& concentration0)
      : TwoParameters(concentration1, concentration0) {
    NeedPositive("Beta", "concentration1 must be positive", concentration1, first_);
    NeedPositive("Beta", "concentration0 must be positive", concentration0, second_);
  }
  std::string name() const override { return "Beta"; }
  const Tensor& concentration1() const { return first_; }
  const Tensor& concentration0() const { return second_; }

 protected:
  Tensor Draw(const Dims& sizes) const override;
  Tensor LogProb(const Tensor& value) const override;
  Tensor Entropy() const override;
  Tensor Mean() const override;
  Tensor Variance() const override;
};

class HAMMOCK_API Exponential : public Distribution {
 public:
  explicit Exponential(const TensorArg& rate);
  std::string name() const override { return "Exponential"; }
  bool has_rsample() const override { return true; }
  const Tensor& rate() const { return rate_; }

 protected:
  Tensor Draw(const Dims& sizes) const override;
  Tensor LogProb(const Tensor& value) const override;
  Tensor Cdf(const Tensor& value) const override;
  Tensor Icdf(const Tensor& value) const override;
  Tensor Entropy() const override;
  Tensor Mean() const override;
  Tensor Variance() const override;

 private:
  Tensor rate_;
};

class HAMMOCK_API StudentT : public Distribution {
 public:
  explicit StudentT(const TensorArg& df, const TensorArg& loc = 0.0, const TensorArg& scale = 1.0);
  std::string name() const override { return "StudentT"; }
  bool has_rsample() const override { return true; }
  const Tensor& df() const { return df_; }
  const Tensor& loc() const { return loc_; }
  const Tensor& scale() const { return scale_; }

 protected:
  Tensor Draw(const Dims& sizes) const override;
  Tensor LogProb(const Tensor& value) const override;
  Tensor Entropy() const override;
  Tensor Mean() const override;
  Tensor Variance() const override;

 private:
  Tensor df_, loc_, scale_;
};

}  // namespace hammock::distributions
