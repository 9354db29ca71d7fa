#pragma once
/// Resizing of signals, images and volumes, and sampling at given points.
///
///   Tensor twice = interpolate(images, std::nullopt, {{2.0}}, "bilinear", false);

#include <optional>
#include <string>
#include <vector>

#include "hammock/export.h"
#include "hammock/ops/view.h"
#include "hammock/tensor.h"

namespace hammock {

/// Resizes all dims behind the first two, to `size` or by `scale_factor`; one number stands for all
/// dims. `mode` is nearest, nearest-exact, linear, bilinear, bicubic, trilinear or area.
HAMMOCK_API Tensor interpolate(
    const Tensor& input, const std::optional<Dims>& size,
    const std::optional<std::vector<double>>& scale_factor = std::nullopt,
    const std::string& mode = "nearest", std::optional<bool> align_corners = std::nullopt,
    std::optional<bool> recompute_scale_factor = std::nullopt, bool antialias = false, HAMMOCK_AT);
HAMMOCK_API Tensor upsample(const Tensor& input, const std::optional<Dims>& size,
                            const std::optional<std::vector<double>>& scale_factor = std::nullopt,
                            const std::string& mode = "nearest",
                            std::optional<bool> align_corners = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor
upsample_nearest(const Tensor& input, const std::optional<Dims>& size,
                 const std::optional<std::vector<double>>& scale_factor = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor upsample_bilinear(
    const Tensor& input, const std::optional<Dims>& size,
    const std::optional<std::vector<double>>& scale_factor = std::nullopt, HAMMOCK_AT);

// PyTorch's forms for one number of dims. A scale, where given, says how far apart the samples are;
// else the sizes do.
HAMMOCK_API Tensor upsample_nearest1d(const Tensor& self, const Dims& output_size,
                                      std::optional<double> scales = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor upsample_nearest2d(const Tensor& self, const Dims& output_size,
                                      std::optional<double> scales_h = std::nullopt,
                                      std::optional<double> scales_w = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor upsample_nearest3d(const Tensor& self, const Dims& output_size,
                                      std::optional<double> scales_d = std::nullopt,
                                      std::optional<double> scales_h = std::nullopt,
                                      std::optional<double> scales_w = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor upsample_linear1d(const Tensor& self, const Dims& output_size,
                                     bool align_corners,
                                     std::optional<double> scales = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor upsample_bilinear2d(const Tensor& self, const Dims& output_size,
                                       bool align_corners,
                                       std::optional<double> scales_h = std::nullopt,
                                       std::optional<double> scales_w = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor upsample_bicubic2d(const Tensor& self, const Dims& output_size,
                                      bool align_corners,
                                      std::optional<double> scales_h = std::nullopt,
                                      std::optional<double> scales_w = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor upsample_trilinear3d(const Tensor& self, const Dims& output_size,
                                        bool align_corners,
                                        std::optional<double> scales_d = std::nullopt,
                                        std::optional<double> scales_h = std::nullopt,
                                        std::optional<double> scales_w = std::nullopt, HAMMOCK_AT);

/// Values of images (volumes) at the points of `grid`, whose last dim is x, y(, z) from -1 to 1.
/// `mode` is bilinear, nearest or bicubic, `padding_mode` zeros, border or reflection.
HAMMOCK_API Tensor grid_sample(const Tensor& input, const Tensor& grid,
                               const std::string& mode = "bilinear",
                               const std::string& padding_mode = "zeros",
                               std::optional<bool> align_corners = std::nullopt, HAMMOCK_AT);
/// The grid of an affine map for results of `size`: theta is (N, 2, 3) or (N, 3, 4).
HAMMOCK_API Tensor affine_grid(const Tensor& theta, const Dims& size,
                               std::optional<bool> align_corners = std::nullopt, HAMMOCK_AT);

}  // namespace hammock
