#pragma once
/// Runs the threads of a block on one thread of the host: each is a fibre, which switches to the
/// next one where it would wait.

#include <cstdint>
#include <functional>

namespace hammock::cuda {

/// The state of a thread as emulated code sees it; EmulationPrelude() depends on the layout.
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
