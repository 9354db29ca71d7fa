#pragma once
/// Tensors of device "hammock" (PyTorch's PrivateUse1). See docs/design/torch_device.md.
///
/// A DeviceTensor is PyTorch's TensorImpl with a hammock::Tensor inside: PyTorch keeps sizes,
/// strides, version counters and history, Hammock the value. The storage owns one Hammock tensor,
/// its base; views share the storage, and their Hammock tensors are views of that base.

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>
#include <hammock/device.h>
#include <hammock/tensor.h>

#include <atomic>

namespace hammock_torch {

/// The owner of a storage's memory on the device, which is Hammock's: see Note [Addresses].
struct DeviceStorage {
  hammock::Tensor base;
  std::atomic<int> tensors{0};  ///< that use it

  static DeviceStorage& Of(const c10::Storage& storage) {
    return *static_cast<DeviceStorage*>(storage.data_ptr().get_context());
  }
};

class DeviceTensor final : public c10::TensorImpl {
 public:
  /// Of a storage that owns `value` or its base.
  DeviceTensor(c10::Storage storage, hammock::Tensor value, c10::ScalarType dtype);
  ~DeviceTensor() override;

  static DeviceTensor* Of(const at::Tensor& tensor) {
    return static_cast<DeviceTensor*>(tensor.unsafeGetTensorImpl());
  }
  static bool Is(const at::Tensor& tensor) { return tensor.device().type() == c10::kPrivateUse1; }

  const hammock::Tensor& value() const { return value_; }
  /// Another view of the same storage, for `t_` and its like.
  void Become(hammock::Tensor value);
  /// Another tensor altogether, with a storage of its own, for `out=` of another size.
  void Replace(hammock::Tensor value);
  void UseStorage(c10::Storage storage, hammock::Tensor value);

  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(
      const c10::VariableVersion& version_counter,
      bool allow_tensor_metadata_change) const override;
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(
      c10::VariableVersion&& version_counter, bool allow_tensor_metadata_change) const override;
  void shallow_copy_from(const c10::intrusive_ptr<c10::TensorImpl>& impl) override;

 private:
  void CopyGeometry();  ///< from the Hammock tensor
  template <class Version>
  c10::intrusive_ptr<c10::TensorImpl> Copied(Version&& version, bool allow_change) const;

  hammock::Tensor value_;
};

/// The device of Hammock behind "hammock:index": those of the kind that HAMMOCK_DEVICE names.
const hammock::Device& DeviceAt(c10::DeviceIndex index);
c10::DeviceIndex DeviceCount() noexcept;
c10::DeviceIndex CurrentIndex();
void SetCurrentIndex(c10::DeviceIndex index);

c10::Allocator* DeviceAllocator();
c10::Storage MakeStorage(const hammock::Tensor& base, c10::DeviceIndex index);

/// A tensor with a storage of its own.
at::Tensor Wrap(hammock::Tensor value, c10::DeviceIndex index);
/// A tensor of the storage of `base`.
at::Tensor WrapView(hammock::Tensor value, const at::Tensor& base);

/// A view of a storage by sizes and strides in elements of `dtype`.
hammock::Tensor ViewOfStorage(const c10::Storage& storage, c10::ScalarType dtype,
                              c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset);
/// Gives the base another number of bytes; the first ones stay.
void ResizeStorage(const c10::Storage& storage, size_t bytes);

hammock::Dims ToDims(c10::IntArrayRef values);
inline c10::IntArrayRef FromDims(const hammock::Dims& dims) { return {dims.begin(), dims.end()}; }

}  // namespace hammock_torch
