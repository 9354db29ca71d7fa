#pragma once
/// PyTorch's second names of functions, among them those of torch.special and torch.linalg.

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "hammock/ops/elementwise.h"
#include "hammock/ops/linalg.h"
#include "hammock/ops/matmul.h"
#include "hammock/ops/shape.h"
#include "hammock/ops/special.h"
#include "hammock/ops/view.h"

namespace hammock {

// ---- In place
#define HAMMOCK_DECLARE(alias, name) \
  inline Tensor& alias##_(Tensor& self, HAMMOCK_AT) { return name##_(self, at); }
HAMMOCK_UNARY_ALIASES(HAMMOCK_DECLARE)
#undef HAMMOCK_DECLARE
#define HAMMOCK_DECLARE(alias, name)                                          \
  inline Tensor& alias##_(Tensor& self, const TensorArg& other, HAMMOCK_AT) { \
    return name##_(self, other, at);                                          \
  }
HAMMOCK_BINARY_ALIASES(HAMMOCK_DECLARE)
#undef HAMMOCK_DECLARE

// ---- torch.special
#define HAMMOCK_DECLARE(alias, name) \
  inline Tensor special_##alias(const Tensor& self, HAMMOCK_AT) { return name(self, at); }
HAMMOCK_DECLARE(digamma, digamma)
HAMMOCK_DECLARE(psi, digamma)
HAMMOCK_DECLARE(entr, entr)
HAMMOCK_DECLARE(erf, erf)
HAMMOCK_DECLARE(erfc, erfc)
HAMMOCK_DECLARE(erfcx, erfcx)
HAMMOCK_DECLARE(erfinv, erfinv)
HAMMOCK_DECLARE(exp2, exp2)
HAMMOCK_DECLARE(expit, sigmoid)
HAMMOCK_DECLARE(expm1, expm1)
HAMMOCK_DECLARE(gammaln, lgamma)
HAMMOCK_DECLARE(i0, i0)
HAMMOCK_DECLARE(i0e, i0e)
HAMMOCK_DECLARE(i1, i1)
HAMMOCK_DECLARE(i1e, i1e)
HAMMOCK_DECLARE(log1p, log1p)
HAMMOCK_DECLARE(ndtr, ndtr)
HAMMOCK_DECLARE(log_ndtr, log_ndtr)
HAMMOCK_DECLARE(sinc, sinc)
#undef HAMMOCK_DECLARE
inline Tensor special_gammainc(const Tensor& self, const Tensor& other, HAMMOCK_AT) {
  return igamma(self, other, at);
}
inline Tensor special_gammaincc(const Tensor& self, const Tensor& other, HAMMOCK_AT) {
  return igammac(self, other, at);
}
inline Tensor special_logit(const Tensor& self, const std::optional<Scalar>& eps = std::nullopt,
                            HAMMOCK_AT) {
  return logit(self, eps, at);
}
inline Tensor special_multigammaln(const Tensor& self, int64_t p, HAMMOCK_AT) {
  return mvlgamma(self, p, at);
}
inline Tensor special_polygamma(int64_t n, const Tensor& self, HAMMOCK_AT) {
  return polygamma(n, self, at);
}
inline Tensor special_xlog1py(const TensorArg& self, const TensorArg& other, HAMMOCK_AT) {
  return xlog1py(self, other, at);
}
inline Tensor special_xlogy(const Tensor& self, const TensorArg& other, HAMMOCK_AT) {
  return xlogy(self, other, at);
}
inline Tensor special_zeta(const TensorArg& self, const TensorArg& other, HAMMOCK_AT) {
  return zeta(self, other, at);
}

// ---- torch.linalg
inline Tensor linalg_matrix_exp(const Tensor& self, HAMMOCK_AT) { return matrix_exp(self, at); }
inline Tensor linalg_matrix_power(const Tensor& self, int64_t n, HAMMOCK_AT) {
  return matrix_power(self, n, at);
}
/// Of all elements.
inline Tensor linalg_norm(const Tensor& self, HAMMOCK_AT) {
  return linalg_vector_norm(self, 2, {}, false, std::nullopt, at);
}
/// Of vectors along one dim or of matrices in two; without `dim`, of a vector or a matrix.
HAMMOCK_API Tensor linalg_norm(const Tensor& self, const Scalar& ord,
                               const std::optional<Dims>& dim = std::nullopt, bool keepdim = false,
                               std::optional<DType> dtype = std::nullopt, HAMMOCK_AT);
/// Of matrices; `ord` is "fro" or "nuc".
inline Tensor linalg_norm(const Tensor& self, const std::string& ord, const Dims& dim = {-2, -1},
                          bool keepdim = false, std::optional<DType> dtype = std::nullopt,
                          HAMMOCK_AT) {
  return linalg_matrix_norm(self, ord, dim, keepdim, dtype, at);
}
inline std::tuple<Tensor, Tensor> lu(const Tensor& A, HAMMOCK_AT) {
  return linalg_lu_factor(A, at);
}

// ---- Others
inline Tensor concat(const std::vector<Tensor>& tensors, int64_t dim = 0, HAMMOCK_AT) {
  return cat(tensors, dim, at);
}
inline Tensor ger(const Tensor& self, const Tensor& vec2, HAMMOCK_AT) {
  return outer(self, vec2, at);
}
inline Tensor trapz(const Tensor& y, const Tensor& x, int64_t dim = -1, HAMMOCK_AT) {
  return trapezoid(y, x, dim, at);
}
inline Tensor trapz(const Tensor& y, const Scalar& dx = 1, int64_t dim = -1, HAMMOCK_AT) {
  return trapezoid(y, dx, dim, at);
}
/// All slices of `size` along a dim. (torch.nn.functional.unfold is im2col.)
inline Tensor unfold(const Tensor& self, int64_t dimension, int64_t size, int64_t step,
                     HAMMOCK_AT) {
  return unfold_dim(self, dimension, size, step, at);
}
inline bool is_signed(const Tensor& self) { return self.is_signed(); }
inline bool is_complex(const Tensor& self) { return self.is_complex(); }
inline bool is_floating_point(const Tensor& self) { return self.is_floating_point(); }

}  // namespace hammock
