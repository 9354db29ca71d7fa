#pragma once
/// In-place forms of functions that are not elementwise, and in-place random numbers of more
/// distributions. Elementwise forms are in elementwise.h, others beside their functions.

#include <optional>

#include "hammock/export.h"
#include "hammock/ops/random.h"
#include "hammock/ops/view.h"
#include "hammock/tensor.h"

namespace hammock {

HAMMOCK_API Tensor& clip_(Tensor& self, const std::optional<TensorArg>& min = std::nullopt,
                          const std::optional<TensorArg>& max = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor& cumsum_(Tensor& self, int64_t dim, HAMMOCK_AT);
HAMMOCK_API Tensor& cumprod_(Tensor& self, int64_t dim, HAMMOCK_AT);
HAMMOCK_API Tensor& tril_(Tensor& self, int64_t diagonal = 0, HAMMOCK_AT);
HAMMOCK_API Tensor& triu_(Tensor& self, int64_t diagonal = 0, HAMMOCK_AT);
HAMMOCK_API Tensor& i0_(Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor& conj_physical_(Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor& igamma_(Tensor& self, const Tensor& other, HAMMOCK_AT);
HAMMOCK_API Tensor& igammac_(Tensor& self, const Tensor& other, HAMMOCK_AT);
HAMMOCK_API Tensor& mvlgamma_(Tensor& self, int64_t p, HAMMOCK_AT);
HAMMOCK_API Tensor& polygamma_(Tensor& self, int64_t n, HAMMOCK_AT);
HAMMOCK_API Tensor& renorm_(Tensor& self, const Scalar& p, int64_t dim, const Scalar& maxnorm,
                            HAMMOCK_AT);
HAMMOCK_API Tensor& rrelu_(Tensor& self, const Scalar& lower = 0.125,
                           const Scalar& upper = 1.0 / 3.0, bool training = false, HAMMOCK_AT);
HAMMOCK_API Tensor& addmm_(Tensor& self, const Tensor& mat1, const Tensor& mat2,
                           const Scalar& beta = 1, const Scalar& alpha = 1, HAMMOCK_AT);
HAMMOCK_API Tensor& addmv_(Tensor& self, const Tensor& mat, const Tensor& vec,
                           const Scalar& beta = 1, const Scalar& alpha = 1, HAMMOCK_AT);
HAMMOCK_API Tensor& addr_(Tensor& self, const Tensor& vec1, const Tensor& vec2,
                          const Scalar& beta = 1, const Scalar& alpha = 1, HAMMOCK_AT);
HAMMOCK_API Tensor& addbmm_(Tensor& self, const Tensor& batch1, const Tensor& batch2,
                            const Scalar& beta = 1, const Scalar& alpha = 1, HAMMOCK_AT);
HAMMOCK_API Tensor& baddbmm_(Tensor& self, const Tensor& batch1, const Tensor& batch2,
                             const Scalar& beta = 1, const Scalar& alpha = 1, HAMMOCK_AT);
/// The diagonal of a matrix; with `wrap`, that of a tall one begins anew below the square.
HAMMOCK_API Tensor& fill_diagonal_(Tensor& self, const Scalar& value, bool wrap = false,
                                   HAMMOCK_AT);

HAMMOCK_API Tensor& cauchy_(Tensor& self, double median = 0, double sigma = 1,
                            const OptionalGenerator& generator = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor& log_normal_(Tensor& self, double mean = 1, double std = 2,
                                const OptionalGenerator& generator = std::nullopt, HAMMOCK_AT);
/// How many trials, each with the chance `p`, the first success takes.
HAMMOCK_API Tensor& geometric_(Tensor& self, double p,
                               const OptionalGenerator& generator = std::nullopt, HAMMOCK_AT);

}  // namespace hammock
