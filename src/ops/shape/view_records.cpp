/// Views as Tensor methods and as records.

#include "base/throw.h"
#include "hammock/op_builder.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/view.h"
#include "ops/kit/compose.h"
#include "ops/shape/views.h"

namespace hammock {

// ---- Methods

#define HAMMOCK_METHOD(signature, call) \
  Tensor Tensor::signature const { return hammock::call; }
HAMMOCK_METHOD(view(const Dims& size, Location at), view(*this, size, at))
HAMMOCK_METHOD(reshape(const Dims& shape, Location at), reshape(*this, shape, at))
HAMMOCK_METHOD(flatten(int64_t start_dim, int64_t end_dim, Location at),
               flatten(*this, start_dim, end_dim, at))
HAMMOCK_METHOD(permute(const Dims& dims, Location at), permute(*this, dims, at))
HAMMOCK_METHOD(transpose(int64_t dim0, int64_t dim1, Location at), transpose(*this, dim0, dim1, at))
HAMMOCK_METHOD(t(Location at), t(*this, at))
HAMMOCK_METHOD(squeeze(Location at), squeeze(*this, at))
HAMMOCK_METHOD(squeeze(int64_t dim, Location at), squeeze(*this, dim, at))
HAMMOCK_METHOD(unsqueeze(int64_t dim, Location at), unsqueeze(*this, dim, at))
HAMMOCK_METHOD(expand(const Dims& size, Location at), expand(*this, size, at))
HAMMOCK_METHOD(slice(int64_t dim, std::optional<int64_t> start, std::optional<int64_t> end,
                     int64_t step, Location at),
               slice(*this, dim, start, end, step, at))
HAMMOCK_METHOD(narrow(int64_t dim, int64_t start, int64_t length, Location at),
               narrow(*this, dim, start, length, at))
HAMMOCK_METHOD(select(int64_t dim, int64_t index, Location at), select(*this, dim, index, at))
HAMMOCK_METHOD(diagonal(int64_t offset, int64_t dim1, int64_t dim2, Location at),
               diagonal(*this, offset, dim1, dim2, at))
HAMMOCK_METHOD(as_strided(const Dims& size, const Dims& stride, std::optional<int64_t> offset,
                          Location at),
               as_strided(*this, size, stride, offset, at))
HAMMOCK_METHOD(real(Location at), real(*this, at))
HAMMOCK_METHOD(imag(Location at), imag(*this, at))
HAMMOCK_METHOD(detach(Location at), detach(*this, at))
HAMMOCK_METHOD(clone(Location at), clone(*this, at))
HAMMOCK_METHOD(contiguous(Location at), contiguous(*this, at))
HAMMOCK_METHOD(to(DType dtype, Location at), to(*this, dtype, at))
HAMMOCK_METHOD(to(const Device& device, Location at), to(*this, device, at))
HAMMOCK_METHOD(to(const Device& device, DType dtype, Location at),
               to(hammock::to(*this, device, at), dtype, at))
HAMMOCK_METHOD(view_as(const Tensor& other, Location at), view_as(*this, other, at))
HAMMOCK_METHOD(expand_as(const Tensor& other, Location at), expand_as(*this, other, at))
HAMMOCK_METHOD(unfold(int64_t dimension, int64_t size, int64_t step, Location at),
               unfold_dim(*this, dimension, size, step, at))
HAMMOCK_METHOD(type_as(const Tensor& other, Location at), to(*this, other.dtype(), at))
HAMMOCK_METHOD(cpu(Location at), to(*this, Device("cpu"), at))
HAMMOCK_METHOD(half(Location at), to(*this, DType::kF16, at))
HAMMOCK_METHOD(bfloat16(Location at), to(*this, DType::kBF16, at))
HAMMOCK_METHOD(float32(Location at), to(*this, DType::kF32, at))
HAMMOCK_METHOD(float64(Location at), to(*this, DType::kF64, at))
HAMMOCK_METHOD(int32(Location at), to(*this, DType::kI32, at))
HAMMOCK_METHOD(int64(Location at), to(*this, DType::kI64, at))
#undef HAMMOCK_METHOD
Tensor Tensor::T(Location at) const {
  Dims dims;
  for (int i = dim(); i-- > 0;) dims.push_back(i);
  return hammock::permute(*this, dims, at);
}
Tensor Tensor::mT(Location at) const {
  LocationScope scope(at);
  ops::NeedRank("mT", *this, 2);
  return hammock::transpose(*this, -2, -1, at);
}
Tensor Tensor::mH(Location at) const { return hammock::adjoint(*this, at); }
Tensor Tensor::H(Location at) const {
  LocationScope scope(at);
  if (dim() != 2) {
    Throw(ErrorCode::kShapeMismatch, "H: needs a matrix, got {}; use mH", shape().to_string());
  }
  return hammock::adjoint(*this, at);
}
Tensor Tensor::to(const Tensor& other, Location at) const {
  return to(other.device(), other.dtype(), at);
}
Tensor Tensor::cuda(int64_t ordinal, Location at) const {
  LocationScope scope(at);
  return hammock::to(*this, Device("cuda:" + std::to_string(ordinal)), at);
}
std::vector<Tensor> Tensor::split(int64_t split_size, int64_t dim, Location at) const {
  return hammock::split(*this, split_size, dim, at);
}
std::vector<Tensor> Tensor::chunk(int64_t chunks, int64_t dim, Location at) const {
  return hammock::chunk(*this, chunks, dim, at);
}
std::vector<Tensor> Tensor::unbind(int64_t dim, Location at) const {
  return hammock::unbind(*this, dim, at);
}
Tensor& Tensor::copy_(const Tensor& source, Location at) {
  return hammock::copy_(*this, source, at);
}

// ---- Records

namespace ops {

namespace {
Tensor MoveDims(const Tensor& self, const Dims& source, const Dims& destination, Location at) {
  return movedim(self, source, destination, at);
}
Tensor UnflattenDims(const Tensor& self, int64_t dim, const Dims& sizes, Location at) {
  return unflatten(self, dim, sizes, at);
}
/// `Tensor.to` in PyTorch's order of arguments; `copy` asks for new memory.
Tensor ToBoxed(const Tensor& self, std::optional<DType> dtype, std::optional<Device> device,
               bool copy, Location at) {
  LocationScope scope(at);
  Tensor result = self;
  if (device) result = to(result, *device, at);
  if (dtype) result = to(result, *dtype, at);
  return copy && result.is_same(self) ? clone(result, at) : result;
}
Tensor ToDTypeBoxed(const Tensor& self, DType dtype, bool, bool copy, Location at) {
  return ToBoxed(self, dtype, std::nullopt, copy, at);
}
Tensor ToDeviceBoxed(const Tensor& self, const Device& device, std::optional<DType> dtype, bool,
                     bool copy, Location at) {
  return ToBoxed(self, dtype, device, copy, at);
}
Tensor ToOtherBoxed(const Tensor& self, const Tensor& other, bool, bool copy, Location at) {
  return ToBoxed(self, other.dtype(), other.device(), copy, at);
}
using SqueezeAll = Tensor (*)(const Tensor&, Location);
using SqueezeDim = Tensor (*)(const Tensor&, int64_t, Location);
}  // namespace

#define HAMMOCK_VIEW(name, text, about, function) \
  constinit const OpDef name = {.schema = text, .doc = about, .call = Box<function>}
HAMMOCK_VIEW(kView, "view(Tensor(a) self, int[] size) -> Tensor(a)",
             "The same memory in other sizes.", view);
HAMMOCK_VIEW(kViewDType, "view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)",
             "The same bits under another dtype.", view_dtype);
HAMMOCK_VIEW(kViewAs, "view_as(Tensor(a) self, Tensor other) -> Tensor(a)",
             "view with the sizes of `other`.", view_as);
HAMMOCK_VIEW(kReshapeOp, "reshape.view(Tensor(a) self, int[] shape) -> Tensor(a)",
             "A view of other sizes where strides allow it, else a copy.", reshape);
HAMMOCK_VIEW(kReshapeAs, "reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)",
             "reshape with the sizes of `other`.", reshape_as);
HAMMOCK_VIEW(kFlatten, "flatten(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)",
             "Merges a range of dims.", flatten);
HAMMOCK_VIEW(kRavel, "ravel(Tensor(a) self) -> Tensor(a)", "All elements in one dim.", ravel);
HAMMOCK_VIEW(kUnflatten, "unflatten(Tensor(a) self, int dim, int[] sizes) -> Tensor(a)",
             "Cuts one dim into several.", UnflattenDims);
HAMMOCK_VIEW(kPermuteOp, "permute.view(Tensor(a) self, int[] dims) -> Tensor(a)",
             "Dims in another order.", permute);
HAMMOCK_VIEW(kTranspose, "transpose(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
             "Two dims exchanged.", transpose);
HAMMOCK_VIEW(kSwapaxes, "swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)",
             "Two dims exchanged.", swapaxes);
HAMMOCK_VIEW(kT, "t(Tensor(a) self) -> Tensor(a)",
             "The transpose of a matrix; vectors as they are.", t);
HAMMOCK_VIEW(kMovedim, "movedim(Tensor(a) self, int[1] source, int[1] destination) -> Tensor(a)",
             "Dims moved to other positions.", MoveDims);
HAMMOCK_VIEW(kSqueeze, "squeeze(Tensor(a) self) -> Tensor(a)", "Without dims of size 1.",
             static_cast<SqueezeAll>(squeeze));
HAMMOCK_VIEW(kSqueezeDim, "squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)",
             "Without one dim if its size is 1.", static_cast<SqueezeDim>(squeeze));
HAMMOCK_VIEW(kUnsqueeze, "unsqueeze(Tensor(a) self, int dim) -> Tensor(a)",
             "With a new dim of size 1.", unsqueeze);
HAMMOCK_VIEW(kExpand, "expand(Tensor(a) self, int[] size) -> Tensor(a)",
             "Dims of size 1 repeated without a copy.", expand);
HAMMOCK_VIEW(kExpandAs, "expand_as(Tensor(a) self, Tensor other) -> Tensor(a)",
             "expand to the sizes of `other`.", expand_as);
HAMMOCK_VIEW(kBroadcastTo, "broadcast_to(Tensor(a) self, int[] size) -> Tensor(a)", "expand.",
             broadcast_to);
HAMMOCK_VIEW(kBroadcastTensors, "broadcast_tensors(Tensor[] tensors) -> Tensor[]",
             "All expanded to common sizes.", broadcast_tensors);
HAMMOCK_VIEW(kSliceOp,
             "slice.view(Tensor(a) self, int dim=0, int? start=None, int? end=None, int step=1) -> "
             "Tensor(a)",
             "A range of one dim.", slice);
HAMMOCK_VIEW(kNarrow, "narrow(Tensor(a) self, int dim, int start, int length) -> Tensor(a)",
             "A range of one dim.", narrow);
HAMMOCK_VIEW(kSelectOp, "select(Tensor(a) self, int dim, int index) -> Tensor(a)",
             "One index of one dim.", select);
HAMMOCK_VIEW(kDiagonal,
             "diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)",
             "A diagonal, as the last dim.", diagonal);
HAMMOCK_VIEW(kUnfoldDim, "unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)",
             "All slices of `size` along a dim.", unfold_dim);
HAMMOCK_VIEW(kAsStridedOp,
             "as_strided.view(Tensor(a) self, int[] size, int[] stride, int? storage_offset=None) "
             "-> Tensor(a)",
             "Any strided view of the memory.", as_strided);
HAMMOCK_VIEW(kSplit, "split(Tensor(a) self, int split_size, int dim=0) -> Tensor(a)[]",
             "Parts of equal size.", split);
HAMMOCK_VIEW(kSplitSizes, "split.sizes(Tensor(a) self, int[] split_size, int dim=0) -> Tensor(a)[]",
             "Parts of given sizes.", split_with_sizes);
HAMMOCK_VIEW(kSplitWithSizes,
             "split_with_sizes(Tensor(a) self, int[] split_sizes, int dim=0) -> Tensor(a)[]",
             "Parts of given sizes.", split_with_sizes);
HAMMOCK_VIEW(kChunk, "chunk(Tensor(a) self, int chunks, int dim=0) -> Tensor(a)[]",
             "At most `chunks` parts.", chunk);
HAMMOCK_VIEW(kUnbind, "unbind(Tensor(a) self, int dim=0) -> Tensor(a)[]", "Every index of a dim.",
             unbind);
HAMMOCK_VIEW(kDetach, "detach(Tensor(a) self) -> Tensor(a)",
             "The same memory, outside of differentiation.", detach);
HAMMOCK_VIEW(kAlias, "alias(Tensor(a) self) -> Tensor(a)", "The same memory.", alias);
HAMMOCK_VIEW(kClone, "clone(Tensor self) -> Tensor", "A copy.", clone);
HAMMOCK_VIEW(kContiguous, "contiguous(Tensor(a) self) -> Tensor(a)", "Itself, or a row-major copy.",
             contiguous);
HAMMOCK_VIEW(kToDType,
             "to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False) "
             "-> Tensor(a)",
             "Cast to a dtype.", ToDTypeBoxed);
HAMMOCK_VIEW(kToDevice,
             "to.device(Tensor(a) self, Device device, ScalarType? dtype=None, bool "
             "non_blocking=False, bool copy=False) -> Tensor(a)",
             "To a device, and to a dtype if one is given.", ToDeviceBoxed);
HAMMOCK_VIEW(
    kToOther,
    "to.other(Tensor(a) self, Tensor other, bool non_blocking=False, bool copy=False) -> Tensor(a)",
    "To the dtype and device of another tensor.", ToOtherBoxed);
HAMMOCK_VIEW(kToOptions,
             "to(Tensor(a) self, *, ScalarType? dtype=None, Device? device=None, bool copy=False) "
             "-> Tensor(a)",
             "To a dtype and a device.", ToBoxed);
HAMMOCK_VIEW(kCopy_, "copy_(Tensor(a!) self, Tensor source) -> Tensor(a!)",
             "Writes the values of `source`.", copy_);
#undef HAMMOCK_VIEW

}  // namespace ops
}  // namespace hammock
