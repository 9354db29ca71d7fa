/// Views: each computes PyTorch's sizes, strides and offset, and adds one op to the tensor's chain.

#include "hammock/ops/view.h"

#include <algorithm>
#include <numeric>

#include "base/throw.h"
#include "hammock/op_builder.h"
#include "ir/primitives.h"
#include "trace/alias.h"
#include "trace/layout.h"
#include "trace/record.h"
#include "trace/tensor_impl.h"

namespace hammock {

namespace {

/// Checks that the tensor is usable, and gives where its elements lie.
Geometry GeometryFor(const char* op, const Tensor& self) {
  CurrentNode(op, self);
  return GeometryOf(*self.impl());
}

Tensor Reshaped(const char* op, const Tensor& self, const Dims& sizes, const Dims& strides) {
  Geometry from = GeometryFor(op, self);
  return MakeView(op, self, {ops::kReshape, {sizes}}, {sizes, strides, from.offset});
}

/// Replaces a size of -1 by what is left; checks the number of elements.
Dims InferSizes(const char* op, const Dims& wanted, int64_t numel, const Shape& type) {
  Dims sizes = wanted;
  int unknown = -1;
  int64_t known = 1;
  for (int i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == -1) {
      if (unknown >= 0)
        Throw(ErrorCode::kValue, "{}: only one size can be -1: {}", op, ToString(wanted));
      unknown = i;
    } else if (sizes[i] < 0) {
      Throw(ErrorCode::kNegativeSize, "{}: invalid size {} in {}", op, sizes[i], ToString(wanted));
    } else if (__builtin_mul_overflow(known, sizes[i], &known)) {
      Throw(ErrorCode::kSizeOverflow, "{}: the sizes {} overflow", op, ToString(wanted));
    }
  }
  if (unknown >= 0) {
    if (known == 0 || numel % known != 0) {
      Throw(ErrorCode::kShapeMismatch, "{}: {} does not fit sizes {}{}", op, type.to_string(),
            ToString(wanted), known == 0 ? ": the size of -1 would be ambiguous" : "");
    }
    sizes[unknown] = numel / known;
  } else if (known != numel) {
    Throw(ErrorCode::kShapeMismatch, "{}: {} has {} elements, sizes {} need {}", op,
          type.to_string(), numel, ToString(wanted), known);
  }
  return sizes;
}

/// Strides of a view of other sizes on the same memory, if there are any.
std::optional<Dims> ViewStrides(const Geometry& from, const Dims& sizes) {
  int64_t numel =
      std::accumulate(from.sizes.begin(), from.sizes.end(), int64_t{1}, std::multiplies<>());
  if (numel == 0) return from.sizes == sizes ? from.strides : ContiguousStrides(sizes);
  Dims strides = Dims::Filled(sizes.size(), 1);
  if (from.sizes.empty()) return strides;
  // Walk both from the back: every run of dims that is contiguous in memory is cut anew.
  int view_dim = sizes.size() - 1;
  int64_t base_stride = from.strides.back();
  int64_t run = 1, taken = 1;
  for (int dim = from.sizes.size() - 1; dim >= 0; --dim) {
    run *= from.sizes[dim];
    bool ends =
        dim == 0 || (from.sizes[dim - 1] != 1 && from.strides[dim - 1] != run * base_stride);
    if (!ends) continue;
    while (view_dim >= 0 && (taken < run || sizes[view_dim] == 1)) {
      strides[view_dim] = taken * base_stride;
      taken *= sizes[view_dim];
      --view_dim;
    }
    if (taken != run) return std::nullopt;
    if (dim > 0) {
      base_stride = from.strides[dim - 1];
      run = taken = 1;
    }
  }
  return view_dim == -1 ? std::optional(strides) : std::nullopt;
}

}  // namespace

Tensor view(const Tensor& self, const Dims& size, Location at) {
  LocationScope scope(at);
  Geometry geometry = GeometryFor("view", self);
  Dims sizes = InferSizes("view", size, self.numel(), self.shape());
  auto strides = ViewStrides(geometry, sizes);
  if (!strides) {
    Throw(ErrorCode::kShapeMismatch,
          "view: {} with strides {} cannot be seen as {} without a copy; use reshape",
          self.shape().to_string(), ToString(geometry.strides), ToString(sizes));
  }
  return Reshaped("view", self, sizes, *strides);
}

