// Splitting into views, and copies with a part replaced.

#include <algorithm>

#include "base/throw.h"
#include "hammock/ops/shape.h"
#include "ops/kit/compose.h"
#include "ops/kit/index_steps.h"
#include "ops/primitives/families.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

// ---- Splitting

namespace {

/// Views between consecutive positions, which are clamped as Python's slices are.
std::vector<Tensor> SplitAt(const Tensor& self, std::vector<int64_t> indices, int dim) {
  int64_t size = self.size(dim), start = 0;
  indices.push_back(size);
  std::vector<Tensor> parts;
  for (int64_t end : indices) {
    if (end < 0) end += size;
    end = std::clamp<int64_t>(end, 0, size);
    parts.push_back(narrow(self, dim, start, std::max<int64_t>(end - start, 0)));
    start = end;
  }
  return parts;
}

std::vector<Tensor> SplitEvenly(const char* op, const Tensor& self, int64_t sections, int dim) {
  if (sections <= 0 || self.size(dim) % sections != 0) {
    Throw(ErrorCode::kValue, "{}: dim {} of {} does not divide into {} equal parts", op, dim,
          self.shape().to_string(), sections);
  }
  return tensor_split(self, sections, dim);
}

}  // namespace

std::vector<Tensor> tensor_split(const Tensor& self, int64_t sections, int64_t dim, Location at) {
  LocationScope scope(at);
  NeedRank("tensor_split", self, 1);
  int d = WrapDim("tensor_split", dim, self.dim());
  if (sections <= 0) {
    Throw(ErrorCode::kValue, "tensor_split: needs at least one section, got {}", sections);
  }
  // The first size % sections parts are one longer.
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < sections; ++i) {
    sizes.push_back(self.size(d) / sections + (i < self.size(d) % sections ? 1 : 0));
  }
  return split_with_sizes(self, sizes, d);
}

std::vector<Tensor> tensor_split(const Tensor& self, const std::vector<int64_t>& indices,
                                 int64_t dim, Location at) {
  LocationScope scope(at);
  NeedRank("tensor_split", self, 1);
  return SplitAt(self, indices, WrapDim("tensor_split", dim, self.dim()));
}

