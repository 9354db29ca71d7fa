#pragma once
/// StreamUses: until when streams use some memory; see Note [Streams] in machine.h.

#include <array>
#include <cstdint>

#include "backends/cuda/driver/machine.h"

namespace hammock::cuda {

/// Memory has a home, the stream that it was last taken for. Others say when they use it; of its
/// home, everything that was asked for counts, so that memory which never leaves it costs nothing.
/// Note may be called by several threads at once; whoever calls another function has the memory for
/// himself.
class StreamUses {
 public:
  explicit StreamUses(int home) : home_(home) {}

  int home() const { return home_; }
  /// Work on the memory ends before that moment.
  void Note(const Moment& moment);
  /// The moments up to which home was asked for something are noted too: nobody begins to use the
  /// memory any more.
  void End(const Machine& machine);
  /// After End: whether all uses are over, but for those of one stream (-1: all).
  bool AreOver(const Machine& machine, int but) const {
    const uint32_t others = but < 0 ? noted_ : noted_ & ~(uint32_t{1} << but);
    return others == 0 || HavePassed(machine, others);
  }
  /// The calling thread's stream comes after all uses, and is home from now on. What it is asked
  /// for next must be followed by a Mark.
  void TakeOver(Machine& machine);

 private:
  bool HavePassed(const Machine& machine, uint32_t streams) const;

  int home_;
  uint32_t noted_ = 0;                         // streams with uses that are noted, a bit each
  std::array<uint64_t, kMostStreams> last_{};  // by stream: the number of the moment
};

}  // namespace hammock::cuda
