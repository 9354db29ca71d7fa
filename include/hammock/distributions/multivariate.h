#pragma once
/// Distributions of vectors, and of several independent draws as one.

#include <concepts>
#include <memory>
#include <string>

#include "hammock/distributions/distribution.h"

namespace hammock::distributions {

/// Of probabilities that sum to one.
class HAMMOCK_API Dirichlet : public Distribution {
 public:
  explicit Dirichlet(const Tensor& concentration, Location at = Location::current());
  std::string name() const override { return "Dirichlet"; }
  bool has_rsample() const override { return true; }
  const Tensor& concentration() const { return concentration_; }

 protected:
  Tensor Draw(const Dims& sizes) const override;
  Tensor LogProb(const Tensor& value) const override;
  Tensor Entropy() const override;
  Tensor Mean() const override;
  Tensor Variance() const override;

 private:
  Tensor concentration_;
};

class HAMMOCK_API MultivariateNormal : public Distribution {
 public:
  MultivariateNormal(const Tensor& loc, const Tensor& covariance,
                     Location at = Location::current());
  /// By the lower Cholesky factor of the covariance.
  static MultivariateNormal from_scale_tril(const Tensor& loc, const Tensor& scale_tril,
                                            Location at = Location::current());
  std::string name() const override { return "MultivariateNormal"; }
  bool has_rsample() const override { return true; }
  const Tensor& loc() const { return loc_; }
  const Tensor& scale_tril() const { return scale_tril_; }
  Tensor covariance_matrix() const;

 protected:
  Tensor Draw(const Dims& sizes) const override;
  Tensor LogProb(const Tensor& value) const override;
  Tensor Entropy() const override;
  Tensor Mean() const override { return loc_; }
  Tensor Variance() const override;

 private:
  struct Factor {
    Tensor tril;
  };
  MultivariateNormal(const Tensor& loc, const Factor& factor, const Location& at);
  Tensor loc_, scale_tril_;
};

/// The last batch dims of a distribution as dims of its event: their log-probabilities are summed.
class HAMMOCK_API Independent : public Distribution {
 public:
  template <std::derived_from<Distribution> D>
  Independent(const D& base, int reinterpreted_batch_dims, Location at = Location::current())
      : Independent(std::make_shared<const D>(base), reinterpreted_batch_dims, at) {}
  Independent(std::shared_ptr<const Distribution> base, int reinterpreted_batch_dims,
              Location at = Location::current());
  std::string name() const override { return "Independent"; }
  bool has_rsample() const override { return base_->has_rsample(); }
  const Distribution& base() const { return *base_; }
  int reinterpreted_batch_dims() const { return dims_; }
  /// Of a value for each batch of the base.
  Tensor SumOfDims(const Tensor& values) const;

 protected:
  Tensor Draw(const Dims& sizes) const override;
  Tensor LogProb(const Tensor& value) const override;
  Tensor Entropy() const override;
  Tensor Mean() const override { return base_->mean(); }
  Tensor Variance() const override { return base_->variance(); }

 private:
  std::shared_ptr<const Distribution> base_;
  int dims_;
};

}  // namespace hammock::distributions
