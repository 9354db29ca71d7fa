#pragma once
/// Pooling by norms, and max pooling by windows at random positions. Other pooling is in matmul.h
/// and pool.h.

#include <optional>
#include <tuple>
#include <vector>

#include "hammock/export.h"
#include "hammock/ops/view.h"
#include "hammock/tensor.h"

namespace hammock {

/// (sum of x ** norm_type) ** (1 / norm_type) of each window; infinite norms are maxima and minima
/// of absolute values. An empty `stride` means the kernel size.
HAMMOCK_API Tensor lp_pool1d(const Tensor& self, double norm_type, const Dims& kernel_size,
                             const Dims& stride = {}, bool ceil_mode = false, HAMMOCK_AT);
HAMMOCK_API Tensor lp_pool2d(const Tensor& self, double norm_type, const Dims& kernel_size,
                             const Dims& stride = {}, bool ceil_mode = false, HAMMOCK_AT);
HAMMOCK_API Tensor lp_pool3d(const Tensor& self, double norm_type, const Dims& kernel_size,
                             const Dims& stride = {}, bool ceil_mode = false, HAMMOCK_AT);

/// Where the windows of fractional_max_pool lie: either of the first two is given.
struct FractionalWindows {
  std::optional<Dims> output_size = std::nullopt;
  std::vector<double> output_ratio = {};  ///< of the input's sizes
  /// (N, C, dims), each in [0, 1); drawn where absent. PyTorch's order: width, height for images.
  std::optional<Tensor> random_samples = std::nullopt;
};
/// The greatest of each window, and its index into the flattened pooled dims. Windows begin at
/// pseudorandom positions of each channel.
HAMMOCK_API std::tuple<Tensor, Tensor> fractional_max_pool2d_with_indices(
    const Tensor& self, const Dims& kernel_size, const FractionalWindows& windows, HAMMOCK_AT);
HAMMOCK_API std::tuple<Tensor, Tensor> fractional_max_pool3d_with_indices(
    const Tensor& self, const Dims& kernel_size, const FractionalWindows& windows, HAMMOCK_AT);
HAMMOCK_API Tensor fractional_max_pool2d(const Tensor& self, const Dims& kernel_size,
                                         const FractionalWindows& windows, HAMMOCK_AT);
HAMMOCK_API Tensor fractional_max_pool3d(const Tensor& self, const Dims& kernel_size,
                                         const FractionalWindows& windows, HAMMOCK_AT);

}  // namespace hammock
