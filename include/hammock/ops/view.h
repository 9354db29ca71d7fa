#pragma once
/// Views: the result aliases its argument. Strides and offsets have PyTorch's values.

#include <vector>

#include "hammock/export.h"
#include "hammock/tensor.h"

namespace hammock {

#define HAMMOCK_AT Location at = Location::current()

HAMMOCK_API Tensor view(const Tensor& self, const Dims& size, HAMMOCK_AT);
HAMMOCK_API Tensor view_dtype(const Tensor& self, DType dtype, HAMMOCK_AT);
HAMMOCK_API Tensor view_as(const Tensor& self, const Tensor& other, HAMMOCK_AT);
/// A view where strides allow it, else a copy.
HAMMOCK_API Tensor reshape(const Tensor& self, const Dims& shape, HAMMOCK_AT);
HAMMOCK_API Tensor reshape_as(const Tensor& self, const Tensor& other, HAMMOCK_AT);
HAMMOCK_API Tensor flatten(const Tensor& self, int64_t start_dim = 0, int64_t end_dim = -1,
                           HAMMOCK_AT);
HAMMOCK_API Tensor ravel(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor unflatten(const Tensor& self, int64_t dim, const Dims& sizes, HAMMOCK_AT);
HAMMOCK_API Tensor permute(const Tensor& self, const Dims& dims, HAMMOCK_AT);
HAMMOCK_API Tensor transpose(const Tensor& self, int64_t dim0, int64_t dim1, HAMMOCK_AT);
HAMMOCK_API Tensor swapaxes(const Tensor& self, int64_t axis0, int64_t axis1, HAMMOCK_AT);
HAMMOCK_API Tensor t(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor movedim(const Tensor& self, const Dims& source, const Dims& destination,
                           HAMMOCK_AT);
HAMMOCK_API Tensor squeeze(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor squeeze(const Tensor& self, int64_t dim, HAMMOCK_AT);
HAMMOCK_API Tensor unsqueeze(const Tensor& self, int64_t dim, HAMMOCK_AT);
HAMMOCK_API Tensor expand(const Tensor& self, const Dims& size, HAMMOCK_AT);
HAMMOCK_API Tensor expand_as(const Tensor& self, const Tensor& other, HAMMOCK_AT);
HAMMOCK_API Tensor broadcast_to(const Tensor& self, const Dims& size, HAMMOCK_AT);
HAMMOCK_API std::vector<Tensor> broadcast_tensors(const std::vector<Tensor>& tensors, HAMMOCK_AT);
/// Starts given by the caller are lifted: a new start does not recompile.
HAMMOCK_API Tensor slice(const Tensor& self, int64_t dim, std::optional<int64_t> start,
                         std::optional<int64_t> end, int64_t step = 1, HAMMOCK_AT);
HAMMOCK_API Tensor narrow(const Tensor& self, int64_t dim, int64_t start, int64_t length,
                          HAMMOCK_AT);
HAMMOCK_API Tensor select(const Tensor& self, int64_t dim, int64_t index, HAMMOCK_AT);
HAMMOCK_API Tensor diagonal(const Tensor& self, int64_t offset = 0, int64_t dim1 = 0,
                            int64_t dim2 = 1, HAMMOCK_AT);
/// The real part of complex numbers; real numbers themselves.
HAMMOCK_API Tensor real(const Tensor& self, HAMMOCK_AT);
/// The imaginary part of complex numbers; TypeError for real ones.
HAMMOCK_API Tensor imag(const Tensor& self, HAMMOCK_AT);
/// Complex numbers as pairs along a new last dim.
HAMMOCK_API Tensor view_as_real(const Tensor& self, HAMMOCK_AT);
/// Pairs along the last dim, which has stride 1 and all others even ones, as complex numbers.
HAMMOCK_API Tensor view_as_complex(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor unfold_dim(const Tensor& self, int64_t dimension, int64_t size, int64_t step,
                              HAMMOCK_AT);
HAMMOCK_API Tensor as_strided(const Tensor& self, const Dims& size, const Dims& stride,
                              std::optional<int64_t> storage_offset = std::nullopt, HAMMOCK_AT);
HAMMOCK_API std::vector<Tensor> split(const Tensor& self, int64_t split_size, int64_t dim = 0,
                                      HAMMOCK_AT);
HAMMOCK_API std::vector<Tensor> split_with_sizes(const Tensor& self,
                                                 const std::vector<int64_t>& split_sizes,
                                                 int64_t dim = 0, HAMMOCK_AT);
HAMMOCK_API std::vector<Tensor> chunk(const Tensor& self, int64_t chunks, int64_t dim = 0,
                                      HAMMOCK_AT);
HAMMOCK_API std::vector<Tensor> unbind(const Tensor& self, int64_t dim = 0, HAMMOCK_AT);
HAMMOCK_API Tensor detach(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor alias(const Tensor& self, HAMMOCK_AT);

// Copies and conversions.
HAMMOCK_API Tensor clone(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor contiguous(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor to(const Tensor& self, DType dtype, HAMMOCK_AT);
HAMMOCK_API Tensor to(const Tensor& self, const Device& device, HAMMOCK_AT);
/// In place: values of `source`, broadcast and cast.
HAMMOCK_API Tensor& copy_(Tensor& self, const Tensor& source, HAMMOCK_AT);

}  // namespace hammock
