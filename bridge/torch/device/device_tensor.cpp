#include "device/device_tensor.h"

#include <ATen/EmptyTensor.h>
#include <hammock/autograd.h>
#include <hammock/ops/create.h>
#include <hammock/ops/view.h>

#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "engine/values.h"

namespace hammock_torch {

namespace {

c10::Device TorchDevice(c10::DeviceIndex index) { return {c10::kPrivateUse1, index}; }

const std::vector<hammock::Device>& AllDevices() {
  static const auto& devices = *[] {
    hammock::Device chosen;
    auto* found = new std::vector<hammock::Device>{chosen};
    for (const hammock::Device& device : hammock::Devices()) {
      if (device.type() == chosen.type() && !(device == chosen)) found->push_back(device);
    }
    return found;
  }();
  return devices;
}

thread_local c10::DeviceIndex current_index = 0;

// Note [Addresses]: a storage has an address, as on any device, that tells it from others. Nobody
// can read there: the memory is Hammock's, and moves with every write.
void* NewAddress() {
  constexpr size_t kBytes = size_t{1} << 36, kStep = 64;
  static char* const start = [] {
    void* reserved =
        mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return static_cast<char*>(reserved == MAP_FAILED ? nullptr : reserved);
  }();
  static std::atomic<size_t> next{0};
  size_t offset = next.fetch_add(kStep, std::memory_order_relaxed) % kBytes;
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(start) + offset + (start ? 0 : kStep));
}

c10::DataPtr Own(hammock::Tensor base, c10::DeviceIndex index) {
  auto* owned = new DeviceStorage{std::move(base)};
  return {NewAddress(), owned, [](void* storage) { delete static_cast<DeviceStorage*>(storage); },
          TorchDevice(index)};
}

struct HammockAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    hammock::Tensor base =
        hammock::empty({static_cast<int64_t>(bytes)}, hammock::DType::kU8, DeviceAt(current_index));
    return Own(std::move(base), current_index);
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void*, const void*, std::size_t) const override {
    TORCH_CHECK(false, "hammock: bytes of a storage are not copied by their address");
  }
};

int64_t BytesOf(const hammock::Tensor& value) { return value.shape().bytes(); }

}  // namespace

hammock::Dims ToDims(c10::IntArrayRef values) {
  return hammock::Dims(std::span<const int64_t>(values.data(), values.size()));
}

const hammock::Device& DeviceAt(c10::DeviceIndex index) {
  return AllDevices().at(index < 0 ? current_index : index);
}
c10::DeviceIndex DeviceCount() noexcept {
  try {
    return static_cast<c10::DeviceIndex>(AllDevices().size());
  } catch (...) {
    return 0;  // the first op says why
  }
}
c10::DeviceIndex CurrentIndex() { return current_index; }
void SetCurrentIndex(c10::DeviceIndex index) { current_index = index; }

c10::Allocator* DeviceAllocator() {
  static HammockAllocator allocator;
  return &allocator;
}

c10::Storage MakeStorage(const hammock::Tensor& base, c10::DeviceIndex index) {
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), BytesOf(base), Own(base, index), DeviceAllocator(),
      /*resizable=*/true));
}

at::Tensor Wrap(hammock::Tensor value, c10::DeviceIndex index) {
  c10::ScalarType dtype = FromDType(value.dtype());
  c10::Storage storage = MakeStorage(value, index);
  return at::detail::make_tensor<DeviceTensor>(std::move(storage), std::move(value), dtype);
}

at::Tensor WrapView(hammock::Tensor value, const at::Tensor& base) {
  c10::ScalarType dtype = FromDType(value.dtype());
  return at::detail::make_tensor<DeviceTensor>(base.storage(), std::move(value), dtype);
}

DeviceTensor::DeviceTensor(c10::Storage storage, hammock::Tensor value, c10::ScalarType dtype)
    : TensorImpl(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                 c10::scalarTypeToTypeMeta(dtype)),
      value_(std::move(value)) {
  DeviceStorage::Of(storage_).tensors.fetch_add(1, std::memory_order_relaxed);
  CopyGeometry();
}

DeviceTensor::~DeviceTensor() {
  if (storage_) DeviceStorage::Of(storage_).tensors.fetch_sub(1, std::memory_order_relaxed);
}

void DeviceTensor::CopyGeometry() {
  hammock::Dims sizes = value_.sizes();
  if (value_.is_contiguous()) {
    set_sizes_contiguous(FromDims(sizes));
    storage_offset_ = value_.storage_offset();
    return;
  }
  hammock::Dims strides = value_.strides();
  set_sizes_and_strides(FromDims(sizes), FromDims(strides), value_.storage_offset());
}

void DeviceTensor::Become(hammock::Tensor value) {
  value_ = std::move(value);
  data_type_ = c10::scalarTypeToTypeMeta(FromDType(value_.dtype()));
  CopyGeometry();
}

void DeviceTensor::UseStorage(c10::Storage storage, hammock::Tensor value) {
  if (storage_) DeviceStorage::Of(storage_).tensors.fetch_sub(1, std::memory_order_relaxed);
  storage_ = std::move(storage);
  DeviceStorage::Of(storage_).tensors.fetch_add(1, std::memory_order_relaxed);
  Become(std::move(value));
}

