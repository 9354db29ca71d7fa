#include "hammock/host_tensor.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <cstring>
#include <new>
#include <utility>

#include "ir/convert.h"

namespace hammock {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr int64_t kAddressable = int64_t{1} << 47;  // what a process can have at all
constexpr size_t kHugePage = size_t{1} << 21;

/// Large tensors ask for huge pages: devices that share the memory of the host read it in place,
/// and small pages cost more than most kernels, when they are touched first and ever after.
std::shared_ptr<void> Allocate(int64_t bytes) {
  // At least one byte, so that a tensor without elements is defined too.
  size_t size = bytes > 0 ? static_cast<size_t>(bytes) : 1;
  std::align_val_t alignment = size >= 2 * kHugePage ? std::align_val_t{kHugePage} : kAlignment;
  void* memory = bytes < kAddressable ? ::operator new(size, alignment, std::nothrow) : nullptr;
  if (!memory) {
    Throw<OutOfMemory>(ErrorCode::kOutOfMemory, "host tensor: cannot allocate {} bytes", bytes);
  }
#if defined(__linux__)
  if (size >= 2 * kHugePage) madvise(memory, size / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
  return {memory, [alignment](void* p) { ::operator delete(p, alignment); }};
}

void CheckData(const Shape& shape, const void* data) {
  if (!data && shape.numel() > 0) {
    Throw(ErrorCode::kValue, "host tensor: null data for {}", shape.to_string());
  }
}

void CheckIndex(const HostTensor& tensor, int64_t index) {
  if (index < 0 || !tensor.defined() || index >= tensor.numel()) {
    Throw(ErrorCode::kIndexOutOfRange, "host tensor: index {} is out of range for {}", index,
          tensor.defined() ? tensor.shape().to_string() : "an undefined tensor");
  }
}

template <class To, class From>
void CastElements(const void* in, void* out, int64_t count) {
  // Bytes of a bool other than 0 and 1 may come from outside; they read as true.
  using Stored = std::conditional_t<std::same_as<From, bool>, uint8_t, From>;
  const Stored* from = static_cast<const Stored*>(in);
  To* to = static_cast<To*>(out);
  for (int64_t i = 0; i < count; ++i) to[i] = Convert<To>(Convert<From>(from[i]));
}

}  // namespace

HostTensor::HostTensor(const Shape& shape) : shape_(shape) {
  CheckSizes("host tensor", shape.sizes());
  bytes_ = Allocate(shape.bytes());
}

HostTensor HostTensor::Copy(const Shape& shape, const void* data) {
  HostTensor result(shape);
  CheckData(shape, data);
  if (shape.numel() > 0) std::memcpy(result.mutable_data(), data, shape.bytes());
  return result;
}

HostTensor HostTensor::Borrow(const Shape& shape, void* data, std::function<void()> deleter) {
  CheckSizes("host tensor", shape.sizes());
  CheckData(shape, data);
  auto release = [deleter = std::move(deleter)](void*) {
    if (deleter) deleter();
  };
  static char nothing = 0;  // stands for the elements of an empty tensor
  return HostTensor(shape, std::shared_ptr<void>(data ? data : &nothing, std::move(release)));
}

HostTensor HostTensor::From(const Scalar& value) {
  HostTensor result(Shape(value.dtype(), {}));
  value.Store(result.mutable_data());
  return result;
}

Scalar HostTensor::at(int64_t index) const {
  CheckIndex(*this, index);
  return Scalar::Load(dtype(), static_cast<const char*>(data()) + BytesOf(dtype(), index));
}

void HostTensor::set(int64_t index, const Scalar& value) {
  CheckIndex(*this, index);
  value.To(dtype()).Store(static_cast<char*>(mutable_data()) + BytesOf(dtype(), index));
}

HostTensor HostTensor::To(DType target) const {
  if (!defined() || target == dtype()) return *this;
  HostTensor result(shape_.With(target));
  VisitDType(dtype(), [&](auto from) {
    VisitDType(target, [&](auto to) {
      CastElements<decltype(to), decltype(from)>(data(), result.mutable_data(), numel());
    });
  });
  return result;
}

bool HostTensor::SameBits(const HostTensor& other) const {
  if (!defined() || !other.defined()) return defined() == other.defined();
  return shape_ == other.shape_ && std::memcmp(data(), other.data(), bytes()) == 0;
}

void HostTensor::CheckType(DType expected) const {
  if (!defined()) Throw(ErrorCode::kUninitializedTensor, "host tensor: it has no value");
  if (expected != dtype()) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "host tensor: read as {}, but it is {}",
                     NameOf(expected), shape_.to_string());
  }
}

}  // namespace hammock
