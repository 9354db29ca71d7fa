// Kernels of device "hammock" that no table has: memory, copies between devices, reads.

#include "device/native_kernels.h"

#include <ATen/ATen.h>
#include <hammock/autograd.h>
#include <hammock/executor.h>
#include <hammock/ops/create.h>
#include <hammock/ops/view.h>
#include <torch/library.h>

#include "device/device_tensor.h"
#include "device/record_op.h"
#include "engine/adaptor.h"
#include "engine/values.h"

namespace hammock_torch {

namespace {

using hammock::Any;
using Call = const AtenCall&;

// ---- Memory

c10::DeviceIndex IndexOf(const std::optional<c10::Device>& device) {
  return device && device->has_index() ? device->index() : CurrentIndex();
}

at::Tensor EmptyStrided(c10::IntArrayRef size, c10::IntArrayRef stride,
                        std::optional<c10::ScalarType> dtype, std::optional<c10::Layout> layout,
                        std::optional<c10::Device> device, std::optional<bool> pin_memory) {
  TORCH_CHECK(!layout || *layout == c10::kStrided, "hammock: only dense tensors");
  TORCH_CHECK(!pin_memory || !*pin_memory, "hammock: only tensors of the CPU are pinned");
  hammock::LocationScope line(Caller());
  c10::DeviceIndex index = IndexOf(device);
  hammock::DType type = ToDType(dtype.value_or(c10::get_default_dtype_as_scalartype()));
  return Wrap(hammock::empty_strided(ToDims(size), ToDims(stride), type, DeviceAt(index)), index);
}

at::Tensor Empty(c10::IntArrayRef size, std::optional<c10::ScalarType> dtype,
                 std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                 std::optional<bool> pin_memory, std::optional<c10::MemoryFormat> format) {
  std::vector<int64_t> strides;
  if (format == c10::MemoryFormat::ChannelsLast) {
    strides = c10::get_channels_last_strides_2d(size);
  } else if (format == c10::MemoryFormat::ChannelsLast3d) {
    strides = c10::get_channels_last_strides_3d(size);
  } else {
    TORCH_CHECK(!layout || *layout == c10::kStrided, "hammock: only dense tensors");
    hammock::LocationScope line(Caller());
    c10::DeviceIndex index = IndexOf(device);
    hammock::DType type = ToDType(dtype.value_or(c10::get_default_dtype_as_scalartype()));
    return Wrap(hammock::empty(ToDims(size), type, DeviceAt(index)), index);
  }
  return EmptyStrided(size, strides, dtype, layout, device, pin_memory);
}

std::vector<int64_t> RowMajor(c10::IntArrayRef size) {
  std::vector<int64_t> strides(size.size(), 1);
  for (size_t i = size.size(); i-- > 1;)
    strides[i - 1] = strides[i] * std::max<int64_t>(size[i], 1);
  return strides;
}

int64_t CountOf(c10::IntArrayRef size) {
  int64_t count = 1;
  for (int64_t extent : size) count *= extent;
  return count;
}

at::Tensor& SetStorageView(at::Tensor& self, at::Storage source, int64_t offset,
                           c10::IntArrayRef size, c10::IntArrayRef stride) {
  hammock::LocationScope line(Caller());
  std::vector<int64_t> strides = stride.empty() ? RowMajor(size) : stride.vec();
  auto needed = static_cast<size_t>((offset + CountOf(size)) * self.element_size());
  if (CountOf(size) > 0 && needed > source.nbytes() && stride.empty())
    ResizeStorage(source, needed);
  hammock::Tensor view = ViewOfStorage(source, self.scalar_type(), size, strides, offset);
  DeviceTensor* impl = DeviceTensor::Of(self);
  impl->UseStorage(source, view);
  impl->set_sizes_and_strides(size, strides, offset);
  return self;
}
at::Tensor& SetStorage(at::Tensor& self, at::Storage source) {
  int64_t count = static_cast<int64_t>(source.nbytes() / self.element_size());
  return SetStorageView(self, source, 0, {count}, {});
}
at::Tensor& SetTensor(at::Tensor& self, const at::Tensor& source) {
  DeviceTensor* from = DeviceTensor::Of(source);
  DeviceTensor::Of(self)->UseStorage(source.storage(), from->value());
  return self;
}
at::Tensor& SetNothing(at::Tensor& self) {
  DeviceTensor* impl = DeviceTensor::Of(self);
  impl->Replace(hammock::empty({0}, impl->value().dtype(), impl->value().device()));
  return self;
}

const at::Tensor& Resize(const at::Tensor& self, c10::IntArrayRef size,
                         std::optional<c10::MemoryFormat> format) {
  if (self.sizes() == size) return self;
  hammock::LocationScope line(Caller());
  std::vector<int64_t> strides = RowMajor(size);
  if (format == c10::MemoryFormat::ChannelsLast) strides = c10::get_channels_last_strides_2d(size);
  auto needed = static_cast<size_t>((self.storage_offset() + CountOf(size)) * self.element_size());
  if (needed > self.storage().nbytes()) ResizeStorage(self.storage(), needed);
  hammock::Tensor view =
      ViewOfStorage(self.storage(), self.scalar_type(), size, strides, self.storage_offset());
  DeviceTensor::Of(self)->Become(view);
  return self;
}

// ---- Copies

/// Values of a tensor of any device on the device of `like`. Memory of the CPU is copied at once:
/// its owner may write to it as soon as this returns.
hammock::Tensor ValuesFor(const at::Tensor& source, const DeviceTensor* like) {
  if (!DeviceTensor::Is(source)) {
    return ImportTensor(source.detach().cpu().clone(at::MemoryFormat::Contiguous),
                        like->value().device());
  }
  const hammock::Tensor& value = DeviceTensor::Of(source)->value();
  if (source.device() == like->device()) return value;
  return hammock::to(value, like->value().device());
}

at::Tensor& Copy(at::Tensor& self, const at::Tensor& source, bool /*non_blocking*/) {
  hammock::LocationScope line(Caller());
  hammock::NoGradGuard no_grad;
  if (!DeviceTensor::Is(self)) {
    at::NoGradGuard no_history;
    return self.copy_(ShareTensor(DeviceTensor::Of(source)->value()));
  }
  DeviceTensor* target = DeviceTensor::Of(self);
  hammock::Tensor value = target->value();
  hammock::copy_(value, ValuesFor(source, target));
  return self;
}
at::Tensor CopyFrom(const at::Tensor& source, const at::Tensor& target, bool non_blocking) {
  at::Tensor self = target;
  return Copy(self, source, non_blocking);
}
at::Tensor CopyFromAndResize(const at::Tensor& source, const at::Tensor& target) {
  at::Tensor self = target;
  if (self.sizes() != source.sizes()) self.resize_(source.sizes());
  return Copy(self, source, false);
}

// PyTorch's are views that say in a bit what is left to do; values here have it done.
at::Tensor Conjugate(const at::Tensor& self) { return at::conj_physical(self); }
at::Tensor Negative(const at::Tensor& self) { return at::neg(self); }

at::Scalar Item(const at::Tensor& self) {
  hammock::LocationScope line(Caller());
  hammock::Scalar value = DeviceTensor::Of(self)->value().item();
  if (value.IsComplex()) return c10::complex<double>(value.ToDouble(), value.imag());
  if (value.IsBool()) return value.As<bool>("item");
  if (value.IsInt()) return value.As<int64_t>("item");
  return value.ToDouble();
}

// ---- Views that must be views here, while the table of graphs only wants the values

Any View(Call c) { return hammock::view(c.tensor(0), c.ints(1)); }
Any Alias(Call c) { return c[0]; }
Any AsStrided(Call c) {
  std::optional<int64_t> offset;
  if (!c.none(3)) offset = c.integer(3);
  return hammock::as_strided(c.tensor(0), c.ints(1), c.ints(2), offset);
}
Any Clone(Call c) { return hammock::clone(c.tensor(0)); }

constexpr AdaptorEntry kViews[] = {
    {"aten::view", View},           {"aten::_unsafe_view", View},
    {"aten::_reshape_alias", View}, {"aten::as_strided", AsStrided},
    {"aten::clone", Clone},         {"aten::alias", Alias},
    {"aten::detach", Alias},        {"aten::lift", Alias},
    {"aten::lift_fresh", Alias},
};

/// Written above, or right as PyTorch composes them of what is.
constexpr std::string_view kNotFromTable[] = {
    "aten::empty",
    "aten::empty_strided",
    "aten::empty_like",
    "aten::empty_permuted",
    "aten::new_empty",
    "aten::new_empty_strided",
    "aten::copy_",
    "aten::_copy_from",
    "aten::_copy_from_and_resize",
    "aten::set_",
    "aten::resize_",
    "aten::_local_scalar_dense",
    "aten::_to_copy",
    "aten::copy",
    "aten::lift_fresh_copy",
    "aten::size",
    "aten::resize_as_",
    "aten::resize",
    "aten::set",
    "aten::item",
    "aten::equal",
    "aten::_conj",
    "aten::_neg_view",
    "aten::dim",
};

}  // namespace

Adaptor DeviceAdaptor(const std::string& name) {
  for (const AdaptorEntry& entry : kViews) {
    if (name == entry.name) return entry.call;
  }
  return nullptr;
}

bool IsFromTable(const std::string& name) {
  return std::find(std::begin(kNotFromTable), std::end(kNotFromTable), name) ==
         std::end(kNotFromTable);
}

void RegisterNativeKernels(torch::Library& m) {
  m.impl("empty.memory_format", TORCH_FN(Empty));
  m.impl("empty_strided", TORCH_FN(EmptyStrided));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(SetStorageView));
  m.impl("set_.source_Storage", TORCH_FN(SetStorage));
  m.impl("set_.source_Tensor", TORCH_FN(SetTensor));
  m.impl("set_", TORCH_FN(SetNothing));
  m.impl("resize_", TORCH_FN(Resize));
  m.impl("copy_", TORCH_FN(Copy));
  m.impl("_copy_from", TORCH_FN(CopyFrom));
  m.impl("_copy_from_and_resize", TORCH_FN(CopyFromAndResize));
  m.impl("_conj", TORCH_FN(Conjugate));
  m.impl("_neg_view", TORCH_FN(Negative));
  m.impl("_local_scalar_dense", TORCH_FN(Item));
}

}  // namespace hammock_torch
