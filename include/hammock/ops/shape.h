#pragma once
/// Joining, repeating, padding and rearranging; these copy. Splits, `meshgrid` and `atleast_*` are
/// views. See view.h for the other views.

#include <optional>
#include <string>
#include <vector>

#include "hammock/export.h"
#include "hammock/ops/view.h"
#include "hammock/tensor.h"

namespace hammock {

/// Dtypes promote; empty vectors are skipped, as in PyTorch.
HAMMOCK_API Tensor cat(const std::vector<Tensor>& tensors, int64_t dim = 0, HAMMOCK_AT);
HAMMOCK_API Tensor stack(const std::vector<Tensor>& tensors, int64_t dim = 0, HAMMOCK_AT);
HAMMOCK_API Tensor hstack(const std::vector<Tensor>& tensors, HAMMOCK_AT);
HAMMOCK_API Tensor vstack(const std::vector<Tensor>& tensors, HAMMOCK_AT);
HAMMOCK_API Tensor dstack(const std::vector<Tensor>& tensors, HAMMOCK_AT);
HAMMOCK_API Tensor column_stack(const std::vector<Tensor>& tensors, HAMMOCK_AT);
HAMMOCK_API Tensor block_diag(const std::vector<Tensor>& tensors, HAMMOCK_AT);

/// As narrow, but a copy.
HAMMOCK_API Tensor narrow_copy(const Tensor& self, int64_t dim, int64_t start, int64_t length,
                               HAMMOCK_AT);
HAMMOCK_API Tensor repeat(const Tensor& self, const Dims& repeats, HAMMOCK_AT);
HAMMOCK_API Tensor tile(const Tensor& self, const Dims& dims, HAMMOCK_AT);
HAMMOCK_API Tensor repeat_interleave(const Tensor& self, int64_t repeats,
                                     std::optional<int64_t> dim = std::nullopt, HAMMOCK_AT);
/// One count an element; without `output_size` their sum is read.
HAMMOCK_API Tensor repeat_interleave(const Tensor& self, const Tensor& repeats,
                                     std::optional<int64_t> dim = std::nullopt,
                                     std::optional<int64_t> output_size = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor roll(const Tensor& self, const Dims& shifts, const Dims& dims = {}, HAMMOCK_AT);
HAMMOCK_API Tensor flip(const Tensor& self, const Dims& dims, HAMMOCK_AT);
HAMMOCK_API Tensor fliplr(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor flipud(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor rot90(const Tensor& self, int64_t k = 1, const Dims& dims = {0, 1}, HAMMOCK_AT);

/// `pad` holds (before, after) from the last dim backwards; negative amounts crop. `mode` is
/// constant, reflect, replicate or circular.
HAMMOCK_API Tensor pad(const Tensor& self, const std::vector<int64_t>& pad,
                       const std::string& mode = "constant", const Scalar& value = 0, HAMMOCK_AT);
HAMMOCK_API Tensor constant_pad_nd(const Tensor& self, const std::vector<int64_t>& pad,
                                   const Scalar& value = 0, HAMMOCK_AT);

HAMMOCK_API Tensor tril(const Tensor& self, int64_t diagonal = 0, HAMMOCK_AT);
HAMMOCK_API Tensor triu(const Tensor& self, int64_t diagonal = 0, HAMMOCK_AT);
/// A vector as the diagonal of a matrix, or a copy of a matrix's diagonal.
HAMMOCK_API Tensor diag(const Tensor& self, int64_t diagonal = 0, HAMMOCK_AT);
HAMMOCK_API Tensor diag_embed(const Tensor& self, int64_t offset = 0, int64_t dim1 = -2,
                              int64_t dim2 = -1, HAMMOCK_AT);
HAMMOCK_API Tensor diagflat(const Tensor& self, int64_t offset = 0, HAMMOCK_AT);

HAMMOCK_API Tensor atleast_1d(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor atleast_2d(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor atleast_3d(const Tensor& self, HAMMOCK_AT);
/// `indexing` is ij or xy.
HAMMOCK_API std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors,
                                         const std::string& indexing = "ij", HAMMOCK_AT);
HAMMOCK_API Tensor cartesian_prod(const std::vector<Tensor>& tensors, HAMMOCK_AT);
HAMMOCK_API Tensor combinations(const Tensor& self, int64_t r = 2, bool with_replacement = false,
                                HAMMOCK_AT);
HAMMOCK_API Dims broadcast_shapes(const std::vector<Dims>& shapes);

HAMMOCK_API std::vector<Tensor> tensor_split(const Tensor& self, int64_t sections, int64_t dim = 0,
                                             HAMMOCK_AT);
HAMMOCK_API std::vector<Tensor> tensor_split(const Tensor& self,
                                             const std::vector<int64_t>& indices, int64_t dim = 0,
                                             HAMMOCK_AT);
HAMMOCK_API std::vector<Tensor> hsplit(const Tensor& self, int64_t sections, HAMMOCK_AT);
HAMMOCK_API std::vector<Tensor> hsplit(const Tensor& self, const std::vector<int64_t>& indices,
                                       HAMMOCK_AT);
HAMMOCK_API std::vector<Tensor> vsplit(const Tensor& self, int64_t sections, HAMMOCK_AT);
HAMMOCK_API std::vector<Tensor> vsplit(const Tensor& self, const std::vector<int64_t>& indices,
                                       HAMMOCK_AT);
HAMMOCK_API std::vector<Tensor> dsplit(const Tensor& self, int64_t sections, HAMMOCK_AT);
HAMMOCK_API std::vector<Tensor> dsplit(const Tensor& self, const std::vector<int64_t>& indices,
                                       HAMMOCK_AT);

/// A copy of `self` with a part replaced by `src`.
HAMMOCK_API Tensor select_scatter(const Tensor& self, const Tensor& src, int64_t dim, int64_t index,
                                  HAMMOCK_AT);
HAMMOCK_API Tensor slice_scatter(const Tensor& self, const Tensor& src, int64_t dim = 0,
                                 std::optional<int64_t> start = std::nullopt,
                                 std::optional<int64_t> end = std::nullopt, int64_t step = 1,
                                 HAMMOCK_AT);
HAMMOCK_API Tensor diagonal_scatter(const Tensor& self, const Tensor& src, int64_t offset = 0,
                                    int64_t dim1 = 0, int64_t dim2 = 1, HAMMOCK_AT);

/// Sums the dims that broadcasting `size` to self's sizes would stretch.
HAMMOCK_API Tensor sum_to_size(const Tensor& self, const Dims& size, HAMMOCK_AT);
/// Without `dim`, the first of size three.
HAMMOCK_API Tensor cross(const Tensor& self, const Tensor& other,
                         std::optional<int64_t> dim = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor diff(const Tensor& self, int64_t n = 1, int64_t dim = -1,
                        const std::optional<Tensor>& prepend = std::nullopt,
                        const std::optional<Tensor>& append = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor trapezoid(const Tensor& y, const Tensor& x, int64_t dim = -1, HAMMOCK_AT);
HAMMOCK_API Tensor trapezoid(const Tensor& y, const Scalar& dx = 1, int64_t dim = -1, HAMMOCK_AT);
HAMMOCK_API Tensor cumulative_trapezoid(const Tensor& y, const Tensor& x, int64_t dim = -1,
                                        HAMMOCK_AT);
HAMMOCK_API Tensor cumulative_trapezoid(const Tensor& y, const Scalar& dx = 1, int64_t dim = -1,
                                        HAMMOCK_AT);

}  // namespace hammock
