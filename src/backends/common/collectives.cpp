#include "backends/common/collectives.h"

#include <cstring>

#include "base/throw.h"
#include "distributed/exchange.h"
#include "distributed/running_step.h"
#include "ops/primitives/collectives.h"

namespace hammock {
namespace {

using distributed::CollectiveCall;

constexpr const OpDef* kCollectives[] = {&ops::kAllReduce,     &ops::kAllGather,
                                         &ops::kReduceScatter, &ops::kCollectiveBroadcast,
                                         &ops::kAllToAll,      &ops::kCollectivePermute};

/// "all_reduce [at train.cpp:7]"
std::string Describe(const GraphNode& node) {
  const std::string where = WhereText(node.location);
  return where.empty() ? node.op->name() : fmt::format("{} [at {}]", node.op->name(), where);
}

/// The rank that this one sends to, or receives from; -1: none.
int PartnerOf(const Dims& pairs, int rank, bool sends) {
  for (int i = 0; i + 1 < pairs.size(); i += 2) {
    if (pairs[i + (sends ? 0 : 1)] == rank) return static_cast<int>(pairs[i + (sends ? 1 : 0)]);
  }
  return -1;
}

void RunPermute(const CollectiveCall& call, const GraphNode& node, const void* in, void* out,
                size_t bytes) {
  const Dims& pairs = node.attrs[0].ints();
  const int rank = call.group->rank;
  const int to = PartnerOf(pairs, rank, true), from = PartnerOf(pairs, rank, false);
  const uint32_t tag = call.round->NextTag();  // on all ranks, also those that take no part
  if (from < 0) std::memset(out, 0, bytes);
  if (from == rank) std::memcpy(out, in, bytes);
  const bool is_own = from == rank;  // then it also sends to itself alone
  if (is_own || (from < 0 && to < 0) || call.group->size() == 1) return;
  call.group->Call(Describe(node), [&](distributed::Engine& engine) {
    engine.Permute(in, to, out, from, bytes, tag);
  });
}

}  // namespace

std::span<const OpDef* const> CollectiveOps() { return kCollectives; }

void RunCollective(const GraphNode& node, const Shape& type, const void* in, void* out) {
  const CollectiveCall call(node.attr("group").str());
  distributed::Group::State& group = *call.group;
  if (node.attr("size").integer() != group.size()) {
    Throw(ErrorCode::kValue, "{}: recorded for {} rank(s), but group '{}' has {}", node.op->name(),
          node.attr("size").integer(), group.name, group.size());
  }
  const auto bytes = static_cast<size_t>(type.bytes());
  if (bytes == 0) return;
  const std::string what = Describe(node);
  if (node.op == &ops::kAllReduce) {
    return AllReduce(*call.round, group, what, in, out, static_cast<size_t>(type.numel()),
                     type.dtype(), ops::ReductionOf(node.attrs[0].str()));
  }
  if (node.op == &ops::kReduceScatter) {
    return ReduceScatter(*call.round, group, what, in, out,
                         static_cast<size_t>(node.type().numel()), type.dtype(),
                         ops::ReductionOf(node.attrs[0].str()));
  }
  if (node.op == &ops::kCollectivePermute) return RunPermute(call, node, in, out, bytes);
  if (group.size() == 1) {
    std::memcpy(out, in, bytes);
    return;
  }
  const uint32_t tag = call.round->NextTag();
  group.Call(what, [&](distributed::Engine& engine) {
    if (node.op == &ops::kAllGather) {
      engine.AllGather(in, out, bytes, tag);
    } else if (node.op == &ops::kAllToAll) {
      engine.AllToAll(in, out, bytes / static_cast<size_t>(group.size()), tag);
    } else {
      std::memcpy(out, in, bytes);
      engine.Broadcast(out, bytes, static_cast<int>(node.attrs[0].integer()), tag);
    }
  });
}

}  // namespace hammock
