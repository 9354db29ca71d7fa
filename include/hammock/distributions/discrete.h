#pragma once
/// Distributions of integers; their draws are floats, those of Categorical i64, as in PyTorch.

#include <string>

#include "hammock/distributions/distribution.h"

namespace hammock::distributions {

/// 1 with a probability, else 0.
class HAMMOCK_API Bernoulli : public Distribution {
 public:
  explicit Bernoulli(const TensorArg& probs);
  static Bernoulli from_logits(const Tensor& logits, Location at = Location::current());
  std::string name() const override { return "Bernoulli"; }
  const Tensor& probs() const { return probs_; }
  const Tensor& logits() const { return logits_; }

 protected:
  Tensor Draw(const Dims& sizes) const override;
  Tensor LogProb(const Tensor& value) const override;
  Tensor Entropy() const override;
  Tensor Mean() const override { return probs_; }
  Tensor Variance() const override;

 private:
  Bernoulli(Tensor probs, Tensor logits);
  Tensor probs_, logits_;
};

/// Numbers of classes; the last dim of its parameter are the classes. Probabilities need not sum to
/// one.
class HAMMOCK_API Categorical : public Distribution {
 public:
  explicit Categorical(const Tensor& probs, Location at = Location::current());
  static Categorical from_logits(const Tensor& logits, Location at = Location::current());
  std::string name() const override { return "Categorical"; }
  const Tensor& probs() const { return probs_; }    ///< normalised
  const Tensor& logits() const { return logits_; }  ///< log-probabilities

 protected:
  Tensor Draw(const Dims& sizes) const override;
  Tensor LogProb(const Tensor& value) const override;
  Tensor Entropy() const override;
  Tensor Mean() const override;
  Tensor Variance() const override;

 private:
  Categorical(Tensor probs, Tensor logits);
  Tensor probs_, logits_;
};

/// How often each class came in `total_count` draws.
class HAMMOCK_API Multinomial : public Distribution {
 public:
  Multinomial(int64_t total_count, const Tensor& probs, Location at = Location::current());
  std::string name() const override { return "Multinomial"; }
  int64_t total_count() const { return total_count_; }
  const Tensor& probs() const { return classes_.probs(); }

 protected:
  Tensor Draw(const Dims& sizes) const override;
  Tensor LogProb(const Tensor& value) const override;
  Tensor Entropy() const override;
  Tensor Mean() const override;
  Tensor Variance() const override;

 private:
  int64_t total_count_;
  Categorical classes_;
};

/// How often 1 came in `total_count` draws of 1 with a probability.
class HAMMOCK_API Binomial : public Distribution {
 public:
  Binomial(int64_t total_count, const TensorArg& probs);
  std::string name() const override { return "Binomial"; }
  int64_t total_count() const { return total_count_; }
  const Tensor& probs() const { return once_.probs(); }

 protected:
  Tensor Draw(const Dims& sizes) const override;
  Tensor LogProb(const Tensor& value) const override;
  Tensor Entropy() const override;
  Tensor Mean() const override;
  Tensor Variance() const override;

 private:
  int64_t total_count_;
  Bernoulli once_;
};

/// Failures before the first success.
class HAMMOCK_API Geometric : public Distribution {
 public:
  explicit Geometric(const TensorArg& probs);
  std::string name() const override { return "Geometric"; }
  const Tensor& probs() const { return probs_; }

 protected:
  Tensor Draw(const Dims& sizes) const override;
  Tensor LogProb(const Tensor& value) const override;
  Tensor Entropy() const override;
  Tensor Mean() const override;
  Tensor Variance() const override;

 private:
  Tensor probs_;
};

class HAMMOCK_API Poisson : public Distribution {
 public:
  explicit Poisson(const TensorArg& rate);
  std::string name() const override { return "Poisson"; }
  const Tensor& rate() const { return rate_; }

 protected:
  Tensor Draw(const Dims& sizes) const override;
  Tensor LogProb(const Tensor& value) const override;
  Tensor Mean() const override { return rate_; }
  Tensor Variance() const override { return rate_; }

 private:
  Tensor rate_;
};

}  // namespace hammock::distributions
