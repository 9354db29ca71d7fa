#pragma once
/// Random tensors. The seed and offset are taken from the generator when the call is made; another
/// seed never recompiles. Without a generator the default one is used.

#include <optional>

#include "hammock/export.h"
#include "hammock/ops/view.h"
#include "hammock/random.h"
#include "hammock/tensor.h"

namespace hammock {

using OptionalGenerator = std::optional<Generator>;

#define HAMMOCK_OPTIONS_RANDOM                                                \
  std::optional<DType> dtype = std::nullopt, const Device &device = Device(), \
                       const OptionalGenerator &generator = std::nullopt, HAMMOCK_AT
#define HAMMOCK_OPTIONS_RANDOM_LIKE                                                             \
  std::optional<DType> dtype = std::nullopt, const std::optional<Device>&device = std::nullopt, \
                       const OptionalGenerator &generator = std::nullopt, HAMMOCK_AT

/// Uniform in [0, 1).
HAMMOCK_API Tensor rand(const Dims& size, HAMMOCK_OPTIONS_RANDOM);
HAMMOCK_API Tensor rand_like(const Tensor& self, HAMMOCK_OPTIONS_RANDOM_LIKE);
/// Normal with mean 0 and standard deviation 1.
HAMMOCK_API Tensor randn(const Dims& size, HAMMOCK_OPTIONS_RANDOM);
HAMMOCK_API Tensor randn_like(const Tensor& self, HAMMOCK_OPTIONS_RANDOM_LIKE);
/// Sizes one by one: `randn(2, 3)`.
#define HAMMOCK_SIZED(name)                                                               \
  template <std::integral... Rest>                                                        \
  requires(sizeof...(Rest) > 0) Tensor name(const IndexArg& first, Rest... rest) {        \
    return name(Dims{first.index, static_cast<int64_t>(rest)...}, std::nullopt, Device(), \
                std::nullopt, first.at);                                                  \
  }
HAMMOCK_SIZED(rand)
HAMMOCK_SIZED(randn)
#undef HAMMOCK_SIZED
/// Integers in [low, high), i64 by default.
HAMMOCK_API Tensor randint(int64_t high, const Dims& size, HAMMOCK_OPTIONS_RANDOM);
HAMMOCK_API Tensor randint(int64_t low, int64_t high, const Dims& size, HAMMOCK_OPTIONS_RANDOM);
HAMMOCK_API Tensor randint_like(const Tensor& self, int64_t high, HAMMOCK_OPTIONS_RANDOM_LIKE);
HAMMOCK_API Tensor randint_like(const Tensor& self, int64_t low, int64_t high,
                                HAMMOCK_OPTIONS_RANDOM_LIKE);
/// 0 to n - 1 in random order, i64 by default.
HAMMOCK_API Tensor randperm(int64_t n, HAMMOCK_OPTIONS_RANDOM);

/// 1 with the probability that `self` holds, else 0.
HAMMOCK_API Tensor bernoulli(const Tensor& self, const OptionalGenerator& generator = std::nullopt,
                             HAMMOCK_AT);
HAMMOCK_API Tensor bernoulli(const Tensor& self, double p,
                             const OptionalGenerator& generator = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor normal(const Tensor& mean, const TensorArg& std,
                          const OptionalGenerator& generator = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor normal(double mean, const Tensor& std,
                          const OptionalGenerator& generator = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor normal(double mean, double std, const Dims& size, HAMMOCK_OPTIONS_RANDOM);

/// Counts of events that happen at the rates `self` holds on average.
HAMMOCK_API Tensor poisson(const Tensor& self, const OptionalGenerator& generator = std::nullopt,
                           HAMMOCK_AT);
/// Indices into the last dim (of one or two), drawn in proportion to the weights that it holds; the
/// same ones on every device. Without replacement an index is drawn once at most, and no row may
/// have fewer weights above zero than are drawn.
HAMMOCK_API Tensor multinomial(const Tensor& self, int64_t num_samples, bool replacement = false,
                               const OptionalGenerator& generator = std::nullopt, HAMMOCK_AT);
/// softmax((logits + Gumbel noise) / tau); with `hard`, one-hot with the gradient of that.
HAMMOCK_API Tensor gumbel_softmax(const Tensor& logits, double tau = 1, bool hard = false,
                                  int64_t dim = -1,
                                  const OptionalGenerator& generator = std::nullopt, HAMMOCK_AT);

HAMMOCK_API Tensor& uniform_(Tensor& self, double from = 0, double to = 1,
                             const OptionalGenerator& generator = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor& normal_(Tensor& self, double mean = 0, double std = 1,
                            const OptionalGenerator& generator = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor& exponential_(Tensor& self, double lambd = 1,
                                 const OptionalGenerator& generator = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor& bernoulli_(Tensor& self, const TensorArg& p = 0.5,
                               const OptionalGenerator& generator = std::nullopt, HAMMOCK_AT);
/// Integers: any that the dtype represents exactly, below `to`, or in [from, to).
HAMMOCK_API Tensor& random_(Tensor& self, const OptionalGenerator& generator = std::nullopt,
                            HAMMOCK_AT);
HAMMOCK_API Tensor& random_(Tensor& self, int64_t to,
                            const OptionalGenerator& generator = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor& random_(Tensor& self, int64_t from, std::optional<int64_t> to,
                            const OptionalGenerator& generator = std::nullopt, HAMMOCK_AT);

}  // namespace hammock
