#pragma once
/// A stand-in for the CUDA driver and NVRTC, so that what runs on a GPU can be tested without one:
/// each stream is a thread of the host that dawdles, and kernels are emulated. A library of its
/// own, which the backend opens as libcuda.

#include <cstdint>
#include <functional>

namespace hammock::cuda {

/// What the library needs to run kernels.
struct FakeKernels {
  void (*run_blocks)(unsigned grid_x, unsigned grid_y, unsigned block_x, unsigned block_y,
                     bool waits, const std::function<void()>& body);
  void* thread;         ///< an EmulatedThread
  const char* prelude;  ///< EmulationPrelude()
};

struct FakeCounts {
  int64_t streams = 0;
  int64_t waits = 0;  ///< of streams for events
  int64_t launches = 0;
  int64_t graph_launches = 0;
  int64_t misuses = 0;  ///< calls that a driver refuses, or that it would not survive
  int64_t early_launches = 0;
};

// Names of functions in the library.
using SetFakeKernels = void (*)(const FakeKernels&);  ///< set_fake_kernels
using GetFakeCounts = FakeCounts (*)();               ///< get_fake_counts

}  // namespace hammock::cuda