Tensor view_dtype(const Tensor& self, DType dtype, Location at) {
  LocationScope scope(at);
  Geometry geometry = GeometryFor("view", self);
  int from = InfoOf(self.dtype()).bits, to = InfoOf(dtype).bits;
  if (from != to) {
    if (self.dim() == 0 || geometry.strides.back() != 1) {
      Throw(ErrorCode::kShapeMismatch, "view: {} as {} needs a last dim of stride 1",
            self.shape().to_string(), NameOf(dtype));
    }
    if (from < to && (geometry.sizes.back() * from) % to != 0) {
      Throw(ErrorCode::kShapeMismatch, "view: the last dim of {} is not a whole number of {}",
            self.shape().to_string(), NameOf(dtype));
    }
    auto scale = [&](int64_t value) { return value * from / to; };
    int last = geometry.sizes.size() - 1;
    geometry.sizes[last] = scale(geometry.sizes[last]);
    for (int i = 0; i < last; ++i) geometry.strides[i] = scale(geometry.strides[i]);
    geometry.offset = scale(geometry.offset);
  }
  return MakeView("view", self, {ops::kBitcast, {dtype}}, geometry);
}

namespace {

Tensor PartView(const char* op, const Tensor& self, const OpDef& part, int64_t offset) {
  Geometry geometry = GeometryFor(op, self);
  for (int64_t& stride : geometry.strides) stride *= 2;
  geometry.offset = geometry.offset * 2 + offset;
  return MakeView(op, self, {part, {}}, geometry);
}

}  // namespace

Tensor real(const Tensor& self, Location at) {
  LocationScope scope(at);
  CurrentNode("real", self);
  return IsComplex(self.dtype()) ? PartView("real", self, ops::kReal, 0) : self;
}

Tensor imag(const Tensor& self, Location at) {
  LocationScope scope(at);
  CurrentNode("imag", self);
  if (IsComplex(self.dtype())) return PartView("imag", self, ops::kImag, 1);
  Throw<TypeError>(ErrorCode::kDTypeMismatch, "imag: needs a complex dtype, got {}",
                   self.shape().to_string());
}

Tensor view_as_real(const Tensor& self, Location at) {
  LocationScope scope(at);
  CurrentNode("view_as_real", self);
  if (!IsComplex(self.dtype())) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "view_as_real: needs a complex dtype, got {}",
                     self.shape().to_string());
  }
  return view_dtype(unsqueeze(self, -1, at), RealOf(self.dtype()), at);
}

Tensor view_as_complex(const Tensor& self, Location at) {
  LocationScope scope(at);
  Geometry geometry = GeometryFor("view_as_complex", self);
  if (self.dtype() != DType::kF32 && self.dtype() != DType::kF64) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "view_as_complex: needs f32 or f64, got {}",
                     self.shape().to_string());
  }
  bool even = geometry.offset % 2 == 0;
  for (int i = 0; i + 1 < geometry.strides.size(); ++i) even &= geometry.strides[i] % 2 == 0;
  if (self.dim() == 0 || geometry.sizes.back() != 2 || geometry.strides.back() != 1 || !even) {
    Throw(ErrorCode::kShapeMismatch,
          "view_as_complex: needs a last dim of size 2 and stride 1, and even strides and offset, "
          "got {} with strides {} and offset {}",
          self.shape().to_string(), ToString(geometry.strides), geometry.offset);
  }
  return squeeze(view_dtype(self, ComplexOf(self.dtype()), at), -1, at);
}

Tensor view_as(const Tensor& self, const Tensor& other, Location at) {
  LocationScope scope(at);
  return view(self, other.sizes(), at);
}

