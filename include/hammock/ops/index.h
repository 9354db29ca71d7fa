#pragma once
/// Gathering, scattering, indexing, sorting and searching. Indices are checked when they are used:
/// reading a result that needed a wrong one raises.
///
/// Ops whose shape depends on values (nonzero, masked_select, unique, boolean masks) read a count,
/// which ends the graph: the counters DataDependentShape count these, by op and line. The forms
/// that end in _static are given a size instead and read nothing.

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "hammock/export.h"
#include "hammock/ops/view.h"
#include "hammock/tensor.h"

namespace hammock {

HAMMOCK_API Tensor gather(const Tensor& self, int64_t dim, const Tensor& index, HAMMOCK_AT);
/// `source` is a tensor or a number; `reduce` is none, add or multiply.
HAMMOCK_API Tensor scatter(const Tensor& self, int64_t dim, const Tensor& index,
                           const TensorArg& source, const std::string& reduce = "none", HAMMOCK_AT);
HAMMOCK_API Tensor scatter_add(const Tensor& self, int64_t dim, const Tensor& index,
                               const Tensor& source, HAMMOCK_AT);
/// `reduce` is sum, prod, mean, amax or amin.
HAMMOCK_API Tensor scatter_reduce(const Tensor& self, int64_t dim, const Tensor& index,
                                  const Tensor& source, const std::string& reduce,
                                  bool include_self = true, HAMMOCK_AT);
HAMMOCK_API Tensor index_select(const Tensor& self, int64_t dim, const Tensor& index, HAMMOCK_AT);
HAMMOCK_API Tensor index_add(const Tensor& self, int64_t dim, const Tensor& index,
                             const Tensor& source, const Scalar& alpha = 1, HAMMOCK_AT);
HAMMOCK_API Tensor index_copy(const Tensor& self, int64_t dim, const Tensor& index,
                              const Tensor& source, HAMMOCK_AT);
HAMMOCK_API Tensor index_fill(const Tensor& self, int64_t dim, const Tensor& index,
                              const TensorArg& value, HAMMOCK_AT);
/// `reduce` is prod, mean, amax or amin.
HAMMOCK_API Tensor index_reduce(const Tensor& self, int64_t dim, const Tensor& index,
                                const Tensor& source, const std::string& reduce,
                                bool include_self = true, HAMMOCK_AT);

/// Advanced indexing; an absent entry takes the whole dim.
HAMMOCK_API Tensor index(const Tensor& self, const std::vector<std::optional<Tensor>>& indices,
                         HAMMOCK_AT);
HAMMOCK_API Tensor index_put(const Tensor& self, const std::vector<std::optional<Tensor>>& indices,
                             const Tensor& values, bool accumulate = false, HAMMOCK_AT);
HAMMOCK_API Tensor take(const Tensor& self, const Tensor& index, HAMMOCK_AT);
HAMMOCK_API Tensor take_along_dim(const Tensor& self, const Tensor& indices,
                                  std::optional<int64_t> dim = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor put(const Tensor& self, const Tensor& index, const Tensor& source,
                       bool accumulate = false, HAMMOCK_AT);
HAMMOCK_API Tensor masked_fill(const Tensor& self, const Tensor& mask, const TensorArg& value,
                               HAMMOCK_AT);
HAMMOCK_API Tensor masked_select(const Tensor& self, const Tensor& mask, HAMMOCK_AT);
HAMMOCK_API Tensor masked_scatter(const Tensor& self, const Tensor& mask, const Tensor& source,
                                  HAMMOCK_AT);
/// One row of coordinates for each element that is not zero.
HAMMOCK_API Tensor nonzero(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor argwhere(const Tensor& self, HAMMOCK_AT);
/// The columns of nonzero: one vector of coordinates a dim.
HAMMOCK_API std::vector<Tensor> where(const Tensor& condition, HAMMOCK_AT);
/// The first `size` of them; rows of `fill_value` past the last one.
HAMMOCK_API Tensor nonzero_static(const Tensor& self, int64_t size, int64_t fill_value = -1,
                                  HAMMOCK_AT);
HAMMOCK_API Tensor masked_select_static(const Tensor& self, const Tensor& mask, int64_t size,
                                        const Scalar& fill_value = 0, HAMMOCK_AT);
/// (values, inverse, counts): the distinct elements, or slices along `dim`, in order; which of them
/// each element is; how often each occurs. Every NaN is distinct. `sorted` is a hint, as they
/// always are. What is not used costs nothing.
HAMMOCK_API std::tuple<Tensor, Tensor, Tensor> unique(const Tensor& self, bool sorted = true,
                                                      std::optional<int64_t> dim = std::nullopt,
                                                      HAMMOCK_AT);
/// The same of runs of equal neighbours.
HAMMOCK_API std::tuple<Tensor, Tensor, Tensor> unique_consecutive(
    const Tensor& self, std::optional<int64_t> dim = std::nullopt, HAMMOCK_AT);
/// The `size` smallest; `fill_value` and a count of 0 past the last one.
HAMMOCK_API std::tuple<Tensor, Tensor, Tensor> unique_static(const Tensor& self, int64_t size,
                                                             const Scalar& fill_value = 0,
                                                             HAMMOCK_AT);
/// Rows of `weight`. `padding_idx` only matters for gradients.
HAMMOCK_API Tensor embedding(const Tensor& input, const Tensor& weight,
                             std::optional<int64_t> padding_idx = std::nullopt, HAMMOCK_AT);
/// `num_classes` -1 reads the largest class.
HAMMOCK_API Tensor one_hot(const Tensor& self, int64_t num_classes = -1, HAMMOCK_AT);

/// (values, indices). NaN sorts as the largest. Always stable.
HAMMOCK_API std::tuple<Tensor, Tensor> sort(const Tensor& self, int64_t dim = -1,
                                            bool descending = false, bool stable = false,
                                            HAMMOCK_AT);
HAMMOCK_API Tensor argsort(const Tensor& self, int64_t dim = -1, bool descending = false,
                           bool stable = false, HAMMOCK_AT);
HAMMOCK_API Tensor msort(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API std::tuple<Tensor, Tensor> topk(const Tensor& self, int64_t k, int64_t dim = -1,
                                            bool largest = true, bool sorted = true, HAMMOCK_AT);
/// Where `self` would be inserted into the sorted last dim of `sorted_sequence`.
HAMMOCK_API Tensor searchsorted(const Tensor& sorted_sequence, const Tensor& self,
                                bool out_int32 = false, bool right = false, HAMMOCK_AT);
HAMMOCK_API Tensor bucketize(const Tensor& self, const Tensor& boundaries, bool out_int32 = false,
                             bool right = false, HAMMOCK_AT);
/// Reads the largest value.
HAMMOCK_API Tensor bincount(const Tensor& self, const std::optional<Tensor>& weights = std::nullopt,
                            int64_t minlength = 0, HAMMOCK_AT);
HAMMOCK_API Tensor isin(const Tensor& elements, const Tensor& test_elements,
                        bool assume_unique = false, bool invert = false, HAMMOCK_AT);

// ---- In place
HAMMOCK_API Tensor& scatter_(Tensor& self, int64_t dim, const Tensor& index,
                             const TensorArg& source, const std::string& reduce = "none",
                             HAMMOCK_AT);
HAMMOCK_API Tensor& scatter_add_(Tensor& self, int64_t dim, const Tensor& index,
                                 const Tensor& source, HAMMOCK_AT);
HAMMOCK_API Tensor& scatter_reduce_(Tensor& self, int64_t dim, const Tensor& index,
                                    const Tensor& source, const std::string& reduce,
                                    bool include_self = true, HAMMOCK_AT);
HAMMOCK_API Tensor& index_add_(Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                               const Scalar& alpha = 1, HAMMOCK_AT);
HAMMOCK_API Tensor& index_copy_(Tensor& self, int64_t dim, const Tensor& index,
                                const Tensor& source, HAMMOCK_AT);
HAMMOCK_API Tensor& index_fill_(Tensor& self, int64_t dim, const Tensor& index,
                                const TensorArg& value, HAMMOCK_AT);
HAMMOCK_API Tensor& index_reduce_(Tensor& self, int64_t dim, const Tensor& index,
                                  const Tensor& source, const std::string& reduce,
                                  bool include_self = true, HAMMOCK_AT);
HAMMOCK_API Tensor& index_put_(Tensor& self, const std::vector<std::optional<Tensor>>& indices,
                               const Tensor& values, bool accumulate = false, HAMMOCK_AT);
HAMMOCK_API Tensor& put_(Tensor& self, const Tensor& index, const Tensor& source,
                         bool accumulate = false, HAMMOCK_AT);
HAMMOCK_API Tensor& masked_fill_(Tensor& self, const Tensor& mask, const TensorArg& value,
                                 HAMMOCK_AT);
HAMMOCK_API Tensor& masked_scatter_(Tensor& self, const Tensor& mask, const Tensor& source,
                                    HAMMOCK_AT);

}  // namespace hammock
