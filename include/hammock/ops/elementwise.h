#pragma once
/// Elementwise functions and operators. Operands broadcast and promote as in PyTorch; a number goes
/// with any dtype of its kind and is a parameter of the compiled graph, so that a new value never
/// recompiles. A trailing underscore writes to `self`.
///
///   Tensor y = where(x > 0, x, 0.1 * x);
///   weight.sub_(gradient, learning_rate);

#include <concepts>
#include <optional>
#include <string>
#include <type_traits>

#include "hammock/export.h"
#include "hammock/ops/elementwise_list.h"
#include "hammock/ops/view.h"
#include "hammock/tensor.h"

namespace hammock {

#define HAMMOCK_DECLARE(name) HAMMOCK_API Tensor name(const Tensor& self, HAMMOCK_AT);
HAMMOCK_UNARY_OPS(HAMMOCK_DECLARE)
HAMMOCK_UNARY_FUNCTIONS(HAMMOCK_DECLARE)
#undef HAMMOCK_DECLARE

#define HAMMOCK_DECLARE(name) HAMMOCK_API Tensor& name##_(Tensor& self, HAMMOCK_AT);
HAMMOCK_UNARY_OPS(HAMMOCK_DECLARE)
#undef HAMMOCK_DECLARE

#define HAMMOCK_DECLARE(name)                                                      \
  HAMMOCK_API Tensor name(const Tensor& self, const TensorArg& other, HAMMOCK_AT); \
  HAMMOCK_API Tensor name(const Scalar& self, const Tensor& other, HAMMOCK_AT);
HAMMOCK_BINARY_OPS(HAMMOCK_DECLARE)
HAMMOCK_BINARY_FUNCTIONS(HAMMOCK_DECLARE)
#undef HAMMOCK_DECLARE

#define HAMMOCK_DECLARE(name) \
  HAMMOCK_API Tensor& name##_(Tensor& self, const TensorArg& other, HAMMOCK_AT);
HAMMOCK_BINARY_OPS(HAMMOCK_DECLARE)
HAMMOCK_DECLARE(heaviside)
#undef HAMMOCK_DECLARE

#define HAMMOCK_DECLARE(alias, name) \
  inline Tensor alias(const Tensor& self, HAMMOCK_AT) { return name(self, at); }
HAMMOCK_UNARY_ALIASES(HAMMOCK_DECLARE)
#undef HAMMOCK_DECLARE

#define HAMMOCK_DECLARE(alias, name)                                            \
  inline Tensor alias(const Tensor& self, const TensorArg& other, HAMMOCK_AT) { \
    return name(self, other, at);                                               \
  }
HAMMOCK_BINARY_ALIASES(HAMMOCK_DECLARE)
#undef HAMMOCK_DECLARE

// ---- Forms with more arguments

/// self + alpha * other
HAMMOCK_API Tensor add(const Tensor& self, const TensorArg& other, const Scalar& alpha, HAMMOCK_AT);
HAMMOCK_API Tensor sub(const Tensor& self, const TensorArg& other, const Scalar& alpha, HAMMOCK_AT);
/// other - alpha * self
HAMMOCK_API Tensor rsub(const Tensor& self, const TensorArg& other, HAMMOCK_AT);
HAMMOCK_API Tensor rsub(const Tensor& self, const TensorArg& other, const Scalar& alpha,
                        HAMMOCK_AT);
/// Quotient rounded "floor", "trunc" or, without a mode, not at all.
HAMMOCK_API Tensor div(const Tensor& self, const TensorArg& other,
                       const std::optional<std::string>& rounding_mode, HAMMOCK_AT);
HAMMOCK_API Tensor round(const Tensor& self, int64_t decimals, HAMMOCK_AT);
/// One where `self` is positive, zero where it is negative, `values` where it is zero.
HAMMOCK_API Tensor heaviside(const Tensor& self, const TensorArg& values, HAMMOCK_AT);

/// Complex numbers of real parts, which have one floating dtype; they broadcast.
HAMMOCK_API Tensor complex(const Tensor& real, const Tensor& imag, HAMMOCK_AT);
/// abs * (cos(angle) + i sin(angle))
HAMMOCK_API Tensor polar(const Tensor& abs, const Tensor& angle, HAMMOCK_AT);
/// The last two dims exchanged, and conjugated.
HAMMOCK_API Tensor adjoint(const Tensor& self, HAMMOCK_AT);

/// NaN stays; an absent bound does not bind; where they cross, `max` wins.
HAMMOCK_API Tensor clamp(const Tensor& self, const std::optional<TensorArg>& min = std::nullopt,
                         const std::optional<TensorArg>& max = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor clip(const Tensor& self, const std::optional<TensorArg>& min = std::nullopt,
                        const std::optional<TensorArg>& max = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor clamp_min(const Tensor& self, const TensorArg& min, HAMMOCK_AT);
HAMMOCK_API Tensor clamp_max(const Tensor& self, const TensorArg& max, HAMMOCK_AT);

HAMMOCK_API Tensor where(const Tensor& condition, const TensorArg& self, const TensorArg& other,
                         HAMMOCK_AT);
/// self + weight * (end - self)
HAMMOCK_API Tensor lerp(const Tensor& self, const Tensor& end, const TensorArg& weight, HAMMOCK_AT);
/// self + value * tensor1 * tensor2
HAMMOCK_API Tensor addcmul(const Tensor& self, const Tensor& tensor1, const Tensor& tensor2,
                           const Scalar& value = 1, HAMMOCK_AT);
/// self + value * tensor1 / tensor2
HAMMOCK_API Tensor addcdiv(const Tensor& self, const Tensor& tensor1, const Tensor& tensor2,
                           const Scalar& value = 1, HAMMOCK_AT);
/// Without a replacement: 0 for NaN, the largest and smallest finite values for infinities.
HAMMOCK_API Tensor nan_to_num(const Tensor& self, const std::optional<Scalar>& nan = std::nullopt,
                              const std::optional<Scalar>& posinf = std::nullopt,
                              const std::optional<Scalar>& neginf = std::nullopt, HAMMOCK_AT);
/// log(x / (1 - x)), with x clamped to [eps, 1 - eps] where eps is given.
HAMMOCK_API Tensor logit(const Tensor& self, const std::optional<Scalar>& eps = std::nullopt,
                         HAMMOCK_AT);
/// Whether |self - other| <= atol + rtol * |other|.
HAMMOCK_API Tensor isclose(const Tensor& self, const Tensor& other, double rtol = 1e-5,
                           double atol = 1e-8, bool equal_nan = false, HAMMOCK_AT);

// ---- In place

HAMMOCK_API Tensor& fill_(Tensor& self, const TensorArg& value, HAMMOCK_AT);
HAMMOCK_API Tensor& zero_(Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor& add_(Tensor& self, const TensorArg& other, const Scalar& alpha, HAMMOCK_AT);
HAMMOCK_API Tensor& sub_(Tensor& self, const TensorArg& other, const Scalar& alpha, HAMMOCK_AT);
HAMMOCK_API Tensor& div_(Tensor& self, const TensorArg& other,
                         const std::optional<std::string>& rounding_mode, HAMMOCK_AT);
HAMMOCK_API Tensor& round_(Tensor& self, int64_t decimals, HAMMOCK_AT);
HAMMOCK_API Tensor& clamp_(Tensor& self, const std::optional<TensorArg>& min = std::nullopt,
                           const std::optional<TensorArg>& max = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor& clamp_min_(Tensor& self, const TensorArg& min, HAMMOCK_AT);
HAMMOCK_API Tensor& clamp_max_(Tensor& self, const TensorArg& max, HAMMOCK_AT);
HAMMOCK_API Tensor& lerp_(Tensor& self, const Tensor& end, const TensorArg& weight, HAMMOCK_AT);
HAMMOCK_API Tensor& addcmul_(Tensor& self, const Tensor& tensor1, const Tensor& tensor2,
                             const Scalar& value = 1, HAMMOCK_AT);
HAMMOCK_API Tensor& addcdiv_(Tensor& self, const Tensor& tensor1, const Tensor& tensor2,
                             const Scalar& value = 1, HAMMOCK_AT);
HAMMOCK_API Tensor& nan_to_num_(Tensor& self, const std::optional<Scalar>& nan = std::nullopt,
                                const std::optional<Scalar>& posinf = std::nullopt,
                                const std::optional<Scalar>& neginf = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor& logit_(Tensor& self, const std::optional<Scalar>& eps = std::nullopt,
                           HAMMOCK_AT);

}  // namespace hammock

#include "hammock/ops/operators.h"
