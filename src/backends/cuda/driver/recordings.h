#pragma once
/// Recordings of one program's steps, by the addresses that they work on. A loop of steps soon
/// comes back to the same memory, so a few are enough; where it does not, they are changed. Each
/// stream has its own: launches of one CUDA graph wait for each other, on whatever streams.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/cuda/driver/machine.h"

namespace hammock::cuda {

/// What depends on some addresses alone.
struct Work {
  std::function<void()> run;                   ///< all of it
  std::function<std::vector<Piece>()> pieces;  ///< the same in parts
};

/// Thread-safe.
class Recordings {
 public:
  /// Does `work`; by a recording when its addresses come again, or when ever more of them come.
  void Run(Machine& machine, std::vector<Address> addresses, const Work& work);

 private:
  static constexpr size_t kKept = 8;

  struct Entry {
    std::vector<Address> addresses;
    std::shared_ptr<Recording> recording;  // null when they were seen once
    uint64_t uses = 0;
    uint64_t last_use = 0;
  };
  struct OfStream {
    std::mutex mutex;
    std::vector<Entry> entries;
    uint64_t uses = 0;

    Entry* Find(const std::vector<Address>& addresses);
    /// The recording of what is least likely to come again.
    std::shared_ptr<Recording> TakeOld(Entry& oldest);
  };
  /// Replays a recording of the work, which is made or changed where there is none; false where
  /// there can be none.
  static bool Replay(Machine& machine, Entry& entry, const Work& work,
                     std::shared_ptr<Recording> old);

  std::array<OfStream, kMostStreams> streams_;
};

}  // namespace hammock::cuda
