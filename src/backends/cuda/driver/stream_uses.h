#pragma once
/// StreamUses: the last uses of a block of memory by each stream; see Note [Streams] in machine.h.

#include <array>
#include <cstdint>

#include "backends/cuda/driver/machine.h"

namespace hammock::cuda {

/// Memory has a home, the stream that it was last taken for. Uses by other streams are noted one by
/// one; all work of the home stream counts as a use, so that memory of a single stream costs
/// nothing. Note may be called by several threads at once, the other functions by the only owner of
/// the memory.
class StreamUses {
 public:
  explicit StreamUses(int home) : home_(home) {}

  int home() const { return home_; }
  /// Some work on the memory ends before `event`.
  void Note(const Event& event);
  /// No use begins any more. Notes the last event of home too.
  void End(const Machine& machine);
  /// After End: whether all uses are over, except those of stream `but` (-1: no exception).
  bool AreOver(const Machine& machine, int but) const {
    const uint32_t others = but < 0 ? noted_ : noted_ & ~(uint32_t{1} << but);
    return others == 0 || HavePassed(machine, others);
  }
  /// The calling thread's stream waits for all uses, and is home from now on. Its next work must be
  /// followed by a RecordEvent.
  void TakeOver(Machine& machine);

 private:
  bool HavePassed(const Machine& machine, uint32_t streams) const;

  int home_;
  uint32_t noted_ = 0;                         // streams with uses that are noted, a bit each
  std::array<uint64_t, kMostStreams> last_{};  // by stream: the number of an event
};

}  // namespace hammock::cuda
