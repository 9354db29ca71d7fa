#include "hammock/distributions/continuous.h"

#include <cmath>
#include <limits>

#include "base/throw.h"
#include "distributions/parameters.h"
#include "ops/primitives/require.h"

namespace hammock::distributions {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TwoParameters::TwoParameters(const TensorArg& first, const TensorArg& second)
    : Distribution(Dims()) {
  std::vector<Tensor> both = Broadcast({first, second});
  first_ = both[0];
  second_ = both[1];
  SetBatchShape(first_.sizes());
}

// ---- Normal

Tensor Normal::Draw(const Dims& sizes) const { return loc() + NormalLike(loc(), sizes) * scale(); }
Tensor Normal::LogProb(const Tensor& value) const {
  Tensor z = (value - loc()) / scale();
  return square(z) * -0.5 - log(scale()) - 0.5 * kLogTwoPi;
}
Tensor Normal::Cdf(const Tensor& value) const {
  return (1.0 + erf((value - loc()) / (scale() * std::sqrt(2.0)))) * 0.5;
}
Tensor Normal::Icdf(const Tensor& value) const {
  return loc() + scale() * erfinv(value * 2.0 - 1.0) * std::sqrt(2.0);
}
Tensor Normal::Entropy() const { return log(scale()) + (0.5 + 0.5 * kLogTwoPi); }
Tensor Normal::Variance() const { return square(scale()); }

// ---- LogNormal

Tensor LogNormal::Draw(const Dims& sizes) const {
  return exp(loc() + NormalLike(loc(), sizes) * scale());
}
Tensor LogNormal::LogProb(const Tensor& value) const {
  Tensor x = log(Supported("LogNormal", "values must not be negative", value, 0, kInfinity));
  return base().log_prob(x) - x;
}
Tensor LogNormal::Cdf(const Tensor& value) const { return base().cdf(log(value)); }
Tensor LogNormal::Icdf(const Tensor& value) const { return exp(base().icdf(value)); }
Tensor LogNormal::Entropy() const { return base().entropy() + loc(); }
Tensor LogNormal::Mean() const { return exp(loc() + square(scale()) * 0.5); }
Tensor LogNormal::Variance() const {
  Tensor s = square(scale());
  return expm1(s) * exp(loc() * 2.0 + s);
}

// ---- Uniform

Uniform::Uniform(const TensorArg& low, const TensorArg& high) : TwoParameters(low, high) {
  constexpr char kMessage[] = "low must be below high";
  LocationScope scope(low.at());
  if (low.is_tensor() || high.is_tensor()) {
    second_ = ops::Required(second_, first_.lt(second_), "Uniform", kMessage);
  } else if (!(low.scalar().ToDouble() < high.scalar().ToDouble())) {
    Throw(ErrorCode::kValue, "Uniform: {}, not {} and {}", kMessage, low.scalar().ToDouble(),
          high.scalar().ToDouble());
  }
}
Tensor Uniform::Draw(const Dims& sizes) const {
  return low() + UniformLike(low(), sizes) * (high() - low());
}
Tensor Uniform::LogProb(const Tensor& value) const {
  Tensor inside = logical_and(low().le(value), high().gt(value));
  return log(inside.to(low().dtype())) - log(high() - low());
}
Tensor Uniform::Cdf(const Tensor& value) const {
  return clamp((value - low()) / (high() - low()), 0.0, 1.0);
}
Tensor Uniform::Icdf(const Tensor& value) const { return value * (high() - low()) + low(); }
Tensor Uniform::Entropy() const { return log(high() - low()); }
Tensor Uniform::Mean() const { return (high() + low()) * 0.5; }
Tensor Uniform::Variance() const { return square(high() - low()) / 12.0; }

// ---- Laplace

Tensor Laplace::Draw(const Dims& sizes) const {
  Tensor u = clamp_min(UniformLike(loc(), sizes) * 2.0 - 1.0, Epsilon(loc()) - 1);
  return loc() - scale() * sign(u) * log1p(-abs(u));
}
Tensor Laplace::LogProb(const Tensor& value) const {
  return -log(scale() * 2.0) - abs(value - loc()) / scale();
}
Tensor Laplace::Cdf(const Tensor& value) const {
  Tensor distance = value - loc();
  return 0.5 - sign(distance) * expm1(-abs(distance) / scale()) * 0.5;
}
Tensor Laplace::Icdf(const Tensor& value) const {
  Tensor term = value - 0.5;
  return loc() - scale() * sign(term) * log1p(abs(term) * -2.0);
}
Tensor Laplace::Entropy() const { return log(scale() * 2.0) + 1.0; }
Tensor Laplace::Variance() const { return square(scale()) * 2.0; }

// ---- Cauchy

Tensor Cauchy::Draw(const Dims& sizes) const {
  return loc() + scale() * tan((UniformLike(loc(), sizes) - 0.5) * kPi);
}
Tensor Cauchy::LogProb(const Tensor& value) const {
  return -std::log(kPi) - log(scale()) - log1p(square((value - loc()) / scale()));
}
Tensor Cauchy::Cdf(const Tensor& value) const {
  return atan((value - loc()) / scale()) / kPi + 0.5;
}
Tensor Cauchy::Icdf(const Tensor& value) const {
  return tan((value - 0.5) * kPi) * scale() + loc();
}
Tensor Cauchy::Entropy() const { return log(scale()) + std::log(4 * kPi); }
Tensor Cauchy::Mean() const { return full_like(loc(), kNan); }
Tensor Cauchy::Variance() const { return full_like(loc(), kInfinity); }

// ---- Gumbel

Tensor Gumbel::Draw(const Dims& sizes) const {
  // 1 - u is never 0, so that its logarithm is finite; neither is that zero.
  Tensor u = clamp_max(1.0 - UniformLike(loc(), sizes), 1 - Epsilon(loc()));
  return loc() - scale() * log(-log(u));
}
Tensor Gumbel::LogProb(const Tensor& value) const {
  Tensor y = (loc() - value) / scale();
  return y - exp(y) - log(scale());
}
Tensor Gumbel::Cdf(const Tensor& value) const { return exp(-exp((loc() - value) / scale())); }
Tensor Gumbel::Icdf(const Tensor& value) const { return loc() - scale() * log(-log(value)); }
Tensor Gumbel::Entropy() const { return log(scale()) + (1 + kEulerGamma); }
Tensor Gumbel::Mean() const { return loc() + scale() * kEulerGamma; }
Tensor Gumbel::Variance() const { return square(scale()) * (kPi * kPi / 6); }

// ---- Gamma

Tensor Gamma::Draw(const Dims& sizes) const {
  return StandardGamma(expand(concentration(), sizes)) / rate();
}
Tensor Gamma::LogProb(const Tensor& given) const {
  Tensor value = Supported("Gamma", "values must not be negative", given, 0, kInfinity);
  return xlogy(concentration(), rate()) + xlogy(concentration() - 1.0, value) - rate() * value -
         lgamma(concentration());
}
Tensor Gamma::Cdf(const Tensor& value) const {
  std::vector<Tensor> both = broadcast_tensors({concentration(), rate() * value});
  return igamma(both[0], both[1]);
}
Tensor Gamma::Entropy() const {
  return concentration() - log(rate()) + lgamma(concentration()) +
         (1.0 - concentration()) * digamma(concentration());
}
Tensor Gamma::Mean() const { return concentration() / rate(); }
Tensor Gamma::Variance() const { return concentration() / square(rate()); }

// ---- Beta

Tensor Beta::Draw(const Dims& sizes) const {
  Tensor one = StandardGamma(expand(concentration1(), sizes));
  return one / (one + StandardGamma(expand(concentration0(), sizes)));
}
Tensor Beta::LogProb(const Tensor& given) const {
  const Tensor &a = concentration1(), &b = concentration0();
  Tensor value = Supported("Beta", "values must be in [0, 1]", given, 0, 1);
  return xlogy(a - 1.0, value) + xlog1py(b - 1.0, -value) + lgamma(a + b) - lgamma(a) - lgamma(b);
}
Tensor Beta::Entropy() const {
  const Tensor &a = concentration1(), &b = concentration0();
  Tensor sum = a + b;
  return lgamma(a) + lgamma(b) - lgamma(sum) - (a - 1.0) * digamma(a) - (b - 1.0) * digamma(b) +
         (sum - 2.0) * digamma(sum);
}
Tensor Beta::Mean() const { return concentration1() / (concentration1() + concentration0()); }
Tensor Beta::Variance() const {
  Tensor sum = concentration1() + concentration0();
  return concentration1() * concentration0() / (square(sum) * (sum + 1.0));
}

// ---- Exponential

Exponential::Exponential(const TensorArg& rate) : Distribution(Dims()) {
  rate_ = Broadcast({rate})[0];
  NeedPositive("Exponential", "rate must be positive", rate, rate_);
  SetBatchShape(rate_.sizes());
}
Tensor Exponential::Draw(const Dims& sizes) const {
  return -log1p(-UniformLike(rate_, sizes)) / rate_;
}
Tensor Exponential::LogProb(const Tensor& given) const {
  Tensor value = Supported("Exponential", "values must not be negative", given, 0, kInfinity);
  return log(rate_) - rate_ * value;
}
Tensor Exponential::Cdf(const Tensor& value) const { return -expm1(-rate_ * value); }
Tensor Exponential::Icdf(const Tensor& value) const { return -log1p(-value) / rate_; }
Tensor Exponential::Entropy() const { return 1.0 - log(rate_); }
Tensor Exponential::Mean() const { return reciprocal(rate_); }
Tensor Exponential::Variance() const { return reciprocal(square(rate_)); }

// ---- StudentT

StudentT::StudentT(const TensorArg& df, const TensorArg& loc, const TensorArg& scale)
    : Distribution(Dims()) {
  std::vector<Tensor> all = Broadcast({df, loc, scale});
  df_ = all[0];
  loc_ = all[1];
  scale_ = all[2];
  NeedPositive("StudentT", "df must be positive", df, df_);
  NeedPositive("StudentT", "scale must be positive", scale, scale_);
  SetBatchShape(df_.sizes());
}
Tensor StudentT::Draw(const Dims& sizes) const {
  Tensor chi2 = StandardGamma(expand(df_ * 0.5, sizes)) * 2.0;
  return loc_ + scale_ * NormalLike(df_, sizes) * rsqrt(chi2 / df_);
}
Tensor StudentT::LogProb(const Tensor& value) const {
  Tensor y = (value - loc_) / scale_, half = (df_ + 1.0) * 0.5;
  return -half * log1p(square(y) / df_) - log(scale_) - log(df_) * 0.5 - 0.5 * std::log(kPi) -
         lgamma(df_ * 0.5) + lgamma(half);
}
Tensor StudentT::Entropy() const {
  Tensor half = (df_ + 1.0) * 0.5;
  Tensor log_beta = lgamma(df_ * 0.5) + std::lgamma(0.5) - lgamma(half);
  return log(scale_) + half * (digamma(half) - digamma(df_ * 0.5)) + log(df_) * 0.5 + log_beta;
}
Tensor StudentT::Mean() const { return where(df_.le(1.0), kNan, loc_); }
Tensor StudentT::Variance() const {
  Tensor finite = square(scale_) * df_ / (df_ - 2.0);
  return where(df_.gt(2.0), finite, where(df_.gt(1.0), full_like(df_, kInfinity), kNan));
}

}  // namespace hammock::distributions
