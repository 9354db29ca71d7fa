#pragma once
/// Bessel and gamma functions, and the parts of a floating number. Integers become f32.

#include <cstdint>
#include <tuple>

#include "hammock/export.h"
#include "hammock/ops/view.h"
#include "hammock/tensor.h"

namespace hammock {

/// Modified Bessel functions of the first kind; those with an `e` are times exp(-|x|).
HAMMOCK_API Tensor i0(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor i0e(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor i1(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor i1e(const Tensor& self, HAMMOCK_AT);

/// Regularised incomplete gamma functions, lower and upper: igamma(a, x) + igammac(a, x) is 1.
HAMMOCK_API Tensor igamma(const Tensor& self, const Tensor& other, HAMMOCK_AT);
HAMMOCK_API Tensor igammac(const Tensor& self, const Tensor& other, HAMMOCK_AT);
/// Logarithm of the multivariate gamma function of dimension `p`, from 1 to 4096.
HAMMOCK_API Tensor mvlgamma(const Tensor& self, int64_t p, HAMMOCK_AT);
/// Hurwitz zeta function: the sum of (other + k) ** -self for k from 0.
HAMMOCK_API Tensor zeta(const TensorArg& self, const TensorArg& other, HAMMOCK_AT);
/// The n-th derivative of digamma.
HAMMOCK_API Tensor polygamma(int64_t n, const Tensor& self, HAMMOCK_AT);

/// -x log(x), 0 at 0, minus infinity below.
HAMMOCK_API Tensor entr(const Tensor& self, HAMMOCK_AT);
/// Distribution function of the standard normal distribution, and its logarithm.
HAMMOCK_API Tensor ndtr(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor log_ndtr(const Tensor& self, HAMMOCK_AT);
/// exp(x * x) * erfc(x), without overflow.
HAMMOCK_API Tensor erfcx(const Tensor& self, HAMMOCK_AT);
/// self * log1p(other), 0 where `self` is 0 unless `other` is NaN.
HAMMOCK_API Tensor xlog1py(const TensorArg& self, const TensorArg& other, HAMMOCK_AT);

/// (mantissa, exponent): self is mantissa * 2 ** exponent, with |mantissa| in [0.5, 1) or 0.
HAMMOCK_API std::tuple<Tensor, Tensor> frexp(const Tensor& self, HAMMOCK_AT);

}  // namespace hammock
