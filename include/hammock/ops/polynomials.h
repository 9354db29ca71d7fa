#pragma once
/// Orthogonal polynomials and functions of torch.special. Integers become f32.

#include <cstdint>

#include "hammock/export.h"
#include "hammock/ops/view.h"
#include "hammock/tensor.h"

namespace hammock {

// Polynomials of degree `n`, which is at most 4096; those of a negative degree are 0. The shifted
// ones are those of 2 x - 1.
#define HAMMOCK_POLYNOMIALS(X)      \
  X(chebyshev_polynomial_t)         \
  X(chebyshev_polynomial_u)         \
  X(chebyshev_polynomial_v)         \
  X(chebyshev_polynomial_w)         \
  X(shifted_chebyshev_polynomial_t) \
  X(shifted_chebyshev_polynomial_u) \
  X(shifted_chebyshev_polynomial_v) \
  X(shifted_chebyshev_polynomial_w) \
  X(hermite_polynomial_h) X(hermite_polynomial_he) X(laguerre_polynomial_l) X(legendre_polynomial_p)
#define HAMMOCK_DECLARE(name) \
  HAMMOCK_API Tensor special_##name(const Tensor& self, int64_t n, HAMMOCK_AT);
HAMMOCK_POLYNOMIALS(HAMMOCK_DECLARE)
#undef HAMMOCK_DECLARE

/// The inverse of ndtr: the point below which a standard normal number is with probability `self`.
HAMMOCK_API Tensor special_ndtri(const Tensor& self, HAMMOCK_AT);
/// sin(x) / x.
HAMMOCK_API Tensor special_spherical_bessel_j0(const Tensor& self, HAMMOCK_AT);
/// Bessel functions of the first and second kind; the latter are minus infinity at 0 and NaN below.
HAMMOCK_API Tensor special_bessel_j0(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor special_bessel_j1(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor special_bessel_y0(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor special_bessel_y1(const Tensor& self, HAMMOCK_AT);
/// Modified Bessel functions; those of the second kind are infinity at 0 and NaN below, the scaled
/// ones times exp(x).
HAMMOCK_API Tensor special_modified_bessel_i0(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor special_modified_bessel_i1(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor special_modified_bessel_k0(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor special_modified_bessel_k1(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor special_scaled_modified_bessel_k0(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor special_scaled_modified_bessel_k1(const Tensor& self, HAMMOCK_AT);

}  // namespace hammock
