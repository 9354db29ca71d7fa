#include "hammock/host_tensor.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "base/location_scope.h"
#include "hammock/config.h"
#include "ir/borrowed.h"
#include "ir/convert_stored.h"

namespace hammock {

constinit config::Option<bool> config::kCheckBorrowed({
    .name = "check_borrowed",
    .default_value = false,
    .doc = "Raise where memory that a tensor borrowed (BorrowedMemory) is not what it was when a "
           "step or a read uses it; compares a checksum each time.",
    .old_name = "check_imports",
});
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr int64_t kAddressable = int64_t{1} << 47;  // what a process can have at all
constexpr size_t kHugePage = size_t{1} << 21;
[[maybe_unused]] constexpr size_t kSmallPage = 4096;

#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__)
/// Pages of its own, huge ones where the system has them; null where it has none at all. What was
/// freed before, of which malloc makes the next block, may lie in small pages.
void* MapPages(size_t size) {
  size_t whole = size + kHugePage;
  void* mapped = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* begin = static_cast<char*>(mapped);
  size_t before = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  if (before > 0) munmap(begin, before);
  size_t used = (size + kSmallPage - 1) / kSmallPage * kSmallPage;
  munmap(begin + before + used, whole - before - used);
  madvise(begin + before, used, MADV_HUGEPAGE);
  return begin + before;
}
constexpr bool kMapsPages = true;
#else
void* MapPages(size_t) { return nullptr; }
constexpr bool kMapsPages = false;
#endif

/// Large tensors are in huge pages: devices that share the memory of the host read it in place, and
/// small pages cost more than most kernels, when they are touched first and ever after.
std::shared_ptr<void> Allocate(int64_t bytes) {
  // At least one byte, so that a tensor without elements is defined too.
  size_t size = bytes > 0 ? static_cast<size_t>(bytes) : 1;
  bool maps = kMapsPages && size >= 2 * kHugePage;
  void* memory = bytes >= kAddressable ? nullptr
                 : maps                ? MapPages(size)
                                       : ::operator new(size, kAlignment, std::nothrow);
  if (!memory) {
    Throw<OutOfMemory>(ErrorCode::kOutOfMemory, "host tensor: cannot allocate {} bytes", bytes);
  }
  if (!maps) return {memory, [](void* p) { ::operator delete(p, kAlignment); }};
#if defined(__linux__)
  return {memory,
          [size](void* p) { munmap(p, (size + kSmallPage - 1) / kSmallPage * kSmallPage); }};
#else
  return nullptr;
#endif
}

/// Not for adversaries: it finds memory that was filled again.
uint64_t Checksum(const void* data, int64_t bytes) {
  constexpr uint64_t kPrime = 0x100000001b3;
  uint64_t sum = 0xcbf29ce484222325;
  const char* at = static_cast<const char*>(data);
  for (; bytes >= 8; bytes -= 8, at += 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    sum = (sum ^ word) * kPrime;
    sum ^= sum >> 32;
  }
  for (; bytes > 0; --bytes, ++at) sum = (sum ^ static_cast<unsigned char>(*at)) * kPrime;
  return sum;
}

/// Releases borrowed memory; shared pointers that have it know what the memory held.
struct Release {
  Callback<void()> deleter;
  std::optional<uint64_t> checksum;  // where the option check_borrowed was on

