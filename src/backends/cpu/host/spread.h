#pragma once
/// Loops over elements: in parts for several threads, and by the size of an element.

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "backends/cpu/host/thread_pool.h"
#include "base/throw.h"
#include "hammock/ir/dtype.h"

namespace hammock::cpu {

inline int64_t ElementBytes(DType dtype) { return InfoOf(dtype).bits / 8; }

/// Calls `f(begin, end)` for parts of [0, count), on several threads if there is enough work;
/// `work` is about the bytes that one item moves, or an equivalent time.
template <class F>
void Spread(int64_t count, int64_t work, F f) {
  constexpr int64_t kSerial = 1 << 17;
  constexpr int64_t kPart = 1 << 15;
  work = std::max<int64_t>(work, 1);
  if (count <= 1 || count < kSerial / work) {
    if (count > 0) f(int64_t{0}, count);
    return;
  }
  ThreadPool::Get().ParallelFor(count, std::max<int64_t>(kPart / work, 1),
                                [&](int64_t begin, int64_t end, int) { f(begin, end); });
}

/// Calls `f(std::integral_constant<int, bytes>())` for elements of 1, 2, 4 or 8 bytes.
template <class F>
decltype(auto) VisitBytes(int64_t bytes, F&& f) {
  switch (bytes) {
    case 1:
      return f(std::integral_constant<int, 1>());
    case 2:
      return f(std::integral_constant<int, 2>());
    case 4:
      return f(std::integral_constant<int, 4>());
    default:
      HAMMOCK_CHECK(bytes == 8, "elements of {} bytes", bytes);
      return f(std::integral_constant<int, 8>());
  }
}

template <int kBytes>
struct WordOf;
template <>
struct WordOf<1> {
  using Type = uint8_t;
};
template <>
struct WordOf<2> {
  using Type = uint16_t;
};
template <>
struct WordOf<4> {
  using Type = uint32_t;
};
template <>
struct WordOf<8> {
  using Type = uint64_t;
};
/// The unsigned integer of so many bytes.
template <int kBytes>
using Word = typename WordOf<kBytes>::Type;

}  // namespace hammock::cpu
