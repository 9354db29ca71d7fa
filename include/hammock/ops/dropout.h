#pragma once
/// Dropout of channels, and the kinds that keep SELU's mean and variance. `dropout` is in nn.h.

#include <tuple>

#include "hammock/export.h"
#include "hammock/ops/view.h"
#include "hammock/tensor.h"

namespace hammock {

/// Drops whole channels: elements of dim 1.
HAMMOCK_API Tensor feature_dropout(const Tensor& self, double p = 0.5, bool training = true,
                                   HAMMOCK_AT);
/// As feature_dropout of (N, C, L), or of (C, L).
HAMMOCK_API Tensor dropout1d(const Tensor& self, double p = 0.5, bool training = true, HAMMOCK_AT);
/// As feature_dropout of (N, C, H, W).
HAMMOCK_API Tensor dropout2d(const Tensor& self, double p = 0.5, bool training = true, HAMMOCK_AT);
/// As feature_dropout of (N, C, D, H, W), or of (C, D, H, W).
HAMMOCK_API Tensor dropout3d(const Tensor& self, double p = 0.5, bool training = true, HAMMOCK_AT);
/// Dropped elements, or channels, become SELU's limit; the rest is scaled and shifted so that mean
/// and variance stay.
HAMMOCK_API Tensor alpha_dropout(const Tensor& self, double p = 0.5, bool training = false,
                                 HAMMOCK_AT);
HAMMOCK_API Tensor feature_alpha_dropout(const Tensor& self, double p = 0.5, bool training = false,
                                         HAMMOCK_AT);
/// (dropout, which elements were kept).
HAMMOCK_API std::tuple<Tensor, Tensor> native_dropout(const Tensor& self, double p, bool train,
                                                      HAMMOCK_AT);

}  // namespace hammock
