/// Views of a range of one dim: slices, selected elements, and the parts that a dim is split into.

#include <algorithm>

#include "base/throw.h"
#include "hammock/op_builder.h"
#include "hammock/ops/view.h"
#include "ir/primitives.h"
#include "trace/alias.h"
#include "trace/layout.h"
#include "trace/tensor_impl.h"

namespace hammock {

namespace {

/// Where one element range of a dim lies.
Geometry RangeOf(const Tensor& self, int dim, int64_t start, int64_t size, int64_t step) {
  Geometry geometry = GeometryOf(*self.impl());
  geometry.offset += start * geometry.strides[dim];
  geometry.strides[dim] *= step;
  geometry.sizes[dim] = size;
  return geometry;
}

/// One element range of a dim; `lifted` starts are operands, so that a new start does not
/// recompile.
Tensor Range(const char* op, const Tensor& self, int dim, int64_t start, int64_t size, int64_t step,
             bool lifted) {
  Geometry geometry = RangeOf(self, dim, start, size, step);
  if (lifted && Context().symbolic == 0) {
    return MakeView(op, self, {ops::kDynamicSlice, {dim, size, step}, start}, geometry);
  }
  return MakeView(op, self, {ops::kSlice, {dim, start, size, step}}, geometry);
}

/// Where the elements lie of a tensor with one dim less, of which it had one index.
Geometry WithoutDim(Geometry geometry, int dim) {
  geometry.sizes.erase(dim);
  geometry.strides.erase(dim);
  return geometry;
}

/// One index of a dim, which is an attribute.
Tensor SelectFixed(const char* op, const Tensor& self, int dim, int64_t start) {
  Tensor range = Range(op, self, dim, start, 1, 1, false);
  Geometry geometry = WithoutDim(GeometryOf(*range.impl()), dim);
  return MakeView(op, range, {ops::kReshape, {geometry.sizes}}, geometry);
}

/// The sizes of a usable tensor that has dims.
const Dims& SizesToCut(const char* op, const Tensor& self) {
  const Dims& sizes = CurrentNode(op, self)->shape(static_cast<int>(self.impl()->index)).sizes();
  if (sizes.empty()) Throw(ErrorCode::kDimOutOfRange, "{}: a 0-d tensor has no dims to cut", op);
  return sizes;
}

}  // namespace

[[gnu::flatten]] Tensor slice(const Tensor& self, int64_t dim, std::optional<int64_t> start,
                              std::optional<int64_t> end, int64_t step, Location at) {
  LocationScope scope(at);
  const Dims& sizes = SizesToCut("slice", self);
  int at_dim = WrapDim("slice", dim, sizes.size());
  if (step <= 0) Throw(ErrorCode::kValue, "slice: the step must be positive, not {}", step);
  int64_t size = sizes[at_dim];
  auto clamp = [&](int64_t index) {
    return std::clamp<int64_t>(index < 0 ? index + size : index, 0, size);
  };
  int64_t from = clamp(start.value_or(0)), to = clamp(end.value_or(size));
  int64_t count = to > from ? (to - from + step - 1) / step : 0;
  // A whole dim, whatever it is called, is no dynamic slice.
  bool lifted = start.has_value() && count > 0;
  if (count == 0 && from > size) from = size;
  return Range("slice", self, at_dim, from, count, step, lifted);
}

Tensor narrow(const Tensor& self, int64_t dim, int64_t start, int64_t length, Location at) {
  LocationScope scope(at);
  const Dims& sizes = SizesToCut("narrow", self);
  int at_dim = WrapDim("narrow", dim, sizes.size());
  int64_t size = sizes[at_dim];
  if (length < 0)
    Throw(ErrorCode::kNegativeSize, "narrow: the length must not be negative, is {}", length);
  int64_t from = start < 0 ? start + size : start;
  if (from < 0 || from > size || length > size - from) {
    Throw(ErrorCode::kIndexOutOfRange, "narrow: start {} with length {} is outside of dim {} of {}",
          start, length, at_dim, self.shape().to_string());
  }
  return Range("narrow", self, at_dim, from, length, 1, length > 0);
}

[[gnu::flatten]] Tensor select(const Tensor& self, int64_t dim, int64_t index, Location at) {
  LocationScope scope(at);
  const Dims& sizes = SizesToCut("select", self);
  int at_dim = WrapDim("select", dim, sizes.size());
  int64_t size = sizes[at_dim];
  if (index < -size || index >= size) {
    Throw(ErrorCode::kIndexOutOfRange,
          "select: index {} is out of bounds for dimension {} with size {}", index, at_dim, size);
  }
  int64_t start = index < 0 ? index + size : index;
  if (Context().symbolic > 0) return SelectFixed("select", self, at_dim, start);
  Geometry geometry = WithoutDim(RangeOf(self, at_dim, start, 1, 1), at_dim);
  return MakeView("select", self, {ops::kDynamicSelect, {at_dim}, start}, geometry);
}

namespace {

std::vector<Tensor> Parts(const char* op, const Tensor& self, const std::vector<int64_t>& sizes,
                          int dim, const Location& at) {
  LocationScope scope(at);
  std::vector<Tensor> parts;
  int64_t start = 0;
  for (int64_t size : sizes) {
    parts.push_back(Range(op, self, dim, start, size, 1, false));
    start += size;
  }
  return parts;
}

}  // namespace

std::vector<Tensor> split(const Tensor& self, int64_t split_size, int64_t dim, Location at) {
  LocationScope scope(at);
  const Dims& sizes = SizesToCut("split", self);
  int at_dim = WrapDim("split", dim, sizes.size());
  int64_t size = sizes[at_dim];
  if (split_size < 0 || (split_size == 0 && size != 0)) {
    Throw(ErrorCode::kValue, "split: the split size must be positive, not {}", split_size);
  }
  std::vector<int64_t> parts;
  for (int64_t start = 0; start < size; start += split_size)
    parts.push_back(std::min(split_size, size - start));
  if (parts.empty()) parts.push_back(0);
  return Parts("split", self, parts, at_dim, at);
}

std::vector<Tensor> split_with_sizes(const Tensor& self, const std::vector<int64_t>& split_sizes,
                                     int64_t dim, Location at) {
  LocationScope scope(at);
  const Dims& sizes = SizesToCut("split_with_sizes", self);
  int at_dim = WrapDim("split_with_sizes", dim, sizes.size());
  int64_t total = 0;
  for (int64_t size : split_sizes) {
    if (size < 0) Throw(ErrorCode::kNegativeSize, "split_with_sizes: negative size {}", size);
    total += size;
  }
  if (total != sizes[at_dim]) {
    Throw(ErrorCode::kShapeMismatch,
          "split_with_sizes: the sizes add up to {}, dim {} of {} has {}", total, at_dim,
          self.shape().to_string(), sizes[at_dim]);
  }
  return Parts("split_with_sizes", self, split_sizes, at_dim, at);
}

std::vector<Tensor> chunk(const Tensor& self, int64_t chunks, int64_t dim, Location at) {
  LocationScope scope(at);
  const Dims& sizes = SizesToCut("chunk", self);
  if (chunks <= 0)
    Throw(ErrorCode::kValue, "chunk: the number of chunks must be positive, not {}", chunks);
  int64_t size = sizes[WrapDim("chunk", dim, sizes.size())];
  int64_t each = (size + chunks - 1) / chunks;
  if (each == 0) {
    return split_with_sizes(self, std::vector<int64_t>(static_cast<size_t>(chunks), 0), dim, at);
  }
  return split(self, each, dim, at);
}

std::vector<Tensor> unbind(const Tensor& self, int64_t dim, Location at) {
  LocationScope scope(at);
  const Dims& sizes = SizesToCut("unbind", self);
  int at_dim = WrapDim("unbind", dim, sizes.size());
  std::vector<Tensor> parts;
  for (int64_t i = 0, size = sizes[at_dim]; i < size; ++i) {
    parts.push_back(SelectFixed("unbind", self, at_dim, i));
  }
  return parts;
}

}  // namespace hammock
