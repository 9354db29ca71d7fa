#include "backends/common/collectives.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/never_destroyed.h"
#include "base/throw.h"
#include "distributed/exchange.h"
#include "hammock/metric.h"
#include "ops/primitives/collectives.h"

namespace hammock {
namespace {

using distributed::CollectiveCall;

constinit const metrics::DeclaredCounter kMerged({
    .name = "distributed::MergedCollectives",
    .doc = "Runs of merged collectives, whose values travelled in one message.",
});

constexpr const OpDef* kCollectives[] = {
    &ops::kAllReduce, &ops::kAllGather,         &ops::kReduceScatter,   &ops::kCollectiveBroadcast,
    &ops::kAllToAll,  &ops::kCollectivePermute, &ops::kMergedCollective};

constinit thread_local distributed::StepAgreements* current_collectives = nullptr;

/// Set once, when a plug-in is loaded, before its first step.
CollectiveFn& OutsideCollectives() {
  static auto& run = NeverDestroyed<CollectiveFn>();
  return run;
}

void RunPermute(const CollectiveCall& call, const GraphNode& node, const void* in, void* out,
                size_t bytes) {
  const int rank = call.group->rank;
  auto [to, from] = PartnersOf(node, rank);
  if (from < 0) std::memset(out, 0, bytes);
  if (from == rank) {
    std::memcpy(out, in, bytes);
    to = from = -1;  // it also sends to itself alone
  }
  distributed::Permute(*call.agreement, *call.group, DescribeCollective(node), in, to, out, from,
                       bytes);
}

}  // namespace

std::span<const OpDef* const> CollectiveOps() { return kCollectives; }

bool IsCollective(const OpDef& op) { return std::ranges::count(kCollectives, &op) > 0; }

void SetCollectives(CollectiveFn run) { OutsideCollectives() = std::move(run); }

std::string DescribeCollective(const GraphNode& node) {
  const std::string where = WhereText(node.location);
  return where.empty() ? node.op->name() : fmt::format("{} [at {}]", node.op->name(), where);
}

Partners PartnersOf(const GraphNode& permute, int rank) {
  const std::vector<int64_t>& pairs = permute.attrs[0].ints();
  Partners partners;
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (pairs[i] == rank) partners.to = static_cast<int>(pairs[i + 1]);
    if (pairs[i + 1] == rank) partners.from = static_cast<int>(pairs[i]);
  }
  return partners;
}

void CheckRanks(const GraphNode& node, const distributed::Group::State& group) {
  const int64_t ranks = node.attr("size").integer();
  if (ranks == group.size()) return;
  Throw(ErrorCode::kValue, "{}: recorded for {} rank(s), but group '{}' has {}", node.op->name(),
        ranks, group.name, group.size());
}

namespace {

/// A collective that runs: its node, and memory of the host.
struct Running {
  const CollectiveCall& call;
  const GraphNode& node;
  const DType dtype;
  char* scratch;
  const std::string what = DescribeCollective(node);

  size_t width() const { return static_cast<size_t>(BytesOf(dtype, 1)); }
  size_t ranks() const { return static_cast<size_t>(call.group->size()); }
  distributed::Reduction reduction() const {
    return ops::ReductionOf(node.attr("reduction").str());
  }
  void AllReduce(const void* in, void* out, size_t count) const {
    distributed::AllReduce(*call.agreement, *call.group, what, in, out, count, dtype, reduction(),
                           scratch);
  }
  void ReduceScatter(const void* in, void* out, size_t count, char* memory) const {
    distributed::ReduceScatter(*call.agreement, *call.group, what, in, out, count, dtype,
                               reduction(), memory);
  }
  void AllGather(const void* in, void* out, size_t count) const {
    distributed::AllGather(*call.agreement, *call.group, what, in, out, count * width());
  }
};

// See Note [Merged collectives]. Values lie side by side in rows; `total` elements are a row. Empty
// ones are skipped, since a rank that could not merge them sends nothing either.

void GatherOneByOne(const Running& run, const char* in, char* out, size_t total) {
  size_t begin = 0;
  for (int64_t split : run.node.attr("splits").ints()) {
    const auto count = static_cast<size_t>(split);
    if (count == 0) continue;
    run.AllGather(in + begin * run.width(), run.scratch, count);
    for (size_t rank = 0; rank < run.ranks(); ++rank) {
      std::memcpy(out + (rank * total + begin) * run.width(),
                  run.scratch + rank * count * run.width(), count * run.width());
    }
    begin += count;
  }
}

void ScatterOneByOne(const Running& run, const char* in, char* out, size_t total) {
  size_t begin = 0;
  for (int64_t split : run.node.attr("splits").ints()) {
    const auto count = static_cast<size_t>(split);
    if (count == 0) continue;
    for (size_t rank = 0; rank < run.ranks(); ++rank) {
      std::memcpy(run.scratch + rank * count * run.width(),
                  in + (rank * total + begin) * run.width(), count * run.width());
    }
    run.ReduceScatter(run.scratch, out + begin * run.width(), count,
                      run.scratch + run.ranks() * count * run.width());
    begin += count;
  }
}

void ReduceOneByOne(const Running& run, const char* in, char* out) {
  for (int64_t split : run.node.attr("splits").ints()) {
    const auto count = static_cast<size_t>(split);
    if (count == 0) continue;
    run.AllReduce(in, out, count);
    in += count * run.width();
    out += count * run.width();
  }
}

void RunMerged(const Running& run, const Shape& type, const char* in, char* out) {
  const std::string& kind = run.node.attrs[0].str();
  const bool alike = run.call.agreement->is_merged_alike();
  const auto count = static_cast<size_t>(type.numel());
  if (alike) CountMergedCollective();
  if (kind == "all_reduce" || kind == "reduce_scatter_all_gather") {
    if (alike) return run.AllReduce(in, out, count);
    if (kind == "all_reduce") return ReduceOneByOne(run, in, out);
    const size_t share = count / run.ranks();
    run.ReduceScatter(in, run.scratch, share, run.scratch + share * run.width());
    return run.AllGather(run.scratch, out, share);
  }
  if (kind == "all_gather") {
    return alike ? run.AllGather(in, out, count) : GatherOneByOne(run, in, out, count);
  }
  const size_t total = count / run.ranks();
  alike ? run.ReduceScatter(in, out, total, run.scratch) : ScatterOneByOne(run, in, out, total);
}

size_t MergedScratch(const GraphNode& node, const Shape& type, size_t ranks) {
  using distributed::AllReduceScratch, distributed::ReduceScatterScratch;
  const std::string& kind = node.attrs[0].str();
  const DType dtype = type.dtype();
  const auto count = static_cast<size_t>(type.numel());
  const auto width = static_cast<size_t>(BytesOf(dtype, 1));
  size_t most = 0;  // of a split
  for (int64_t split : node.attr("splits").ints()) {
    const auto own = static_cast<size_t>(split);
    const size_t reduced = kind == "all_reduce"       ? AllReduceScratch(own, dtype, ranks)
                           : kind == "reduce_scatter" ? ReduceScatterScratch(own, dtype, ranks)
                                                      : 0;
    most = std::max(most, reduced + (kind == "all_reduce" ? 0 : own * ranks * width));
  }
  if (kind == "all_reduce") return std::max(most, AllReduceScratch(count, dtype, ranks));
  if (kind == "all_gather") return most;
  const size_t scatter = ReduceScatterScratch(count / ranks, dtype, ranks);
  if (kind == "reduce_scatter") return std::max(most, scatter);
  return std::max(AllReduceScratch(count, dtype, ranks), scatter + count / ranks * width);
}

}  // namespace