Tensor reshape(const Tensor& self, const Dims& shape, Location at) {
  LocationScope scope(at);
  Geometry geometry = GeometryFor("reshape", self);
  Dims sizes = InferSizes("reshape", shape, self.numel(), self.shape());
  if (auto strides = ViewStrides(geometry, sizes))
    return Reshaped("reshape", self, sizes, *strides);
  return Apply(ops::kReshape, at, {self}, {Attr(sizes)});
}

Tensor reshape_as(const Tensor& self, const Tensor& other, Location at) {
  LocationScope scope(at);
  return reshape(self, other.sizes(), at);
}

Tensor flatten(const Tensor& self, int64_t start_dim, int64_t end_dim, Location at) {
  LocationScope scope(at);
  CurrentNode("flatten", self);
  int start = WrapDim("flatten", start_dim, self.dim());
  int end = WrapDim("flatten", end_dim, self.dim());
  if (start > end)
    Throw(ErrorCode::kValue, "flatten: start_dim {} comes after end_dim {}", start, end);
  if (self.dim() == 0) return reshape(self, {1}, at);
  if (start == end) return alias(self, at);
  Dims sizes;
  for (int i = 0; i < start; ++i) sizes.push_back(self.size(i));
  int64_t merged = 1;
  for (int i = start; i <= end; ++i) merged *= self.size(i);
  sizes.push_back(merged);
  for (int i = end + 1; i < self.dim(); ++i) sizes.push_back(self.size(i));
  return reshape(self, sizes, at);
}

Tensor ravel(const Tensor& self, Location at) { return reshape(contiguous(self, at), {-1}, at); }

Tensor unflatten(const Tensor& self, int64_t dim, const Dims& sizes, Location at) {
  LocationScope scope(at);
  CurrentNode("unflatten", self);
  int at_dim = WrapDim("unflatten", dim, self.dim());
  if (sizes.empty()) Throw(ErrorCode::kValue, "unflatten: sizes must not be empty");
  Dims parts = InferSizes("unflatten", sizes, self.size(at_dim), self.shape());
  Dims all;
  for (int i = 0; i < self.dim(); ++i) {
    if (i != at_dim) {
      all.push_back(self.size(i));
    } else {
      for (int64_t part : parts) all.push_back(part);
    }
  }
  return view(self, all, at);
}

Tensor permute(const Tensor& self, const Dims& dims, Location at) {
  LocationScope scope(at);
  Geometry from = GeometryFor("permute", self);
  if (dims.size() != self.dim()) {
    Throw(ErrorCode::kValue, "permute: {} dims given for {}", dims.size(),
          self.shape().to_string());
  }
  Dims order = dims.empty() ? dims : WrapDims("permute", dims, self.dim());
  Geometry geometry = from;
  for (int i = 0; i < order.size(); ++i) {
    geometry.sizes[i] = from.sizes[static_cast<int>(order[i])];
    geometry.strides[i] = from.strides[static_cast<int>(order[i])];
  }
  return MakeView("permute", self, {ops::kPermute, {order}}, geometry);
}

Tensor transpose(const Tensor& self, int64_t dim0, int64_t dim1, Location at) {
  LocationScope scope(at);
  CurrentNode("transpose", self);
  int a = WrapDim("transpose", dim0, self.dim()), b = WrapDim("transpose", dim1, self.dim());
  if (self.dim() == 0 || a == b) return alias(self, at);
  Dims order = Dims::Filled(self.dim(), 0);
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[a], order[b]);
  return permute(self, order, at);
}

Tensor swapaxes(const Tensor& self, int64_t axis0, int64_t axis1, Location at) {
  return transpose(self, axis0, axis1, at);
}

Tensor t(const Tensor& self, Location at) {
  LocationScope scope(at);
  CurrentNode("t", self);
  if (self.dim() > 2)
    Throw(ErrorCode::kValue, "t: needs at most 2 dims, got {}", self.shape().to_string());
  return self.dim() < 2 ? alias(self, at) : transpose(self, 0, 1, at);
}

