#pragma once
/// Second names of shape functions, channels and positions in another order, and small layers of
/// others.

#include <optional>
#include <string>
#include <vector>

#include "hammock/export.h"
#include "hammock/ops/view.h"
#include "hammock/tensor.h"

namespace hammock {

HAMMOCK_API Tensor moveaxis(const Tensor& self, const Dims& source, const Dims& destination,
                            HAMMOCK_AT);
HAMMOCK_API Tensor swapdims(const Tensor& self, int64_t dim0, int64_t dim1, HAMMOCK_AT);
HAMMOCK_API Tensor concatenate(const std::vector<Tensor>& tensors, int64_t dim = 0, HAMMOCK_AT);
HAMMOCK_API Tensor row_stack(const std::vector<Tensor>& tensors, HAMMOCK_AT);
HAMMOCK_API std::vector<Tensor> unsafe_chunk(const Tensor& self, int64_t chunks, int64_t dim = 0,
                                             HAMMOCK_AT);
HAMMOCK_API std::vector<Tensor> unsafe_split(const Tensor& self, int64_t split_size,
                                             int64_t dim = 0, HAMMOCK_AT);
HAMMOCK_API std::vector<Tensor> unsafe_split_with_sizes(const Tensor& self,
                                                        const std::vector<int64_t>& split_sizes,
                                                        int64_t dim = 0, HAMMOCK_AT);

/// Channels (dim 1), which are `groups` times a number, with that number first.
HAMMOCK_API Tensor channel_shuffle(const Tensor& self, int64_t groups, HAMMOCK_AT);
/// The coordinates, one tensor a dim of `shape`, of positions in a flattened tensor.
HAMMOCK_API std::vector<Tensor> unravel_index(const Tensor& indices, const Dims& shape, HAMMOCK_AT);
HAMMOCK_API bool is_same_size(const Tensor& self, const Tensor& other, HAMMOCK_AT);
/// Whether the only element is not zero. Reads.
HAMMOCK_API bool is_nonzero(const Tensor& self, HAMMOCK_AT);

/// conv1d of (time, batch, channels) by weights of (kernel, channels in, channels out).
HAMMOCK_API Tensor conv_tbc(const Tensor& self, const Tensor& weight, const Tensor& bias,
                            int64_t pad = 0, HAMMOCK_AT);
/// The norms of the slices along `dim`.
HAMMOCK_API Tensor norm_except_dim(const Tensor& v, int64_t pow = 2, int64_t dim = 0, HAMMOCK_AT);
/// cross_entropy of linear(input, linear_weight, linear_bias); classes are the first dim of the
/// weight.
HAMMOCK_API Tensor linear_cross_entropy(const Tensor& input, const Tensor& linear_weight,
                                        const Tensor& target,
                                        const std::optional<Tensor>& linear_bias = std::nullopt,
                                        const std::optional<Tensor>& weight = std::nullopt,
                                        int64_t ignore_index = -100,
                                        const std::string& reduction = "mean",
                                        double label_smoothing = 0.0, HAMMOCK_AT);

}  // namespace hammock
