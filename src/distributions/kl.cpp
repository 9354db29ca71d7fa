// Divergences, one for each pair of classes.

#include <limits>
#include <map>
#include <mutex>

#include "base/never_destroyed.h"
#include "base/throw.h"
#include "distributions/multivariate_normal.h"
#include "distributions/parameters.h"
#include "hammock/distributions/continuous.h"
#include "hammock/distributions/discrete.h"
#include "hammock/distributions/multivariate.h"

namespace hammock::distributions {
namespace {

Tensor OfNormal(const Normal& p, const Normal& q) {
  Tensor ratio = square(p.scale() / q.scale());
  return (ratio + square((p.loc() - q.loc()) / q.scale()) - 1.0 - log(ratio)) * 0.5;
}

Tensor OfLogNormal(const LogNormal& p, const LogNormal& q) { return OfNormal(p.base(), q.base()); }

Tensor OfUniform(const Uniform& p, const Uniform& q) {
  Tensor divergence = log((q.high() - q.low()) / (p.high() - p.low()));
  Tensor outside = logical_or(q.low().gt(p.low()), q.high().lt(p.high()));
  return where(outside, std::numeric_limits<double>::infinity(), divergence);
}

Tensor OfLaplace(const Laplace& p, const Laplace& q) {
  Tensor ratio = p.scale() / q.scale(), distance = abs(p.loc() - q.loc());
  return -log(ratio) + distance / q.scale() + ratio * exp(-distance / p.scale()) - 1.0;
}

Tensor OfExponential(const Exponential& p, const Exponential& q) {
  Tensor ratio = q.rate() / p.rate();
  return ratio - log(ratio) - 1.0;
}

Tensor OfGamma(const Gamma& p, const Gamma& q) {
  const Tensor &a = p.concentration(), &b = q.concentration();
  return b * log(p.rate() / q.rate()) + lgamma(b) - lgamma(a) + (a - b) * digamma(a) +
         (q.rate() - p.rate()) * (a / p.rate());
}

Tensor OfBeta(const Beta& p, const Beta& q) {
  Tensor sum_p = p.concentration1() + p.concentration0();
  Tensor sum_q = q.concentration1() + q.concentration0();
  Tensor t1 = lgamma(q.concentration1()) + lgamma(q.concentration0()) + lgamma(sum_p);
  Tensor t2 = lgamma(p.concentration1()) + lgamma(p.concentration0()) + lgamma(sum_q);
  return t1 - t2 + (p.concentration1() - q.concentration1()) * digamma(p.concentration1()) +
         (p.concentration0() - q.concentration0()) * digamma(p.concentration0()) +
         (sum_q - sum_p) * digamma(sum_p);
}

Tensor OfGumbel(const Gumbel& p, const Gumbel& q) {
  Tensor ratio = p.scale() / q.scale();
  Tensor q_loc = q.loc() / q.scale(), p_loc = p.loc() / q.scale();
  return -log(ratio) - q_loc + p_loc + ratio * kEulerGamma +
         exp(q_loc + lgamma(1.0 + ratio) - p_loc) - (1 + kEulerGamma);
}

Tensor OfBernoulli(const Bernoulli& p, const Bernoulli& q) {
  Tensor a = p.probs(), b = q.probs();
  return xlogy(a, a) - xlogy(a, b) + xlogy(1.0 - a, 1.0 - a) - xlogy(1.0 - a, 1.0 - b);
}

Tensor OfBinomial(const Binomial& p, const Binomial& q) {
  if (p.total_count() != q.total_count()) {
    Throw<NotSupported>(ErrorCode::kNotSupported,
                        "kl_divergence: binomial distributions of {} and {} draws", p.total_count(),
                        q.total_count());
  }
  return OfBernoulli(Bernoulli(p.probs()), Bernoulli(q.probs())) *
         static_cast<double>(p.total_count());
}

Tensor OfCategorical(const Categorical& p, const Categorical& q) {
  Tensor terms = p.probs() * (p.logits() - q.logits());
  terms = where(q.probs().eq(0.0), std::numeric_limits<double>::infinity(), terms);
  return sum(where(p.probs().eq(0.0), 0.0, terms), {-1});
}

Tensor OfGeometric(const Geometric& p, const Geometric& q) {
  return -p.entropy() - log1p(-q.probs()) / p.probs() - log(q.probs()) + log1p(-q.probs());
}

Tensor OfPoisson(const Poisson& p, const Poisson& q) {
  return p.rate() * (log(p.rate()) - log(q.rate())) - (p.rate() - q.rate());
}

Tensor OfDirichlet(const Dirichlet& p, const Dirichlet& q) {
  const Tensor &a = p.concentration(), &b = q.concentration();
  Tensor total = sum(a, {-1}, true);
  Tensor t1 = lgamma(sum(a, {-1})) - lgamma(sum(b, {-1}));
  Tensor t2 = sum(lgamma(a) - lgamma(b), {-1});
  return t1 - t2 + sum((a - b) * (digamma(a) - digamma(total)), {-1});
}

Tensor OfMultivariateNormal(const MultivariateNormal& p, const MultivariateNormal& q) {
  Tensor spread = square(SolveLower(q.scale_tril(), p.scale_tril()));
  Tensor shift = square(SolveLower(q.scale_tril(), unsqueeze(q.loc() - p.loc(), -1)));
  auto size = static_cast<double>(p.loc().size(-1));
  return LogDiagonal(q.scale_tril()) - LogDiagonal(p.scale_tril()) +
         (sum(spread, {-2, -1}) + sum(shift, {-2, -1}) - size) * 0.5;
}

Tensor OfIndependent(const Independent& p, const Independent& q) {
  if (p.reinterpreted_batch_dims() != q.reinterpreted_batch_dims()) {
    Throw<NotSupported>(ErrorCode::kNotSupported,
                        "kl_divergence: independent distributions of {} and {} dims",
                        p.reinterpreted_batch_dims(), q.reinterpreted_batch_dims());
  }
  return p.SumOfDims(kl_divergence(p.base(), q.base()));
}

class KlTable {
 public:
  KlTable() {
    Add(OfNormal), Add(OfLogNormal), Add(OfUniform), Add(OfLaplace), Add(OfExponential);
    Add(OfGamma), Add(OfBeta), Add(OfGumbel), Add(OfBernoulli), Add(OfBinomial);
    Add(OfCategorical), Add(OfGeometric), Add(OfPoisson), Add(OfDirichlet);
    Add(OfMultivariateNormal), Add(OfIndependent);
  }
  void Set(const std::type_info& p, const std::type_info& q, KlFn divergence) {
    std::lock_guard lock(mutex_);
    table_[{p, q}] = std::move(divergence);
  }
  KlFn Find(const std::type_info& p, const std::type_info& q) {
    std::lock_guard lock(mutex_);
    auto entry = table_.find({p, q});
    return entry == table_.end() ? nullptr : entry->second;
  }

 private:
  template <class P, class Q>
  void Add(Tensor (*divergence)(const P&, const Q&)) {
    Set(typeid(P), typeid(Q), [divergence](const Distribution& p, const Distribution& q) {
      return divergence(dynamic_cast<const P&>(p), dynamic_cast<const Q&>(q));
    });
  }

  std::mutex mutex_;
  std::map<std::pair<std::type_index, std::type_index>, KlFn> table_;  // looked up, never iterated
};

KlTable& Table() {
  static auto& table = NeverDestroyed<KlTable>();
  return table;
}

}  // namespace

void register_kl(const std::type_info& p, const std::type_info& q, KlFn divergence) {
  Table().Set(p, q, std::move(divergence));
}

Tensor kl_divergence(const Distribution& p, const Distribution& q, Location at) {
  LocationScope scope(at);
  if (KlFn divergence = Table().Find(typeid(p), typeid(q))) return divergence(p, q);
  Throw<NotSupported>(ErrorCode::kNotSupported,
                      "kl_divergence: none is known of {} from {}; register_kl adds one", p.name(),
                      q.name());
}

}  // namespace hammock::distributions
