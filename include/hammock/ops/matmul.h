#pragma once
/// Products of vectors, matrices and batches of them; convolution and pooling. Operands have one
/// dtype; nothing promotes.

#include <concepts>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "hammock/export.h"
#include "hammock/ops/view.h"
#include "hammock/tensor.h"

namespace hammock {

/// PyTorch's rules: vectors lose their dim, batch dims broadcast.
HAMMOCK_API Tensor matmul(const Tensor& self, const Tensor& other, HAMMOCK_AT);
HAMMOCK_API Tensor mm(const Tensor& self, const Tensor& mat2, HAMMOCK_AT);
HAMMOCK_API Tensor bmm(const Tensor& self, const Tensor& mat2, HAMMOCK_AT);
HAMMOCK_API Tensor mv(const Tensor& self, const Tensor& vec, HAMMOCK_AT);
HAMMOCK_API Tensor dot(const Tensor& self, const Tensor& tensor, HAMMOCK_AT);
HAMMOCK_API Tensor vdot(const Tensor& self, const Tensor& other, HAMMOCK_AT);
HAMMOCK_API Tensor outer(const Tensor& self, const Tensor& vec2, HAMMOCK_AT);
HAMMOCK_API Tensor inner(const Tensor& self, const Tensor& other, HAMMOCK_AT);
HAMMOCK_API Tensor kron(const Tensor& self, const Tensor& other, HAMMOCK_AT);
HAMMOCK_API Tensor chain_matmul(const std::vector<Tensor>& matrices, HAMMOCK_AT);
/// Contracts the last `dims` dims of `self` with the first `dims` of `other`.
HAMMOCK_API Tensor tensordot(const Tensor& self, const Tensor& other, int64_t dims = 2, HAMMOCK_AT);
HAMMOCK_API Tensor tensordot(const Tensor& self, const Tensor& other, const Dims& dims_self,
                             const Dims& dims_other, HAMMOCK_AT);
/// "bij,bjk->bik"; supports `...`, repeated and omitted labels, and sizes of one that stretch.
HAMMOCK_API Tensor einsum(const std::string& equation, const std::vector<Tensor>& tensors,
                          HAMMOCK_AT);

/// beta * self + alpha * (product); where beta is zero, `self` does not matter.
HAMMOCK_API Tensor addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2,
                         const Scalar& beta = 1, const Scalar& alpha = 1, HAMMOCK_AT);
HAMMOCK_API Tensor addmv(const Tensor& self, const Tensor& mat, const Tensor& vec,
                         const Scalar& beta = 1, const Scalar& alpha = 1, HAMMOCK_AT);
HAMMOCK_API Tensor addr(const Tensor& self, const Tensor& vec1, const Tensor& vec2,
                        const Scalar& beta = 1, const Scalar& alpha = 1, HAMMOCK_AT);
HAMMOCK_API Tensor addbmm(const Tensor& self, const Tensor& batch1, const Tensor& batch2,
                          const Scalar& beta = 1, const Scalar& alpha = 1, HAMMOCK_AT);
HAMMOCK_API Tensor baddbmm(const Tensor& self, const Tensor& batch1, const Tensor& batch2,
                           const Scalar& beta = 1, const Scalar& alpha = 1, HAMMOCK_AT);
/// input @ weight.t() + bias
HAMMOCK_API Tensor linear(const Tensor& input, const Tensor& weight,
                          const std::optional<Tensor>& bias = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor bilinear(const Tensor& input1, const Tensor& input2, const Tensor& weight,
                            const std::optional<Tensor>& bias = std::nullopt, HAMMOCK_AT);

// Convolution over the last one, two or three dims; one number in a list stands for all of them.
// `padding` may also be "valid" or "same"; that form is a template only so that `{1}` is no string.
#define HAMMOCK_CONV(name)                                                                  \
  HAMMOCK_API Tensor name(const Tensor& input, const Tensor& weight,                        \
                          const std::optional<Tensor>& bias = std::nullopt,                 \
                          const Dims& stride = {1}, const Dims& padding = {0},              \
                          const Dims& dilation = {1}, int64_t groups = 1, HAMMOCK_AT);      \
  HAMMOCK_API Tensor name##_padding(const Tensor& input, const Tensor& weight,              \
                                    const std::optional<Tensor>& bias, const Dims& stride,  \
                                    const std::string& padding, const Dims& dilation = {1}, \
                                    int64_t groups = 1, HAMMOCK_AT);                        \
  template <std::convertible_to<std::string> Name>                                          \
  Tensor name(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias, \
              const Dims& stride, const Name& padding, const Dims& dilation = {1},          \
              int64_t groups = 1, HAMMOCK_AT) {                                             \
    return name##_padding(input, weight, bias, stride, padding, dilation, groups, at);      \
  }
HAMMOCK_CONV(conv1d)
HAMMOCK_CONV(conv2d)
HAMMOCK_CONV(conv3d)
#undef HAMMOCK_CONV

#define HAMMOCK_CONV(name)                                                                         \
  HAMMOCK_API Tensor name(                                                                         \
      const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias = std::nullopt, \
      const Dims& stride = {1}, const Dims& padding = {0}, const Dims& output_padding = {0},       \
      int64_t groups = 1, const Dims& dilation = {1}, HAMMOCK_AT);
HAMMOCK_CONV(conv_transpose1d)
HAMMOCK_CONV(conv_transpose2d)
HAMMOCK_CONV(conv_transpose3d)
#undef HAMMOCK_CONV

// Pooling; an empty `stride` means the kernel size.
#define HAMMOCK_POOL(dims)                                                                        \
  HAMMOCK_API Tensor max_pool##dims(                                                              \
      const Tensor& self, const Dims& kernel_size, const Dims& stride = {},                       \
      const Dims& padding = {0}, const Dims& dilation = {1}, bool ceil_mode = false, HAMMOCK_AT); \
  /* (values, indices into the flattened pooled dims) */                                          \
  HAMMOCK_API std::tuple<Tensor, Tensor> max_pool##dims##_with_indices(                           \
      const Tensor& self, const Dims& kernel_size, const Dims& stride = {},                       \
      const Dims& padding = {0}, const Dims& dilation = {1}, bool ceil_mode = false, HAMMOCK_AT); \
  HAMMOCK_API Tensor avg_pool##dims(                                                              \
      const Tensor& self, const Dims& kernel_size, const Dims& stride = {},                       \
      const Dims& padding = {0}, bool ceil_mode = false, bool count_include_pad = true,           \
      std::optional<int64_t> divisor_override = std::nullopt, HAMMOCK_AT);
HAMMOCK_POOL(1d)
HAMMOCK_POOL(2d)
HAMMOCK_POOL(3d)
#undef HAMMOCK_POOL

}  // namespace hammock
