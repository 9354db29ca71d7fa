#pragma once
/// Helpers for calls of all families, and the lists of calls by family.

#include <fmt/format.h>

#include <memory>
#include <span>
#include <utility>

#include "backends/common/call_axis.h"
#include "backends/cpu/calls/calls.h"
#include "backends/cpu/host/spread.h"
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

/// The representation of T in memory. Bytes of a bool other than 0 and 1 may come from outside;
/// they read as true.
template <class T>
using Stored = std::conditional_t<std::same_as<T, bool>, uint8_t, T>;

template <class Wide, class T>
inline Wide ReadAs(const Stored<T>* at) {
  return Convert<Wide>(Convert<T>(*at));
}

}  // namespace hammock::cpu
