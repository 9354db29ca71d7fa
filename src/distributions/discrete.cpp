#include "hammock/distributions/discrete.h"

#include <cmath>
#include <limits>

#include "base/throw.h"
#include "distributions/parameters.h"
#include "ops/primitives/require.h"

namespace hammock::distributions {
namespace {

/// Probabilities that have a finite logarithm.
Tensor Clamped(const Tensor& probs) { return clamp(probs, Epsilon(probs), 1 - Epsilon(probs)); }

void CheckCount(const char* name, int64_t total_count) {
  if (total_count >= 0) return;
  Throw(ErrorCode::kValue, "{}: total_count is {}, must not be negative", name, total_count);
}

Tensor Probabilities(const char* name, const TensorArg& probs) {
  constexpr char kMessage[] = "probs must be in [0, 1]";
  NeedNumber(name, kMessage, probs, [](double number) { return number >= 0 && number <= 1; });
  LocationScope scope(probs.at());
  Tensor given = Broadcast({probs})[0];
  return probs.is_tensor() ? Supported(name, kMessage, given, 0, 1) : given;
}

/// Weights of classes, of which there is one above zero and none below.
Tensor Weights(const Tensor& probs, const Tensor& total) {
  return ops::Required(probs, logical_and(probs.ge(0.0), total.gt(0.0)), "Categorical",
                       "probs must not be negative, and some be positive");
}

}  // namespace

// ---- Bernoulli

Bernoulli::Bernoulli(Tensor probs, Tensor logits)
    : Distribution(probs.sizes()), probs_(std::move(probs)), logits_(std::move(logits)) {}

Bernoulli::Bernoulli(const TensorArg& probs) : Bernoulli(Probabilities("Bernoulli", probs), {}) {
  logits_ = logit(Clamped(probs_));
}

Bernoulli Bernoulli::from_logits(const Tensor& logits, Location at) {
  LocationScope scope(at);
  return {sigmoid(logits), logits};
}

Tensor Bernoulli::Draw(const Dims& sizes) const {
  return UniformLike(probs_, sizes).lt(probs_).to(probs_.dtype());
}
Tensor Bernoulli::LogProb(const Tensor& value) const {
  std::vector<Tensor> both = broadcast_tensors({logits_, value.to(logits_.dtype())});
  return -binary_cross_entropy_with_logits(both[0], both[1], std::nullopt, "none");
}
Tensor Bernoulli::Entropy() const {
  return binary_cross_entropy_with_logits(logits_, probs_, std::nullopt, "none");
}
Tensor Bernoulli::Variance() const { return probs_ * (1.0 - probs_); }

// ---- Categorical

Categorical::Categorical(Tensor probs, Tensor logits)
    : Distribution(WithoutLast(probs.sizes(), 1)),
      probs_(std::move(probs)),
      logits_(std::move(logits)) {}

Categorical::Categorical(const Tensor& probs, Location at)
    : Categorical(WithClasses("Categorical", probs, at), Tensor()) {
  LocationScope scope(at);
  Tensor total = sum(probs, {-1}, true);
  probs_ = Weights(probs, total) / total;
  logits_ = log(Clamped(probs_));
}

Categorical Categorical::from_logits(const Tensor& logits, Location at) {
  LocationScope scope(at);
  WithClasses("Categorical", logits, at);
  return {softmax(logits, -1), log_softmax(logits, -1)};
}

Tensor Categorical::Draw(const Dims& sizes) const {
  // The first class whose cumulated probability is above u; a class without one is never the first.
  Tensor ends = cumsum(probs_, -1);
  Tensor total = narrow(ends, -1, probs_.size(-1) - 1, 1);
  Tensor u = unsqueeze(UniformLike(probs_, sizes), -1) * total;
  Tensor classes = sum(ends.le(u).to(DType::kI64), {-1});
  // Where u is rounded up to the total: the last class that has a probability.
  return minimum(classes, argmax(ends.ge(total).to(DType::kI32), -1));
}
Tensor Categorical::LogProb(const Tensor& value) const {
  Tensor index = unsqueeze(value.to(DType::kI64), -1);
  Dims batch = broadcast_shapes({value.sizes(), batch_shape()});
  Tensor all = expand(logits_, Joined(batch, {logits_.size(-1)}));
  return squeeze(gather(all, -1, expand(index, Joined(batch, {1}))), -1);
}
Tensor Categorical::Entropy() const {
  return -sum(clamp_min(logits_, InfoOf(logits_.dtype()).lowest) * probs_, {-1});
}
Tensor Categorical::Mean() const {
  return full(batch_shape(), std::numeric_limits<double>::quiet_NaN(), probs_.dtype(),
              probs_.device());
}
Tensor Categorical::Variance() const { return Mean(); }

// ---- Multinomial

Multinomial::Multinomial(int64_t total_count, const Tensor& probs, Location at)
    : Distribution(WithoutLast(WithClasses("Multinomial", probs, at).sizes(), 1),
                   {WithClasses("Multinomial", probs, at).size(-1)}),
      total_count_(total_count),
      classes_(probs, at) {
  LocationScope scope(at);
  CheckCount("Multinomial", total_count);
}

Tensor Multinomial::Draw(const Dims& sizes) const {
  Dims before;
  Dims draws = WithoutLast(sizes, 1);
  for (int i = 0; i < draws.size() - batch_shape().size(); ++i) before.push_back(draws[i]);
  Tensor classes = classes_.sample(Joined({total_count_}, before));
  return sum(one_hot(classes, probs().size(-1)).to(probs().dtype()), {0});
}
Tensor Multinomial::LogProb(const Tensor& value) const {
  Tensor count = sum(value, {-1});
  return lgamma(count + 1.0) - sum(lgamma(value + 1.0), {-1}) + sum(xlogy(value, probs()), {-1});
}
Tensor Multinomial::Entropy() const {
  // Each class by itself is binomial.
  auto total = static_cast<double>(total_count_);
  Tensor counts = arange(total_count_ + 1, probs().dtype(), probs().device());
  Tensor logs = Binomial(total_count_, unsqueeze(probs(), -1)).log_prob(counts);
  Tensor repeated = sum(exp(logs) * lgamma(counts + 1.0), {-2, -1});
  return classes_.entropy() * total - std::lgamma(total + 1) + repeated;
}
Tensor Multinomial::Mean() const { return probs() * static_cast<double>(total_count_); }
Tensor Multinomial::Variance() const {
  return probs() * (1.0 - probs()) * static_cast<double>(total_count_);
}

// ---- Binomial

Binomial::Binomial(int64_t total_count, const TensorArg& probs)
    : Distribution(Probabilities("Binomial", probs).sizes()),
      total_count_(total_count),
      once_(probs) {
  LocationScope scope(probs.at());
  CheckCount("Binomial", total_count);
}

Tensor Binomial::Draw(const Dims& sizes) const {
  Tensor draws = UniformLike(probs(), Joined({total_count_}, sizes)).lt(probs());
  return sum(draws.to(probs().dtype()), {0});
}
Tensor Binomial::LogProb(const Tensor& value) const {
  auto total = static_cast<double>(total_count_);
  Tensor failures = total - value;
  return std::lgamma(total + 1) - lgamma(value + 1.0) - lgamma(failures + 1.0) +
         xlogy(value, probs()) + xlog1py(failures, -probs());
}
Tensor Binomial::Entropy() const {
  Tensor values = arange(total_count_ + 1, probs().dtype(), probs().device());
  Dims column = {total_count_ + 1};
  for (int i = 0; i < batch_shape().size(); ++i) column.push_back(1);
  Tensor logs = LogProb(reshape(values, column));
  return -sum(exp(logs) * clamp_min(logs, InfoOf(logs.dtype()).lowest), {0});
}
Tensor Binomial::Mean() const { return probs() * static_cast<double>(total_count_); }
Tensor Binomial::Variance() const {
  return probs() * (1.0 - probs()) * static_cast<double>(total_count_);
}

// ---- Geometric

Geometric::Geometric(const TensorArg& probs)
    : Distribution(Dims()), probs_(Probabilities("Geometric", probs)) {
  NeedPositive("Geometric", "probs must be in (0, 1]", probs, probs_);
  SetBatchShape(probs_.sizes());
}

Tensor Geometric::Draw(const Dims& sizes) const {
  return floor(log1p(-UniformLike(probs_, sizes)) / log1p(-probs_));
}
Tensor Geometric::LogProb(const Tensor& value) const {
  return xlog1py(value, -probs_) + log(probs_);
}
Tensor Geometric::Entropy() const {
  return -(xlogy(probs_, probs_) + xlog1py(1.0 - probs_, -probs_)) / probs_;
}
Tensor Geometric::Mean() const { return reciprocal(probs_) - 1.0; }
Tensor Geometric::Variance() const { return (1.0 - probs_) / square(probs_); }

// ---- Poisson

namespace {

/// Below this rate, uniforms are multiplied until they are below exp(-rate); so many are enough but
/// in 1e-16 of all cases.
constexpr double kSmallRate = 10;
constexpr int64_t kFactors = 48;
/// Above, Hörmann's method; a proposal is rejected with a probability below 0.2.
constexpr int64_t kProposals = 20;

Tensor SmallPoisson(const Tensor& rate, const Dims& sizes) {
  Tensor products = cumprod(1.0 - UniformLike(rate, Joined({kFactors}, sizes)), 0);
  return sum(products.gt(exp(-rate)).to(DType::kF64), {0});
}

Tensor LargePoisson(const Tensor& rate, const Dims& sizes) {
  Dims many = Joined({kProposals}, sizes);
  Tensor b = sqrt(rate) * 2.53 + 0.931;
  Tensor a = b * 0.02483 - 0.059;
  Tensor inverse_alpha = 1.1328 / (b - 3.4) + 1.1239;
  Tensor inside = 0.9277 - 3.6224 / (b - 2.0);
  Tensor u = UniformLike(rate, many) - 0.5, v = 1.0 - UniformLike(rate, many);
  Tensor us = 0.5 - abs(u);
  Tensor k = floor((a * 2.0 / us + b) * u + rate + 0.43);
  Tensor surely = logical_and(us.ge(0.07), v.le(inside));
  Tensor possible = logical_and(k.ge(0.0), logical_or(us.ge(0.013), v.le(us)));
  Tensor likely = (log(v) + log(inverse_alpha) - log(a / square(us) + b))
                      .le(k * log(rate) - rate - lgamma(clamp_min(k, 0.0) + 1.0));
  Tensor accepted = logical_or(surely, logical_and(possible, likely));
  Tensor first = argmax(accepted.to(DType::kI32), 0, true);
  return squeeze(gather(k, 0, first), 0);
}

}  // namespace

Poisson::Poisson(const TensorArg& rate) : Distribution(Dims()), rate_(Broadcast({rate})[0]) {
  constexpr char kMessage[] = "rate must not be negative";
  NeedNumber("Poisson", kMessage, rate, [](double number) { return number >= 0; });
  LocationScope scope(rate.at());
  if (rate.is_tensor()) {
    rate_ = Supported("Poisson", kMessage, rate_, 0, std::numeric_limits<double>::infinity());
  }
  SetBatchShape(rate_.sizes());
}

Tensor Poisson::Draw(const Dims& sizes) const {
  Tensor rate = rate_.to(DType::kF64);
  Tensor small = SmallPoisson(clamp_max(rate, kSmallRate), sizes);
  Tensor large = LargePoisson(clamp_min(rate, kSmallRate), sizes);
  return where(rate.lt(kSmallRate), small, large).to(rate_.dtype());
}
Tensor Poisson::LogProb(const Tensor& value) const {
  return xlogy(value, rate_) - rate_ - lgamma(value + 1.0);
}

}  // namespace hammock::distributions
