#include "backends/reference/elements.h"

#include <cstring>
#include <type_traits>

#include "ir/convert.h"

namespace hammock::reference {

template <class Wide>
void Load(const HostTensor& tensor, int64_t first, int64_t count, Wide* out) {
  VisitElement(tensor.dtype(), [&](auto zero) {
    using T = decltype(zero);
    // Bytes of a bool other than 0 and 1 may come from outside; they read as true.
    using Stored = std::conditional_t<std::same_as<T, bool>, uint8_t, T>;
    const Stored* in = static_cast<const Stored*>(tensor.data()) + first;
    for (int64_t i = 0; i < count; ++i) out[i] = Convert<Wide>(Convert<T>(in[i]));
  });
}

template <class Wide>
void Store(const Wide* in, int64_t count, HostTensor& tensor, int64_t first) {
  VisitElement(tensor.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* out = static_cast<T*>(tensor.mutable_data()) + first;
    for (int64_t i = 0; i < count; ++i) out[i] = Convert<T>(in[i]);
  });
}

template void Load(const HostTensor&, int64_t, int64_t, double*);
template void Load(const HostTensor&, int64_t, int64_t, int64_t*);
template void Load(const HostTensor&, int64_t, int64_t, uint64_t*);
template void Load(const HostTensor&, int64_t, int64_t, std::complex<double>*);
template void Store(const std::complex<double>*, int64_t, HostTensor&, int64_t);
template void Store(const double*, int64_t, HostTensor&, int64_t);
template void Store(const int64_t*, int64_t, HostTensor&, int64_t);
template void Store(const uint64_t*, int64_t, HostTensor&, int64_t);

namespace {

/// Pointers are to bytes and strides count elements of `kBytes`.
template <int kBytes>
void CopyElements(const Dims& sizes, const char* from, const Dims& from_strides, char* to,
                  const Dims& to_strides) {
  int inner = sizes.size() - 1;
  if (inner < 0) {
    std::memcpy(to, from, kBytes);
    return;
  }
  int64_t index[kMaxRank] = {};
  while (true) {
    for (int64_t i = 0; i < sizes[inner]; ++i) {
      std::memcpy(to + i * to_strides[inner] * kBytes, from + i * from_strides[inner] * kBytes,
                  kBytes);
    }
    int d = inner - 1;
    for (; d >= 0; --d) {
      from += from_strides[d] * kBytes;
      to += to_strides[d] * kBytes;
      if (++index[d] < sizes[d]) break;
      from -= from_strides[d] * sizes[d] * kBytes;
      to -= to_strides[d] * sizes[d] * kBytes;
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

}  // namespace

void CopyStrided(const Dims& sizes, const HostTensor& from, const Strided& from_layout,
                 HostTensor& to, const Strided& to_layout) {
  for (int64_t size : sizes) {
    if (size == 0) return;
  }
  int bytes = InfoOf(from.dtype()).bits / 8;
  const char* source = static_cast<const char*>(from.data()) + from_layout.offset * bytes;
  char* target = static_cast<char*>(to.mutable_data()) + to_layout.offset * bytes;
  auto copy = [&]<int kBytes>(std::integral_constant<int, kBytes>) {
    CopyElements<kBytes>(sizes, source, from_layout.strides, target, to_layout.strides);
  };
  switch (bytes) {
    case 1:
      return copy(std::integral_constant<int, 1>());
    case 2:
      return copy(std::integral_constant<int, 2>());
    case 4:
      return copy(std::integral_constant<int, 4>());
    case 8:
      return copy(std::integral_constant<int, 8>());
    case 16:
      return copy(std::integral_constant<int, 16>());
    default:
      Throw<NotSupported>(ErrorCode::kNotSupported, "dtype {} is reserved", NameOf(from.dtype()));
  }
}

Strided Contiguous(const Dims& sizes) { return {0, ContiguousStrides(sizes)}; }

Strided BroadcastLayout(const Dims& sizes, const Dims& target) {
  Dims strides = ContiguousStrides(sizes);
  Strided layout = {0, Dims::Filled(target.size(), 0)};
  int added = target.size() - sizes.size();
  for (int d = 0; d < sizes.size(); ++d) {
    if (sizes[d] != 1) layout.strides[d + added] = strides[d];
  }
  return layout;
}

Axis::Axis(const Dims& sizes, int dim) {
  for (int d = 0; d < sizes.size(); ++d) {
    (d < dim ? outer : d == dim ? extent : inner) *= sizes[d];
  }
}

}  // namespace hammock::reference
