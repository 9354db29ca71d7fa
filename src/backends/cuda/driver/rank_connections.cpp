#include "backends/cuda/driver/rank_connections.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "backends/cuda/driver/nccl_host.h"
#include "base/log.h"
#include "base/throw.h"
#include "hammock/metric.h"

namespace hammock::cuda {
namespace {

using distributed::Agreement;
using distributed::Engine;
using distributed::Group;

constinit const metrics::DeclaredCounter kCollectives({
    .name = "cuda::NcclCollectives",
    .doc = "Collectives between GPUs that went through NCCL, not through the host.",
});

constexpr std::chrono::milliseconds kLook{1};
constexpr int kLooksBetweenChecks = 20;  // of the other ranks, which reads files

NcclHost& HostOf(Machine& machine) {
  auto* host = dynamic_cast<NcclHost*>(&machine);
  HAMMOCK_CHECK(host, "{} has no streams for NCCL", machine.name());
  return *host;
}

/// The values of `own` on all ranks, by rank.
template <class T>
std::vector<T> GatherFrom(Group::State& group, Agreement& agreement, const std::string& what,
                          const T& own) {
  std::vector<T> all(static_cast<size_t>(group.size()));
  group.Call(what, [&](Engine& engine) {
    engine.AllGather(&own, all.data(), sizeof(T), agreement.NextTag());
  });
  return all;
}

/// Rank 0's id, where all ranks have NCCL.
struct Offer {
  bool can_connect;
  NcclCommunicator::Id id;
};

Offer OfferOf(const Group::State& group, const NcclHost& host) {
  Offer offer = {host.WhyNoNccl().empty(), {}};
  try {
    if (offer.can_connect && group.rank == 0) offer.id = NcclCommunicator::NewId();
  } catch (const std::runtime_error& error) {
    Log(LogLevel::kWarn, "distributed: group '{}': {}", group.name, error.what());
    offer.can_connect = false;
  }
  return offer;
}

std::unique_ptr<NcclCommunicator> Connect(Group::State& group, Agreement& agreement, NcclHost& host,
                                          const std::string& what) {
  const std::vector<Offer> offers = GatherFrom(group, agreement, what, OfferOf(group, host));
  std::unique_ptr<NcclCommunicator> ranks;
  std::string why = "not all ranks have NCCL";
  // A rank that NCCL refuses at once waits below for those that NCCL keeps waiting.
  const std::chrono::milliseconds limit = distributed::WaitTime() / 2;
  if (std::ranges::all_of(offers, &Offer::can_connect)) {
    try {
      host.OnStream([&](CUstream) {
        ranks = std::make_unique<NcclCommunicator>(offers[0].id, group.rank, group.size(), limit,
                                                   [&group] { group.CheckOthers(); });
      });
    } catch (const std::runtime_error& error) {
      why = error.what();
    }
  }
  const std::vector<char> connected =
      GatherFrom(group, agreement, what, static_cast<char>(ranks != nullptr));
  if (!std::ranges::count(connected, 0)) return ranks;
  if (ranks) why = "another rank could not connect";
  Log(LogLevel::kWarn, "distributed: group '{}': values go through the host: {}", group.name, why);
  return nullptr;
}

}  // namespace

RankConnections::RankConnections(Group::State& group, std::unique_ptr<NcclCommunicator> ranks)
    : group_(group), ranks_(std::move(ranks)), watcher_("nccl " + group.name, 1 << 20) {}

RankConnections* RankConnections::Of(Group::State& group, Agreement& agreement, Machine& machine,
                                     const std::string& what) {
  if (!group.attached()) {
    group.Attach(std::shared_ptr<RankConnections>(
        new RankConnections(group, Connect(group, agreement, HostOf(machine), what))));
  }
  auto* connections = static_cast<RankConnections*>(group.attached());
  return connections->ranks_ ? connections : nullptr;
}

void RankConnections::Enqueue(Machine& machine, const std::string& what, Address fault,
                              const Work& work) {
  std::shared_ptr<const Event> begin = machine.RecordEvent();
  group_.Call(what, [&](Engine&) {
    HostOf(machine).OnStream([&](CUstream stream) { work(*ranks_, stream); });
  });
  metrics::Get<kCollectives>().Add(1);
  Entry entry;
  {
    std::lock_guard lock(mutex_);
    under_way_.push_back(
        {machine, std::move(begin), machine.RecordEvent(), reinterpret_cast<uint64_t*>(fault)});
    entry = std::prev(under_way_.end());
    if (closed_) entry->Fail();
  }
  watcher_.Push([this, entry, what] {
    try {
      Watch(entry, what);
    } catch (const Error&) {
      // The run finds its fault word set, and raises the error that the group has.
    }
    std::lock_guard lock(mutex_);
    under_way_.erase(entry);
  });
}

void RankConnections::Watch(Entry entry, const std::string& what) {
  while (!entry->has_begun() && !is_closed()) std::this_thread::sleep_for(kLook);
  if (entry->has_ended()) return;
  group_.Call(what, [&](Engine&) {
    for (int looks = 1; !entry->has_ended(); ++looks) {
      if (is_closed()) throw std::runtime_error("given up");
      ranks_->CheckHealth();
      if (looks % kLooksBetweenChecks == 0) group_.CheckOthers();
      std::this_thread::sleep_for(kLook);
    }
  });
}

bool RankConnections::is_closed() {
  std::lock_guard lock(mutex_);
  return closed_;
}

void RankConnections::Close() {
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(closed_, true)) return;
    for (UnderWay& entry : under_way_) {
      if (!entry.has_ended()) entry.Fail();
    }
  }
  if (ranks_) ranks_->Abort();
}

}  // namespace hammock::cuda