Tensor movedim(const Tensor& self, const Dims& source, const Dims& destination, Location at) {
  LocationScope scope(at);
  CurrentNode("movedim", self);
  if (source.size() != destination.size()) {
    Throw(ErrorCode::kValue, "movedim: {} source dims but {} destination dims", source.size(),
          destination.size());
  }
  if (source.empty()) return alias(self, at);
  Dims from = WrapDims("movedim", source, self.dim()),
       to = WrapDims("movedim", destination, self.dim());
  if (self.dim() == 0) return alias(self, at);
  Dims order = Dims::Filled(self.dim(), -1);
  std::vector<bool> moved(static_cast<size_t>(self.dim()));
  for (int i = 0; i < from.size(); ++i) {
    order[static_cast<int>(to[i])] = from[i];
    moved[from[i]] = true;
  }
  int next = 0;
  for (int64_t& position : order) {
    if (position >= 0) continue;
    while (moved[next]) ++next;
    position = next++;
  }
  return permute(self, order, at);
}

Tensor squeeze(const Tensor& self, Location at) {
  LocationScope scope(at);
  Geometry from = GeometryFor("squeeze", self);
  Dims sizes, strides;
  for (int i = 0; i < from.sizes.size(); ++i) {
    if (from.sizes[i] == 1) continue;
    sizes.push_back(from.sizes[i]);
    strides.push_back(from.strides[i]);
  }
  return Reshaped("squeeze", self, sizes, strides);
}

Tensor squeeze(const Tensor& self, int64_t dim, Location at) {
  LocationScope scope(at);
  CurrentNode("squeeze", self);
  int at_dim = WrapDim("squeeze", dim, self.dim());
  if (self.dim() == 0 || self.size(at_dim) != 1) return alias(self, at);
  Geometry geometry = GeometryOf(*self.impl());
  geometry.sizes.erase(at_dim);
  geometry.strides.erase(at_dim);
  return Reshaped("squeeze", self, geometry.sizes, geometry.strides);
}

Tensor unsqueeze(const Tensor& self, int64_t dim, Location at) {
  LocationScope scope(at);
  Geometry geometry = GeometryFor("unsqueeze", self);
  int at_dim = WrapDim("unsqueeze", dim, self.dim() + 1);
  int64_t stride = at_dim >= self.dim() ? 1 : geometry.sizes[at_dim] * geometry.strides[at_dim];
  geometry.sizes.insert(at_dim, 1);
  geometry.strides.insert(at_dim, stride);
  return Reshaped("unsqueeze", self, geometry.sizes, geometry.strides);
}

Tensor expand(const Tensor& self, const Dims& size, Location at) {
  LocationScope scope(at);
  Geometry from = GeometryFor("expand", self);
  if (size.size() < self.dim()) {
    Throw(ErrorCode::kShapeMismatch, "expand: {} has more dims than sizes {}",
          self.shape().to_string(), ToString(size));
  }
  Geometry geometry{size, Dims::Filled(size.size(), 0), from.offset};
  int lead = size.size() - self.dim();
  for (int i = 0; i < size.size(); ++i) {
    int own = i - lead;
    if (own < 0) {
      if (size[i] < 0) {
        Throw(ErrorCode::kNegativeSize, "expand: the size {} of the new dim {} is not allowed",
              size[i], i);
      }
      continue;
    }
    if (size[i] == -1) geometry.sizes[i] = from.sizes[own];
    if (geometry.sizes[i] == from.sizes[own]) {
      geometry.strides[i] = from.strides[own];
    } else if (from.sizes[own] != 1 || size[i] < 0) {
      Throw(ErrorCode::kShapeMismatch,
            "expand: {} cannot be expanded to {}: dim {} has size {}, not 1 or {}",
            self.shape().to_string(), ToString(size), own, from.sizes[own], size[i]);
    }
  }
  // A new dim of size 1 in front of dims has PyTorch's stride, so that it merges with them.
  for (int i = lead - 1; i >= 0; --i) {
    geometry.strides[i] = geometry.sizes[i] != 1 ? 0
                          : i + 1 < size.size()  ? geometry.sizes[i + 1] * geometry.strides[i + 1]
                                                 : 1;
  }
  return MakeView("expand", self, {ops::kBroadcast, {geometry.sizes}}, geometry);
}

