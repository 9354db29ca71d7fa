#pragma once
/// Runs the threads of a GPU's block one after another on one thread of the host: each is a fibre
/// that goes on to the next one where it would wait.

#include <cstdint>
#include <functional>

namespace hammock::cuda {

/// What emulated code sees; its layout is known to EmulationPrelude().
struct EmulatedThread {
  struct Dim {
    unsigned x, y, z;
  };
  Dim thread, block, block_dim, grid_dim;
  void (*wait)();                                    ///< for all threads of the block
  uint64_t (*exchange)(uint64_t value, int source);  ///< the value of another thread of the block
};

EmulatedThread& CurrentEmulatedThread();

/// Calls `body` once for each thread of each block. Not for several threads of the host at once.
void RunBlocks(unsigned grid_x, unsigned grid_y, unsigned block_x, unsigned block_y, bool waits,
               const std::function<void()>& body);

}  // namespace hammock::cuda