  void operator()(void*) const {
    if (deleter) deleter();
  }
};

void CheckData(const Shape& shape, const void* data) {
  if (!data && shape.numel() > 0) {
    Throw(ErrorCode::kValue, "host tensor: null data for {}", shape.to_string());
  }
}

void CheckIndex(const HostTensor& tensor, int64_t index, const Location& at) {
  if (index < 0 || !tensor.defined() || index >= tensor.numel()) {
    UserLineScope scope(at);
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
  for (int64_t i = 0; i < count; ++i) to[i] = ConvertStored<To>(ConvertStored<From>(from[i]));
}

/// Elements [first, first + 8 / bits) of a packed tensor lie in byte first * bits / 8.
struct PackedPlace {
  PackedPlace(DType dtype, int64_t index)
      : byte(index * InfoOf(dtype).bits / 8),
        shift(static_cast<int>(index * InfoOf(dtype).bits % 8)),
        mask(static_cast<uint8_t>((1 << InfoOf(dtype).bits) - 1)) {}
  int64_t byte;
  int shift;
  uint8_t mask;
};

HostTensor Unpacked(const HostTensor& packed) {
  const DType dtype = packed.dtype();
  HostTensor result(packed.shape().With(IsSigned(dtype) ? DType::kI8 : DType::kU8));
  const auto* from = static_cast<const uint8_t*>(packed.data());
  auto* to = static_cast<uint8_t*>(result.mutable_data());
  for (int64_t i = 0; i < packed.numel(); ++i) {
    const PackedPlace place(dtype, i);
    to[i] = static_cast<uint8_t>(WrapPacked(dtype, from[place.byte] >> place.shift));
  }
  return result;
}

/// Of i8 or u8.
HostTensor Packed(const HostTensor& wide, DType dtype) {
  HostTensor result(wide.shape().With(dtype));
  const auto* from = static_cast<const uint8_t*>(wide.data());
  auto* to = static_cast<uint8_t*>(result.mutable_data());
  std::memset(to, 0, static_cast<size_t>(result.bytes()));
  for (int64_t i = 0; i < wide.numel(); ++i) {
    const PackedPlace place(dtype, i);
    to[place.byte] |= static_cast<uint8_t>((from[i] & place.mask) << place.shift);
  }
  return result;
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

HostTensor HostTensor::Borrow(const Shape& shape, void* data, Callback<void()> deleter) {
  CheckSizes("host tensor", shape.sizes());
  CheckData(shape, data);
  Release release{std::move(deleter), {}};
  if (config::Get<config::kCheckBorrowed>()) release.checksum = Checksum(data, shape.bytes());
  static char nothing = 0;  // stands for the elements of an empty tensor
  return HostTensor(shape, std::shared_ptr<void>(data ? data : &nothing, std::move(release)));
}

bool IsBorrowed(const HostTensor& tensor) {
  return std::get_deleter<Release>(tensor.storage()) != nullptr;
}

bool IsWatched(const HostTensor& tensor) {
  const Release* release = std::get_deleter<Release>(tensor.storage());
  return release && release->checksum;
}

void CheckUnchanged(const HostTensor& tensor, LocationId made_at) {
  const Release* release = std::get_deleter<Release>(tensor.storage());
  if (!release || !release->checksum) return;
  if (Checksum(tensor.data(), tensor.bytes()) == *release->checksum) return;
  Throw(ErrorCode::kValue,
        "borrowed memory of {} [at {}] has changed since a tensor was made of it, and the tensor "
        "reads it when it is computed; let the tensor copy it (leave out BorrowedMemory), or keep "
        "it unchanged until it is released",
        tensor.shape().to_string(), LocationText(made_at));
}

HostTensor HostTensor::From(const Scalar& value) {
  HostTensor result(Shape(value.dtype(), {}));
  value.Store(result.mutable_data());
  return result;
}

Scalar HostTensor::at(int64_t index, Location at) const {
  CheckIndex(*this, index, at);
  if (IsPacked(dtype())) {
    const PackedPlace place(dtype(), index);
    const auto byte =
        static_cast<uint8_t>(static_cast<const uint8_t*>(data())[place.byte] >> place.shift);
    return Scalar::Load(dtype(), &byte);
  }
  return Scalar::Load(dtype(), static_cast<const char*>(data()) + BytesOf(dtype(), index));
}

void HostTensor::set(int64_t index, const Scalar& value, Location at) {
  CheckIndex(*this, index, at);
  if (IsPacked(dtype())) {
    const PackedPlace place(dtype(), index);
    uint8_t element, &byte = static_cast<uint8_t*>(mutable_data())[place.byte];
    value.To(dtype()).Store(&element);
    byte = static_cast<uint8_t>((byte & ~(place.mask << place.shift)) | element << place.shift);
    return;
  }
  value.To(dtype()).Store(static_cast<char*>(mutable_data()) + BytesOf(dtype(), index));
}

HostTensor HostTensor::To(DType target) const {
  if (!defined() || target == dtype()) return *this;
  if (IsPacked(dtype())) return Unpacked(*this).To(target);
  if (IsPacked(target)) {
    return Packed(To(IsSigned(target) ? DType::kI8 : DType::kU8), target);
  }
  HostTensor result(shape_.With(target));
  VisitStored(dtype(), [&](auto from) {
    VisitStored(target, [&](auto to) {
      CastElements<decltype(to), decltype(from)>(data(), result.mutable_data(), numel());
    });
  });
  return result;
}

bool HostTensor::SameBits(const HostTensor& other) const {
  if (!defined() || !other.defined()) return defined() == other.defined();
  return shape_ == other.shape_ && std::memcmp(data(), other.data(), bytes()) == 0;
}

void HostTensor::CheckType(DType expected, const Location& at) const {
  if (defined() && expected == dtype()) return;
  UserLineScope scope(at);
  if (!defined()) Throw(ErrorCode::kUninitializedTensor, "host tensor: it has no value");
  Throw<TypeError>(ErrorCode::kDTypeMismatch, "host tensor: read as {}, but it is {}",
                   NameOf(expected), shape_.to_string());
}

void HostTensor::CheckCount(size_t given, const Location& at) const {
  if (given == static_cast<size_t>(numel())) return;
  LocationScope scope(at);
  Throw(ErrorCode::kShapeMismatch, "host tensor: {} values given for {}", given,
        shape_.to_string());
}

}  // namespace hammock
