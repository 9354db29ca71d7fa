#pragma once
/// Distribution: what all distributions have. A value; copies share their parameters' tensors.

#include <functional>
#include <memory>
#include <string>
#include <typeindex>
#include <typeinfo>
#include <vector>

#include "hammock/export.h"
#include "hammock/ir/shape.h"
#include "hammock/tensor.h"

namespace hammock::distributions {

class HAMMOCK_API Distribution {
 public:
  virtual ~Distribution();
  virtual std::string name() const = 0;

  /// Sizes of the parameters: independent draws. Sizes of one draw.
  const Dims& batch_shape() const { return batch_shape_; }
  const Dims& event_shape() const { return event_shape_; }
  /// Whether draws have gradients with respect to the parameters.
  virtual bool has_rsample() const { return false; }

  /// Draws of sizes `sample_shape`, batch, event; without history.
  Tensor sample(const Dims& sample_shape = {}, Location at = Location::current()) const;
  /// With gradients with respect to the parameters; NotSupported where there are none.
  Tensor rsample(const Dims& sample_shape = {}, Location at = Location::current()) const;
  /// Logarithm of the density or probability of each draw.
  Tensor log_prob(const Tensor& value, Location at = Location::current()) const;
  /// Probability of at most `value`, and its inverse.
  Tensor cdf(const Tensor& value, Location at = Location::current()) const;
  Tensor icdf(const Tensor& value, Location at = Location::current()) const;
  Tensor entropy(Location at = Location::current()) const;
  Tensor mean(Location at = Location::current()) const;
  Tensor variance(Location at = Location::current()) const;
  Tensor stddev(Location at = Location::current()) const;

 protected:
  Distribution(Dims batch_shape, Dims event_shape = {})
      : batch_shape_(std::move(batch_shape)), event_shape_(std::move(event_shape)) {}
  Distribution(const Distribution&) = default;
  Distribution& operator=(const Distribution&) = default;

  void SetBatchShape(const Dims& sizes) { batch_shape_ = sizes; }
  /// Checks that the argument for `parameter` is above zero: a number now, a tensor when it is
  /// computed. `message` is "scale must be positive".
  static void NeedPositive(const char* name, const char* message, const TensorArg& given,
                           Tensor& parameter);
  static Tensor DrawFrom(const Distribution& other, const Dims& sizes) { return other.Draw(sizes); }

  /// Draws of these sizes, batch and event included; with history if there is rsample.
  virtual Tensor Draw(const Dims& sizes) const = 0;
  virtual Tensor LogProb(const Tensor& value) const = 0;
  virtual Tensor Cdf(const Tensor& value) const;
  virtual Tensor Icdf(const Tensor& value) const;
  virtual Tensor Entropy() const;
  virtual Tensor Mean() const;
  virtual Tensor Variance() const;

 private:
  [[noreturn]] void Refuse(const char* what) const;
  Dims batch_shape_, event_shape_;
};

/// Kullback-Leibler divergence of `p` from `q`, for each of their batches; NotSupported for pairs
/// without a known one.
HAMMOCK_API Tensor kl_divergence(const Distribution& p, const Distribution& q,
                                 Location at = Location::current());

using KlFn = std::function<Tensor(const Distribution& p, const Distribution& q)>;
HAMMOCK_API void register_kl(const std::type_info& p, const std::type_info& q, KlFn divergence);
/// For distributions of your own: `register_kl<P, Q>([](const P& p, const Q& q) { ... })`.
template <class P, class Q, class Fn>
void register_kl(Fn divergence) {
  register_kl(typeid(P), typeid(Q), [divergence](const Distribution& p, const Distribution& q) {
    return divergence(dynamic_cast<const P&>(p), dynamic_cast<const Q&>(q));
  });
}

}  // namespace hammock::distributions
