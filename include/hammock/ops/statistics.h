#pragma once
/// Histograms, covariances, distances and finite differences.

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "hammock/export.h"
#include "hammock/ops/view.h"
#include "hammock/tensor.h"

namespace hammock {

/// How many elements fall into each of `bins` equal parts of [min, max], by default the range of
/// the elements; others are not counted.
HAMMOCK_API Tensor histc(const Tensor& self, int64_t bins = 100, const Scalar& min = 0,
                         const Scalar& max = 0, HAMMOCK_AT);
/// (counts or summed weights, edges of the bins).
HAMMOCK_API std::tuple<Tensor, Tensor> histogram(const Tensor& self, int64_t bins,
                                                 const std::vector<double>& range = {},
                                                 const std::optional<Tensor>& weight = std::nullopt,
                                                 bool density = false, HAMMOCK_AT);
HAMMOCK_API std::tuple<Tensor, Tensor> histogram(const Tensor& self, const Tensor& bins,
                                                 const std::optional<Tensor>& weight = std::nullopt,
                                                 bool density = false, HAMMOCK_AT);
/// The last dim of `self` holds coordinates; `bins` has one entry for each.
HAMMOCK_API std::tuple<Tensor, std::vector<Tensor>> histogramdd(
    const Tensor& self, const std::vector<int64_t>& bins, const std::vector<double>& range = {},
    const std::optional<Tensor>& weight = std::nullopt, bool density = false, HAMMOCK_AT);
HAMMOCK_API std::tuple<Tensor, std::vector<Tensor>> histogramdd(
    const Tensor& self, const std::vector<Tensor>& bins,
    const std::optional<Tensor>& weight = std::nullopt, bool density = false, HAMMOCK_AT);

/// Covariances of the rows; weights count (`fweights`) or weigh (`aweights`) the columns.
HAMMOCK_API Tensor cov(const Tensor& self, int64_t correction = 1,
                       const std::optional<Tensor>& fweights = std::nullopt,
                       const std::optional<Tensor>& aweights = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor corrcoef(const Tensor& self, HAMMOCK_AT);

/// p-norms of the differences of all rows of `x1` and `x2`: [..., rows of x1, rows of x2].
HAMMOCK_API Tensor cdist(const Tensor& x1, const Tensor& x2, double p = 2, HAMMOCK_AT);
/// Central differences along each of `dim` (all by default), one-sided at the edges.
HAMMOCK_API std::vector<Tensor> gradient(const Tensor& self, const std::vector<double>& spacing,
                                         const Dims& dim = {}, int64_t edge_order = 1, HAMMOCK_AT);
/// As above with coordinates of the elements along each dim.
HAMMOCK_API std::vector<Tensor> gradient(const Tensor& self, const std::vector<Tensor>& spacing,
                                         const Dims& dim = {}, int64_t edge_order = 1, HAMMOCK_AT);

}  // namespace hammock