void DeviceTensor::Replace(hammock::Tensor value) {
  c10::Storage storage = MakeStorage(value, device().index());
  UseStorage(std::move(storage), std::move(value));
}

template <class Version>
c10::intrusive_ptr<c10::TensorImpl> DeviceTensor::Copied(Version&& version,
                                                         bool allow_change) const {
  auto copy =
      c10::make_intrusive<DeviceTensor>(storage_, value_, c10::typeMetaToScalarType(data_type_));
  copy_tensor_metadata(this, copy.get(), std::forward<Version>(version), allow_change);
  return copy;
}

c10::intrusive_ptr<c10::TensorImpl> DeviceTensor::shallow_copy_and_detach(
    const c10::VariableVersion& version_counter, bool allow_tensor_metadata_change) const {
  return Copied(version_counter, allow_tensor_metadata_change);
}
c10::intrusive_ptr<c10::TensorImpl> DeviceTensor::shallow_copy_and_detach(
    c10::VariableVersion&& version_counter, bool allow_tensor_metadata_change) const {
  return Copied(std::move(version_counter), allow_tensor_metadata_change);
}
void DeviceTensor::shallow_copy_from(const c10::intrusive_ptr<c10::TensorImpl>& impl) {
  TORCH_CHECK(impl->device_type() == c10::kPrivateUse1,
              "hammock: a tensor of the device takes no data of another one");
  const auto* other = static_cast<const DeviceTensor*>(impl.get());
  UseStorage(other->storage_, other->value_);
  copy_tensor_metadata(other, this, version_counter(), allow_tensor_metadata_change());
}

namespace {

/// Bytes have no type before a tensor uses them: the first one decides which elements the base has,
/// so that no view between dtypes stands between it and its memory.
void GiveType(DeviceStorage& storage, hammock::DType dtype) {
  if (storage.base.dtype() == dtype || storage.tensors.load() > 0) return;
  int64_t width = hammock::Shape(dtype, {1}).bytes();
  if (BytesOf(storage.base) % width != 0 || BytesOf(storage.base) == 0) return;
  hammock::Tensor flat = hammock::as_strided(storage.base, {storage.base.numel()}, {1}, 0);
  storage.base = hammock::clone(hammock::view_dtype(flat, dtype));
}

}  // namespace

hammock::Tensor ViewOfStorage(const c10::Storage& storage, c10::ScalarType dtype,
                              c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset) {
  hammock::NoGradGuard no_grad;
  DeviceStorage& owned = DeviceStorage::Of(storage);
  hammock::DType wanted = ToDType(dtype);
  GiveType(owned, wanted);
  hammock::Tensor base = owned.base;
  int64_t last = offset;
  int64_t count = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    last += (sizes[i] - 1) * strides[i];
    count *= sizes[i];
  }
  if (count == 0)
    return hammock::empty_strided(ToDims(sizes), ToDims(strides), wanted, base.device());
  int64_t width = hammock::Shape(wanted, {1}).bytes();
  TORCH_CHECK((last + 1) * width <= BytesOf(base), "hammock: elements up to ", last,
              " are out of bounds for a storage of ", BytesOf(base), " bytes");
  if (base.dtype() != wanted) {
    if (!base.is_contiguous()) base = hammock::as_strided(base, {base.numel()}, {1}, 0);
    base = hammock::view_dtype(hammock::view(base, {base.numel()}), wanted);
    TORCH_CHECK(offset == 0 && count == base.numel(),
                "hammock: a part of a storage cannot be viewed as another dtype");
    return hammock::view(base, ToDims(sizes));
  }
  if (base.sizes() == ToDims(sizes) && base.strides() == ToDims(strides) && offset == 0)
    return base;
  if (offset == 0 && count == base.numel() && base.is_contiguous()) {
    hammock::Tensor view = hammock::view(base, ToDims(sizes));
    if (view.strides() == ToDims(strides)) return view;
  }
  return hammock::as_strided(base, ToDims(sizes), ToDims(strides), offset);
}

void ResizeStorage(const c10::Storage& storage, size_t bytes) {
  hammock::NoGradGuard no_grad;
  DeviceStorage& owned = DeviceStorage::Of(storage);
  int64_t before = BytesOf(owned.base);
  auto wanted = static_cast<int64_t>(bytes);
  if (wanted == before) return;
  // Tensors that live now would go on with the old base.
  TORCH_CHECK(owned.tensors.load() <= 1, "hammock: a storage that ", owned.tensors.load(),
              " tensors use is not resized");
  int64_t width = hammock::Shape(owned.base.dtype(), {1}).bytes();
  hammock::DType dtype = wanted % width == 0 ? owned.base.dtype() : hammock::DType::kU8;
  hammock::Tensor flat = hammock::as_strided(owned.base, {owned.base.numel()}, {1}, 0);
  if (dtype != owned.base.dtype()) {
    flat = hammock::view_dtype(flat, dtype);
    width = 1;
  }
  hammock::Tensor grown = hammock::zeros({wanted / width}, dtype, owned.base.device());
  int64_t kept = std::min(flat.numel(), wanted / width);
  if (kept > 0) {
    hammock::Tensor part = hammock::narrow(grown, 0, 0, kept);
    hammock::copy_(part, hammock::narrow(flat, 0, 0, kept));
  }
  owned.base = grown;
  storage.unsafeGetStorageImpl()->set_nbytes(wanted);
}

}  // namespace hammock_torch
