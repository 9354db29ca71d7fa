// Scenarios of ranks that compute on GPUs.

#include "scenarios.h"

namespace hammock::testing {
namespace {

/// The collectives of `scenario` go from device to device.
void OverNccl(void (*scenario)()) {
  scenario();
  Check(metrics::CounterValue("cuda::NcclCollectives").value_or(0) > 0, "not over NCCL");
}
void GpuCollectives() { OverNccl(Collectives); }
void GpuSizes() { OverNccl(Sizes); }
void GpuMerges() { OverNccl(MergesOnDevice); }
void GpuStaged() {
  Collectives();
  Check(metrics::CounterValue("cuda::NcclCollectives").value_or(0) == 0, "over NCCL");
}
/// Each rank computes on a device of its own as long as there are enough.
void OwnDevice() {
  const Device chosen("cuda:0");
  Group world = distributed::init();
  const int64_t own = distributed::local_rank() % 2;
  Tensor x = Own({1});
  Check(x.device() == Device("cuda:" + std::to_string(own)), x.device().to_string());
  CheckEqual(distributed::all_reduce(x), {double(world.size())});
  distributed::shutdown();
  SetDefaultDevice(chosen);
  distributed::init();
  Check(Own({1}).device() == chosen, "another device than the chosen one");
  distributed::shutdown();
}
/// The last rank computes on the CPU.
void MixedDevices() {
  const int rank = std::atoi(std::getenv("RANK")), size = std::atoi(std::getenv("WORLD_SIZE"));
  if (rank == size - 1) config::Set("device", "cpu");
  GpuStaged();
}
void KilledInNccl() {
  Fault(kAtOnce, [] { setenv("NCCL_STAND_IN", "kill", 1); });
}

}  // namespace

Scenarios DevicesScenarios() {
  return {
      {"own_device", OwnDevice},        {"gpu_collectives", GpuCollectives},
      {"gpu_sizes", GpuSizes},          {"gpu_merges", GpuMerges},
      {"gpu_staged", GpuStaged},        {"mixed_devices", MixedDevices},
      {"killed_in_nccl", KilledInNccl}, {"gpu_staged_merges", MergesOnDevice},
  };
}

}  // namespace hammock::testing