#define HAMMOCK_SPLIT(name, rank, axis)                                                            \
  std::vector<Tensor> name(const Tensor& self, int64_t sections, Location at) {                    \
    LocationScope scope(at);                                                                       \
    NeedRank(#name, self, rank);                                                                   \
    return SplitEvenly(#name, self, sections, axis);                                               \
  }                                                                                                \
  std::vector<Tensor> name(const Tensor& self, const std::vector<int64_t>& indices, Location at) { \
    LocationScope scope(at);                                                                       \
    NeedRank(#name, self, rank);                                                                   \
    return SplitAt(self, indices, axis);                                                           \
  }
HAMMOCK_SPLIT(hsplit, 1, self.dim() == 1 ? 0 : 1)
HAMMOCK_SPLIT(vsplit, 2, 0)
HAMMOCK_SPLIT(dsplit, 3, 2)
#undef HAMMOCK_SPLIT

// ---- Copies with a part replaced

namespace {

Tensor WithPart(const char* op, const Tensor& whole, Tensor part, const Tensor& src) {
  if (part.sizes() != src.sizes()) {
    Throw(ErrorCode::kShapeMismatch, "{}: src {} must have the sizes {} of the part it replaces",
          op, src.shape().to_string(), ToString(part.sizes()));
  }
  copy_(part, src);
  return whole;
}

}  // namespace

Tensor select_scatter(const Tensor& self, const Tensor& src, int64_t dim, int64_t index,
                      Location at) {
  LocationScope scope(at);
  Tensor whole = clone(self);
  return WithPart("select_scatter", whole, select(whole, dim, index), src);
}

Tensor slice_scatter(const Tensor& self, const Tensor& src, int64_t dim,
                     std::optional<int64_t> start, std::optional<int64_t> end, int64_t step,
                     Location at) {
  LocationScope scope(at);
  Tensor whole = clone(self);
  return WithPart("slice_scatter", whole, slice(whole, dim, start, end, step), src);
}

Tensor diagonal_scatter(const Tensor& self, const Tensor& src, int64_t offset, int64_t dim1,
                        int64_t dim2, Location at) {
  LocationScope scope(at);
  Tensor whole = clone(self);
  return WithPart("diagonal_scatter", whole, diagonal(whole, offset, dim1, dim2), src);
}

// ---- Records

namespace {

std::vector<Tensor> SplitByTensor(const Tensor& self, const Tensor& indices, int64_t dim) {
  if (indices.dim() == 0) return tensor_split(self, ReadCount("tensor_split", indices), dim);
  return tensor_split(self, indices.to_vector<int64_t>(), dim);
}

using Sections = std::vector<Tensor> (*)(const Tensor&, int64_t, Location);
using Positions = std::vector<Tensor> (*)(const Tensor&, const std::vector<int64_t>&, Location);
using SectionsAlong = std::vector<Tensor> (*)(const Tensor&, int64_t, int64_t, Location);
using PositionsAlong = std::vector<Tensor> (*)(const Tensor&, const std::vector<int64_t>&, int64_t,
                                               Location);

HAMMOCK_FUNCTION(kTensorSplitInt,
                 "tensor_split.sections(Tensor self, int sections, int dim=0) -> Tensor[]",
                 "Views of nearly equal parts.", static_cast<SectionsAlong>(tensor_split))
HAMMOCK_FUNCTION(kTensorSplitList,
                 "tensor_split.indices(Tensor self, int[] indices, int dim=0) -> Tensor[]",
                 "Views between positions.", static_cast<PositionsAlong>(tensor_split))
HAMMOCK_FUNCTION(kTensorSplitTensor,
                 "tensor_split.tensor_indices_or_sections(Tensor self, Tensor "
                 "tensor_indices_or_sections, int dim=0) -> Tensor[]",
                 "Views between positions that are read.", SplitByTensor)
#define HAMMOCK_SPLIT(name)                                                                  \
  HAMMOCK_FUNCTION(k_##name##_int, #name ".int(Tensor self, int sections) -> Tensor[]",      \
                   "Views of equal parts.", static_cast<Sections>(name))                     \
  HAMMOCK_FUNCTION(k_##name##_array, #name ".array(Tensor self, int[] indices) -> Tensor[]", \
                   "Views between positions.", static_cast<Positions>(name))
HAMMOCK_SPLIT(hsplit)
HAMMOCK_SPLIT(vsplit)
HAMMOCK_SPLIT(dsplit)
#undef HAMMOCK_SPLIT
HAMMOCK_FUNCTION(kSelectScatter,
                 "select_scatter(Tensor self, Tensor src, int dim, int index) -> Tensor",
                 "A copy with one slice replaced.", select_scatter)
HAMMOCK_FUNCTION(kSliceScatter,
                 "slice_scatter(Tensor self, Tensor src, int dim=0, int? start=None, int? "
                 "end=None, int step=1) -> Tensor",
                 "A copy with a range replaced.", slice_scatter)
HAMMOCK_FUNCTION(kDiagonalScatter,
                 "diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) "
                 "-> Tensor",
                 "A copy with a diagonal replaced.", diagonal_scatter)

}  // namespace

std::span<const OpDef* const> ops::PartOps() {
  static constexpr const OpDef* kOps[] = {
      &kTensorSplitInt, &kTensorSplitList, &kTensorSplitTensor, &k_hsplit_int,
      &k_hsplit_array,  &k_vsplit_int,     &k_vsplit_array,     &k_dsplit_int,
      &k_dsplit_array,  &kSelectScatter,   &kSliceScatter,      &kDiagonalScatter,
  };
  return kOps;
}

}  // namespace hammock