Tensor expand_as(const Tensor& self, const Tensor& other, Location at) {
  LocationScope scope(at);
  return expand(self, other.sizes(), at);
}
Tensor broadcast_to(const Tensor& self, const Dims& size, Location at) {
  return expand(self, size, at);
}

std::vector<Tensor> broadcast_tensors(const std::vector<Tensor>& tensors, Location at) {
  LocationScope scope(at);
  Dims sizes;
  for (const Tensor& tensor : tensors)
    sizes = BroadcastSizes("broadcast_tensors", sizes, tensor.sizes());
  std::vector<Tensor> results;
  for (const Tensor& tensor : tensors) results.push_back(expand(tensor, sizes, at));
  return results;
}

Tensor diagonal(const Tensor& self, int64_t offset, int64_t dim1, int64_t dim2, Location at) {
  LocationScope scope(at);
  Geometry from = GeometryFor("diagonal", self);
  int a = WrapDim("diagonal", dim1, self.dim()), b = WrapDim("diagonal", dim2, self.dim());
  if (a == b) Throw(ErrorCode::kValue, "diagonal: the two dims must differ, both are {}", a);
  int64_t length = offset >= 0 ? std::min(from.sizes[a], from.sizes[b] - offset)
                               : std::min(from.sizes[a] + offset, from.sizes[b]);
  Geometry geometry{{}, {}, from.offset};
  if (length > 0)
    geometry.offset += offset >= 0 ? offset * from.strides[b] : -offset * from.strides[a];
  for (int i = 0; i < self.dim(); ++i) {
    if (i == a || i == b) continue;
    geometry.sizes.push_back(from.sizes[i]);
    geometry.strides.push_back(from.strides[i]);
  }
  geometry.sizes.push_back(std::max<int64_t>(length, 0));
  geometry.strides.push_back(from.strides[a] + from.strides[b]);
  return MakeBaseView("diagonal", self, geometry);
}

Tensor unfold_dim(const Tensor& self, int64_t dimension, int64_t size, int64_t step, Location at) {
  LocationScope scope(at);
  Geometry from = GeometryFor("unfold", self);
  int dim = WrapDim("unfold", dimension, self.dim());
  int64_t extent = self.dim() == 0 ? 1 : from.sizes[dim];
  if (size < 0 || size > extent || step <= 0) {
    Throw(ErrorCode::kValue, "unfold: size {} and step {} do not fit dim {} of {}", size, step, dim,
          self.shape().to_string());
  }
  Geometry geometry = from;
  int64_t stride = self.dim() == 0 ? 1 : from.strides[dim];
  if (self.dim() > 0) {
    geometry.sizes[dim] = (extent - size) / step + 1;
    geometry.strides[dim] = stride * step;
  }
  geometry.sizes.push_back(size);
  geometry.strides.push_back(stride);
  return MakeBaseView("unfold", self, geometry);
}

Tensor as_strided(const Tensor& self, const Dims& size, const Dims& stride,
                  std::optional<int64_t> storage_offset, Location at) {
  LocationScope scope(at);
  Geometry from = GeometryFor("as_strided", self);
  if (size.size() != stride.size()) {
    Throw(ErrorCode::kValue, "as_strided: {} sizes but {} strides", size.size(), stride.size());
  }
  CheckSizes("as_strided", size);
  Geometry geometry{size, stride, storage_offset.value_or(from.offset)};
  if (geometry.offset < 0)
    Throw(ErrorCode::kValue, "as_strided: the offset {} is negative", geometry.offset);
  for (int64_t each : stride) {
    if (each < 0) Throw(ErrorCode::kValue, "as_strided: the stride {} is negative", each);
  }
  return MakeBaseView("as_strided", self, geometry);
}

Tensor alias(const Tensor& self, Location at) {
  LocationScope scope(at);
  return MakeAlias(self, false);
}

Tensor detach(const Tensor& self, Location at) {
  LocationScope scope(at);
  if (!self.defined()) ThrowUndefined("detach");
  return MakeAlias(self, true);
}

}  // namespace hammock
