#pragma once
/// Reductions and scans, with PyTorch's rules: an empty `dim` means all dims; integers sum to i64;
/// NaN propagates unless the name says otherwise.

#include <optional>
#include <tuple>
#include <vector>

#include "hammock/export.h"
#include "hammock/ops/view.h"
#include "hammock/tensor.h"

namespace hammock {

HAMMOCK_API Tensor sum(const Tensor& self, const Dims& dim = {}, bool keepdim = false,
                       std::optional<DType> dtype = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor nansum(const Tensor& self, const Dims& dim = {}, bool keepdim = false,
                          std::optional<DType> dtype = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor mean(const Tensor& self, const Dims& dim = {}, bool keepdim = false,
                        std::optional<DType> dtype = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor nanmean(const Tensor& self, const Dims& dim = {}, bool keepdim = false,
                           std::optional<DType> dtype = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor prod(const Tensor& self, const Dims& dim = {}, bool keepdim = false,
                        std::optional<DType> dtype = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor amax(const Tensor& self, const Dims& dim = {}, bool keepdim = false, HAMMOCK_AT);
HAMMOCK_API Tensor amin(const Tensor& self, const Dims& dim = {}, bool keepdim = false, HAMMOCK_AT);
/// (minimum, maximum).
HAMMOCK_API std::tuple<Tensor, Tensor> aminmax(const Tensor& self,
                                               std::optional<int64_t> dim = std::nullopt,
                                               bool keepdim = false, HAMMOCK_AT);
HAMMOCK_API Tensor max(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor min(const Tensor& self, HAMMOCK_AT);
/// (values, indices); the first of equal values, NaN before all.
HAMMOCK_API std::tuple<Tensor, Tensor> max(const Tensor& self, int64_t dim, bool keepdim = false,
                                           HAMMOCK_AT);
HAMMOCK_API std::tuple<Tensor, Tensor> min(const Tensor& self, int64_t dim, bool keepdim = false,
                                           HAMMOCK_AT);
HAMMOCK_API Tensor max(const Tensor& self, const Tensor& other, HAMMOCK_AT);
HAMMOCK_API Tensor min(const Tensor& self, const Tensor& other, HAMMOCK_AT);
/// Without `dim`, the index into the flattened tensor.
HAMMOCK_API Tensor argmax(const Tensor& self, std::optional<int64_t> dim = std::nullopt,
                          bool keepdim = false, HAMMOCK_AT);
HAMMOCK_API Tensor argmin(const Tensor& self, std::optional<int64_t> dim = std::nullopt,
                          bool keepdim = false, HAMMOCK_AT);
HAMMOCK_API Tensor any(const Tensor& self, const Dims& dim = {}, bool keepdim = false, HAMMOCK_AT);
HAMMOCK_API Tensor all(const Tensor& self, const Dims& dim = {}, bool keepdim = false, HAMMOCK_AT);
HAMMOCK_API Tensor count_nonzero(const Tensor& self, const Dims& dim = {}, HAMMOCK_AT);

/// `correction` is subtracted from the count: 1 is the unbiased estimate.
HAMMOCK_API Tensor var(const Tensor& self, const Dims& dim = {}, int64_t correction = 1,
                       bool keepdim = false, HAMMOCK_AT);
HAMMOCK_API Tensor std(const Tensor& self, const Dims& dim = {}, int64_t correction = 1,
                       bool keepdim = false, HAMMOCK_AT);
HAMMOCK_API std::tuple<Tensor, Tensor> var_mean(const Tensor& self, const Dims& dim = {},
                                                int64_t correction = 1, bool keepdim = false,
                                                HAMMOCK_AT);
HAMMOCK_API std::tuple<Tensor, Tensor> std_mean(const Tensor& self, const Dims& dim = {},
                                                int64_t correction = 1, bool keepdim = false,
                                                HAMMOCK_AT);
HAMMOCK_API Tensor logsumexp(const Tensor& self, const Dims& dim, bool keepdim = false, HAMMOCK_AT);
/// The p-norm of the elements; `p` may be 0 or infinite.
HAMMOCK_API Tensor norm(const Tensor& self, const Scalar& p = 2.0, const Dims& dim = {},
                        bool keepdim = false, std::optional<DType> dtype = std::nullopt,
                        HAMMOCK_AT);
HAMMOCK_API Tensor dist(const Tensor& self, const Tensor& other, const Scalar& p = 2.0, HAMMOCK_AT);
HAMMOCK_API Tensor trace(const Tensor& self, HAMMOCK_AT);

// Order statistics. (values, indices).
HAMMOCK_API std::tuple<Tensor, Tensor> kthvalue(const Tensor& self, int64_t k, int64_t dim = -1,
                                                bool keepdim = false, HAMMOCK_AT);
/// The lower of the two middle values of an even count; NaN if there is one.
HAMMOCK_API Tensor median(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API std::tuple<Tensor, Tensor> median(const Tensor& self, int64_t dim, bool keepdim = false,
                                              HAMMOCK_AT);
HAMMOCK_API Tensor nanmedian(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API std::tuple<Tensor, Tensor> nanmedian(const Tensor& self, int64_t dim,
                                                 bool keepdim = false, HAMMOCK_AT);
HAMMOCK_API std::tuple<Tensor, Tensor> mode(const Tensor& self, int64_t dim = -1,
                                            bool keepdim = false, HAMMOCK_AT);
/// `interpolation` is linear, lower, higher, midpoint or nearest.
HAMMOCK_API Tensor quantile(const Tensor& self, const Tensor& q,
                            std::optional<int64_t> dim = std::nullopt, bool keepdim = false,
                            const std::string& interpolation = "linear", HAMMOCK_AT);
HAMMOCK_API Tensor nanquantile(const Tensor& self, const Tensor& q,
                               std::optional<int64_t> dim = std::nullopt, bool keepdim = false,
                               const std::string& interpolation = "linear", HAMMOCK_AT);

// Scans along one dim.
HAMMOCK_API Tensor cumsum(const Tensor& self, int64_t dim,
                          std::optional<DType> dtype = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor cumprod(const Tensor& self, int64_t dim,
                           std::optional<DType> dtype = std::nullopt, HAMMOCK_AT);
/// (values, indices); the last of equal values.
HAMMOCK_API std::tuple<Tensor, Tensor> cummax(const Tensor& self, int64_t dim, HAMMOCK_AT);
HAMMOCK_API std::tuple<Tensor, Tensor> cummin(const Tensor& self, int64_t dim, HAMMOCK_AT);
HAMMOCK_API Tensor logcumsumexp(const Tensor& self, int64_t dim, HAMMOCK_AT);

// These read their result.
HAMMOCK_API bool equal(const Tensor& self, const Tensor& other, HAMMOCK_AT);
HAMMOCK_API bool allclose(const Tensor& self, const Tensor& other, double rtol = 1e-5,
                          double atol = 1e-8, bool equal_nan = false, HAMMOCK_AT);

}  // namespace hammock
