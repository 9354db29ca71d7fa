#include "backends/cuda/driver/cuda_graph_cache.h"

#include <algorithm>
#include <utility>

#include "hammock/metric.h"

namespace hammock::cuda {

namespace {

constinit const metrics::DeclaredCounter kGraphsCaptured({
    .name = "cuda::GraphsCaptured",
    .doc = "Programs captured as CUDA graphs, one for each set of addresses.",
    .old_name = "cuda::Recordings",
});

constinit const metrics::DeclaredCounter kGraphsUpdated({
    .name = "cuda::GraphsUpdated",
    .doc = "CUDA graphs that were given other addresses.",
    .old_name = "cuda::RecordingsChanged",
});

}  // namespace

CudaGraphCache::Entry* CudaGraphCache::OfStream::Find(const std::vector<Address>& addresses) {
  auto known = std::find_if(entries.begin(), entries.end(),
                            [&](const Entry& entry) { return entry.addresses == addresses; });
  return known == entries.end() ? nullptr : &*known;
}

std::shared_ptr<CudaGraph> CudaGraphCache::OfStream::TakeOld(Entry& oldest) {
  if (oldest.graph) return std::move(oldest.graph);
  // Else the oldest graph that was used once: it was captured because the cache was full.
  Entry* once = nullptr;
  for (Entry& entry : entries) {
    if (!entry.graph || entry.uses > 1) continue;
    if (!once || entry.last_use < once->last_use) once = &entry;
  }
  return once ? std::move(once->graph) : nullptr;
}

bool CudaGraphCache::Replay(Machine& machine, Entry& entry, const Work& work,
                            std::shared_ptr<CudaGraph> old) {
  if (!entry.graph) {
    std::vector<Piece> pieces = work.pieces();
    if (old && machine.Update(*old, pieces)) {
      metrics::Get<kGraphsUpdated>().Add();
      entry.graph = std::move(old);
    } else {
      metrics::Get<kGraphsCaptured>().Add();
      entry.graph = machine.CaptureGraph(pieces);
    }
  }
  if (!entry.graph) return false;
  machine.Replay(*entry.graph);
  return true;
}

void CudaGraphCache::Run(Machine& machine, std::vector<Address> addresses, const Work& work) {
  {
    OfStream& stream = streams_[machine.Stream()];
    // Held until the launch, since another thread may update the graph.
    std::lock_guard lock(stream.mutex);
    std::vector<Entry>& entries = stream.entries;
    std::shared_ptr<CudaGraph> old;
    Entry* entry = stream.Find(addresses);
    bool captures = entry && entry->uses >= kUsesBeforeCapture;
    if (!entry && entries.size() < kKept) {
      entry = &entries.emplace_back();
      entry->addresses = std::move(addresses);
    } else if (!entry) {
      entry = &*std::min_element(
          entries.begin(), entries.end(),
          [](const Entry& a, const Entry& b) { return a.last_use < b.last_use; });
      old = stream.TakeOld(*entry);
      *entry = {std::move(addresses), nullptr, 0, 0};
      captures = true;
    }
    ++entry->uses;
    entry->last_use = ++stream.uses;
    if (captures && Replay(machine, *entry, work, std::move(old))) return;
  }
  work.run();
}

}  // namespace hammock::cuda