int64_t CollectiveScratch(const GraphNode& node, const Shape& type) {
  const auto ranks = static_cast<size_t>(node.attr("size").integer());
  size_t bytes = 0;
  if (node.op == &ops::kAllReduce) {
    bytes = distributed::AllReduceScratch(static_cast<size_t>(type.numel()), type.dtype(), ranks);
  } else if (node.op == &ops::kReduceScatter) {
    const auto count = static_cast<size_t>(node.type().numel());
    bytes = distributed::ReduceScatterScratch(count, type.dtype(), ranks);
  } else if (node.op == &ops::kMergedCollective && ranks > 1) {
    bytes = MergedScratch(node, type, ranks);
  }
  return static_cast<int64_t>(bytes);
}

void CountMergedCollective() { metrics::Get<kMerged>().Add(1); }

CollectiveScope::CollectiveScope(distributed::StepAgreements* collectives)
    : outer_(std::exchange(current_collectives, collectives)) {}
CollectiveScope::~CollectiveScope() { current_collectives = outer_; }
distributed::StepAgreements* CollectiveScope::Current() { return current_collectives; }

void RunCollective(const lazy::RunContext& run, const GraphNode& node, const Shape& type,
                   const void* in, void* out) {
  const CollectiveScope scope(run.collectives);
  std::vector<char> scratch(static_cast<size_t>(CollectiveScratch(node, type)));
  RunCollective(node, type, in, out, scratch.data());
}

void RunCollective(const GraphNode& node, const Shape& type, const void* in, void* out,
                   char* scratch) {
  if (const CollectiveFn& outside = OutsideCollectives()) return outside(node, type, in, out);
  const CollectiveCall call(CollectiveScope::Current(), node.attr("group").str());
  distributed::Group::State& group = *call.group;
  CheckRanks(node, group);
  const auto bytes = static_cast<size_t>(type.bytes());
  if (bytes == 0) return;
  if (node.op == &ops::kCollectivePermute) return RunPermute(call, node, in, out, bytes);
  if (group.size() == 1) {
    std::memcpy(out, in, bytes);
    return;
  }
  const Running run = {call, node, type.dtype(), scratch};
  const auto count = static_cast<size_t>(type.numel());
  if (node.op == &ops::kAllReduce) return run.AllReduce(in, out, count);
  if (node.op == &ops::kReduceScatter) {
    return run.ReduceScatter(in, out, count / run.ranks(), scratch);
  }
  if (node.op == &ops::kAllGather) return run.AllGather(in, out, count);
  if (node.op == &ops::kMergedCollective) {
    return RunMerged(run, type, static_cast<const char*>(in), static_cast<char*>(out));
  }
  if (node.op == &ops::kAllToAll) {
    return distributed::AllToAll(*call.agreement, group, run.what, in, out, bytes / run.ranks());
  }
  std::memcpy(out, in, bytes);
  distributed::Broadcast(*call.agreement, group, run.what, out, bytes,
                         static_cast<int>(node.attrs[0].integer()));
}

}  // namespace hammock
