#pragma once
/// Helpers for calls of all families, and the lists of calls by family.

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "backends/common/call_axis.h"
#include "backends/cpu/calls/calls.h"
#include "backends/cpu/thread_pool.h"
#include "base/throw.h"
#include "ir/convert.h"

namespace hammock::cpu {

/// Null if the call has no fast implementation; the reference kernel runs the node then.
using CallMaker = std::unique_ptr<Call> (*)(const Graph& graph, const GraphNode& node);

struct CallEntry {
  const OpDef* op;
  CallMaker make;
};

std::span<const CallEntry> AttentionCalls();
std::span<const CallEntry> CollectiveCalls();
std::span<const CallEntry> CopyCalls();
std::span<const CallEntry> FftCalls();
std::span<const CallEntry> IndexCalls();
std::span<const CallEntry> OrderCalls();
std::span<const CallEntry> PoolCalls();
std::span<const CallEntry> ReduceCalls();
std::span<const CallEntry> ControlCalls();
std::span<const CallEntry> ElementCalls();
std::span<const CallEntry> WeightBackwardCalls();

/// Whether the family runs this composite without its expansion.
bool RunsWholeAttention(const Graph& graph, const GraphNode& node);
bool RunsWholePool(const Graph& graph, const GraphNode& node);
bool RunsWholeWeightBackward(const Graph& graph, const GraphNode& node);

template <class T>
std::unique_ptr<Call> MakeNode(const Graph& graph, const GraphNode& node) {
  return std::make_unique<T>(graph, node);
}

/// Throws ValueError with the op's name before the message, as the reference kernels do.
template <class... Args>
[[noreturn, gnu::cold, gnu::noinline]] void FailNode(const GraphNode& node, ErrorCode code,
                                                     fmt::format_string<Args...> format,
                                                     Args&&... args) {
  throw ValueError(code, fmt::format("{}: {}", node.op->name(),
                                     fmt::format(format, std::forward<Args>(args)...)));
}

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

/// The representation of T in memory. Bytes of a bool other than 0 and 1 may come from outside;
/// they read as true.
template <class T>
using Stored = std::conditional_t<std::same_as<T, bool>, uint8_t, T>;

template <class Wide, class T>
inline Wide ReadAs(const Stored<T>* at) {
  return Convert<Wide>(Convert<T>(*at));
}

}  // namespace hammock::cpu
