#pragma once
/// Pooling to given sizes and its reverse; windows as columns; channels as pixels. Pooling by
/// windows is in matmul.h.

#include <optional>
#include <tuple>
#include <vector>

#include "hammock/export.h"
#include "hammock/ops/view.h"
#include "hammock/tensor.h"

namespace hammock {

// A size of -1 keeps the size of the input.
#define HAMMOCK_POOL(dims)                                                                   \
  HAMMOCK_API Tensor adaptive_avg_pool##dims(const Tensor& self, const Dims& output_size,    \
                                             HAMMOCK_AT);                                    \
  HAMMOCK_API Tensor adaptive_max_pool##dims(const Tensor& self, const Dims& output_size,    \
                                             HAMMOCK_AT);                                    \
  /* (values, indices into the flattened pooled dims) */                                     \
  HAMMOCK_API std::tuple<Tensor, Tensor> adaptive_max_pool##dims##_with_indices(             \
      const Tensor& self, const Dims& output_size, HAMMOCK_AT);                              \
  /* Zeros with the values at the indices of max_pool; an empty `stride` means the kernel */ \
  HAMMOCK_API Tensor max_unpool##dims(                                                       \
      const Tensor& input, const Tensor& indices, const Dims& kernel_size,                   \
      const Dims& stride = {}, const Dims& padding = {0},                                    \
      const std::optional<std::vector<int64_t>>& output_size = std::nullopt, HAMMOCK_AT);
HAMMOCK_POOL(1d)
HAMMOCK_POOL(2d)
HAMMOCK_POOL(3d)
#undef HAMMOCK_POOL

/// Windows of images as columns: (N, C * kernel, windows). This is nn.functional.unfold.
HAMMOCK_API Tensor im2col(const Tensor& input, const Dims& kernel_size, const Dims& dilation = {1},
                          const Dims& padding = {0}, const Dims& stride = {1}, HAMMOCK_AT);
/// Sums of columns where their windows overlap: the transpose of im2col.
HAMMOCK_API Tensor fold(const Tensor& input, const Dims& output_size, const Dims& kernel_size,
                        const Dims& dilation = {1}, const Dims& padding = {0},
                        const Dims& stride = {1}, HAMMOCK_AT);
HAMMOCK_API Tensor col2im(const Tensor& self, const Dims& output_size, const Dims& kernel_size,
                          const Dims& dilation, const Dims& padding, const Dims& stride,
                          HAMMOCK_AT);

/// (C * r * r, H, W) to (C, H * r, W * r).
HAMMOCK_API Tensor pixel_shuffle(const Tensor& self, int64_t upscale_factor, HAMMOCK_AT);
HAMMOCK_API Tensor pixel_unshuffle(const Tensor& self, int64_t downscale_factor, HAMMOCK_AT);

}  // namespace hammock
