#include "hammock/distributions/multivariate.h"

#include "base/throw.h"
#include "distributions/multivariate_normal.h"
#include "distributions/parameters.h"

namespace hammock::distributions {

// ---- Dirichlet

Dirichlet::Dirichlet(const Tensor& concentration, Location at)
    : Distribution(WithoutLast(WithClasses("Dirichlet", concentration, at).sizes(), 1),
                   {WithClasses("Dirichlet", concentration, at).size(-1)}),
      concentration_(concentration) {
  NeedPositive("Dirichlet", "concentration must be positive", TensorArg(concentration, at),
               concentration_);
}

Tensor Dirichlet::Draw(const Dims& sizes) const {
  Tensor draws = StandardGamma(expand(concentration_, sizes));
  return draws / sum(draws, {-1}, true);
}
Tensor Dirichlet::LogProb(const Tensor& value) const {
  return sum(xlogy(concentration_ - 1.0, value), {-1}) + lgamma(sum(concentration_, {-1})) -
         sum(lgamma(concentration_), {-1});
}
Tensor Dirichlet::Entropy() const {
  Tensor total = sum(concentration_, {-1});
  auto classes = static_cast<double>(concentration_.size(-1));
  return sum(lgamma(concentration_), {-1}) - lgamma(total) - (classes - total) * digamma(total) -
         sum((concentration_ - 1.0) * digamma(concentration_), {-1});
}
Tensor Dirichlet::Mean() const { return concentration_ / sum(concentration_, {-1}, true); }
Tensor Dirichlet::Variance() const {
  Tensor total = sum(concentration_, {-1}, true);
  return concentration_ * (total - concentration_) / (square(total) * (total + 1.0));
}

// ---- MultivariateNormal

Tensor SolveLower(const Tensor& lower, const Tensor& columns) {
  Dims batch = broadcast_shapes({WithoutLast(lower.sizes(), 2), WithoutLast(columns.sizes(), 2)});
  auto expanded = [&](const Tensor& matrix) {
    return expand(matrix, Joined(batch, {matrix.size(-2), matrix.size(-1)}));
  };
  return linalg_solve_triangular(expanded(lower), expanded(columns), false);
}

Tensor LogDiagonal(const Tensor& lower) { return sum(log(diagonal(lower, 0, -2, -1)), {-1}); }

namespace {

void CheckSizes(const Tensor& loc, const Tensor& matrix) {
  if (loc.dim() >= 1 && matrix.dim() >= 2 && matrix.size(-1) == loc.size(-1) &&
      matrix.size(-2) == loc.size(-1)) {
    return;
  }
  Throw(ErrorCode::kShapeMismatch, "MultivariateNormal: {} is no matrix for a mean of {}",
        matrix.shape().to_string(), loc.shape().to_string());
}

Dims BatchOf(const Tensor& loc, const Tensor& matrix, const Location& at) {
  LocationScope scope(at);
  CheckSizes(loc, matrix);
  return broadcast_shapes({WithoutLast(loc.sizes(), 1), WithoutLast(matrix.sizes(), 2)});
}

}  // namespace

MultivariateNormal::MultivariateNormal(const Tensor& loc, const Factor& factor, const Location& at)
    : Distribution(BatchOf(loc, factor.tril, at), {loc.size(-1)}) {
  LocationScope scope(at);
  int64_t size = loc.size(-1);
  loc_ = expand(loc, Joined(batch_shape(), {size}));
  scale_tril_ = expand(factor.tril, Joined(batch_shape(), {size, size}));
}

MultivariateNormal::MultivariateNormal(const Tensor& loc, const Tensor& covariance, Location at)
    : MultivariateNormal(loc, Factor{cholesky(covariance, false, at)}, at) {}

MultivariateNormal MultivariateNormal::from_scale_tril(const Tensor& loc, const Tensor& scale_tril,
                                                       Location at) {
  return {loc, Factor{scale_tril}, at};
}

Tensor MultivariateNormal::covariance_matrix() const {
  return matmul(scale_tril_, transpose(scale_tril_, -2, -1));
}

Tensor MultivariateNormal::Draw(const Dims& sizes) const {
  Tensor noise = unsqueeze(NormalLike(loc_, sizes), -1);
  return loc_ + squeeze(matmul(scale_tril_, noise), -1);
}
Tensor MultivariateNormal::LogProb(const Tensor& value) const {
  Tensor z = squeeze(SolveLower(scale_tril_, unsqueeze(value - loc_, -1)), -1);
  auto size = static_cast<double>(loc_.size(-1));
  return (sum(square(z), {-1}) + size * kLogTwoPi) * -0.5 - LogDiagonal(scale_tril_);
}
Tensor MultivariateNormal::Entropy() const {
  auto size = static_cast<double>(loc_.size(-1));
  return LogDiagonal(scale_tril_) + 0.5 * size * (1 + kLogTwoPi);
}
Tensor MultivariateNormal::Variance() const { return sum(square(scale_tril_), {-1}); }

// ---- Independent

namespace {

Dims LastOf(const Dims& sizes, int count) {
  Dims last;
  for (int i = sizes.size() - count; i < sizes.size(); ++i) last.push_back(sizes[i]);
  return last;
}

int CheckedDims(const Distribution& base, int dims, const Location& at) {
  LocationScope scope(at);
  if (dims >= 0 && dims <= base.batch_shape().size()) return dims;
  Throw(ErrorCode::kValue, "Independent: {} of the {} batch dims of {} were asked for", dims,
        base.batch_shape().size(), base.name());
}

}  // namespace

Independent::Independent(std::shared_ptr<const Distribution> base, int dims, Location at)
    : Distribution(
          WithoutLast(base->batch_shape(), CheckedDims(*base, dims, at)),
          Joined(LastOf(base->batch_shape(), CheckedDims(*base, dims, at)), base->event_shape())),
      base_(std::move(base)),
      dims_(dims) {}

Tensor Independent::SumOfDims(const Tensor& values) const { return SumLast(values, dims_); }

Tensor Independent::Draw(const Dims& sizes) const { return DrawFrom(*base_, sizes); }
Tensor Independent::LogProb(const Tensor& value) const { return SumOfDims(base_->log_prob(value)); }
Tensor Independent::Entropy() const { return SumOfDims(base_->entropy()); }

}  // namespace hammock::distributions
