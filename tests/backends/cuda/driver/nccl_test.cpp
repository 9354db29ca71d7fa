#include "backends/cuda/driver/nccl.h"

#include <gtest/gtest.h>

#include "backends/cuda/driver/gpu_machine.h"
#include "backends/cuda/driver/nccl_host.h"

namespace hammock::cuda {
namespace {

/// One rank, on a GPU; tests/distributed has several, with a library in NCCL's place.
TEST(Nccl, ConnectsAWorldOfOne) {
  if (std::string why = WhyNoGpu(); !why.empty()) GTEST_SKIP() << why;
  if (std::string why = WhyNoNccl(); !why.empty()) GTEST_SKIP() << why;
  std::shared_ptr<Machine> machine = MakeGpuMachine(0);
  auto& host = dynamic_cast<NcclHost&>(*machine);
  const std::vector<float> values = {1, 2, 3, 4};
  const int64_t bytes = 16;
  const Address in = machine->TakeMemory(bytes), out = machine->TakeMemory(3 * bytes);
  machine->Upload(in, values.data(), bytes);
  host.OnStream([&](CUstream stream) {
    NcclCommunicator ranks(NcclCommunicator::NewId(), 0, 1, std::chrono::seconds(60), [] {});
    ranks.AllGather(in, out, bytes, stream);
    ranks.Broadcast(in, out + bytes, bytes, 0, stream);
    const NcclCommunicator::Message to_itself[] = {
        {NcclCommunicator::Message::Kind::kSend, in, bytes, 0},
        {NcclCommunicator::Message::Kind::kReceive, out + 2 * bytes, bytes, 0}};
    ranks.Exchange(to_itself, stream);
    machine->Finish();
    ranks.CheckHealth();
  });
  std::vector<float> got(12);
  machine->Download(got.data(), out, 3 * bytes, nullptr);
  EXPECT_EQ(got, (std::vector<float>{1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4}));
  machine->GiveMemory(in);
  machine->GiveMemory(out);
}

}  // namespace
}  // namespace hammock::cuda
