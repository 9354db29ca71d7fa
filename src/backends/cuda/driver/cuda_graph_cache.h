#pragma once
/// CudaGraphCache: the CUDA graphs of one program, by the addresses that its commands work on. A
/// loop of steps soon comes back to the same memory, so a few graphs are enough; where it does not,
/// old graphs are given new addresses. A capture takes as long as several runs, so one is made of
/// addresses that came often enough to expect as many again: a loop over ever other sizes, each of
/// which has a program of its own, captures nothing. Each stream has its own: launches of one CUDA
/// graph wait for each other, on whatever streams.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/cuda/driver/machine.h"

namespace hammock::cuda {

/// Work that is the same whenever its addresses are.
struct Work {
  std::function<void()> run;                   ///< all of it
  std::function<std::vector<Piece>()> pieces;  ///< the same in parts, to be captured
};

/// Thread-safe.
class CudaGraphCache {
 public:
  static constexpr int kUsesBeforeCapture = 3;

  /// Does `work`: by a CUDA graph from the fourth use of these addresses on, or if the cache is
  /// full.
  void Run(Machine& machine, std::vector<Address> addresses, const Work& work);

 private:
  static constexpr size_t kKept = 8;

  struct Entry {
    std::vector<Address> addresses;
    std::shared_ptr<CudaGraph> graph;  // null until it is captured
    int64_t uses = 0;
    uint64_t last_use = 0;
  };
  struct OfStream {
    std::mutex mutex;
    std::vector<Entry> entries;
    uint64_t uses = 0;

    Entry* Find(const std::vector<Address>& addresses);
    /// The graph that is least likely to be used again; null if there is none.
    std::shared_ptr<CudaGraph> TakeOld(Entry& oldest);
  };
  /// Replays the entry's graph. If it has none, `old` is updated or a new graph captured. Returns
  /// false if the machine can capture none.
  static bool Replay(Machine& machine, Entry& entry, const Work& work,
                     std::shared_ptr<CudaGraph> old);

  std::array<OfStream, kMostStreams> streams_;
};

}  // namespace hammock::cuda
