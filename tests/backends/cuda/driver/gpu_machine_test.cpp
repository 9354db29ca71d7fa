// A GPU's machine on a driver that only pretends: which calls it makes, on which streams, and in
// which order. What kernels compute is tested elsewhere.
#include "backends/cuda/driver/gpu_machine.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/driver/fake_driver.h"
#include "backends/cuda/emulated.h"
#include "backends/cuda/emulation/fibres.h"
#include "backends/cuda/random_steps.h"

namespace hammock {
namespace {

class GpuMachine : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    ASSERT_TRUE(library) << dlerror();
    auto set = reinterpret_cast<cuda::SetFakeKernels>(dlsym(library, "set_fake_kernels"));
    ASSERT_TRUE(set) << "another driver was found";
    set({&cuda::RunBlocks, &cuda::CurrentEmulatedThread(), cuda::EmulationPrelude().c_str()});
    counts_ = reinterpret_cast<cuda::GetFakeCounts>(dlsym(library, "get_fake_counts"));
    lazy::RegisterBackend(cuda::MakeBackend({cuda::MakeGpuMachine(0)}, "fake", 102).release());
  }
  void SetUp() override {
    if (!cuda::WhyNotEmulated().empty()) GTEST_SKIP() << cuda::WhyNotEmulated();
  }
  void TearDown() override { EXPECT_EQ(counts_().misuses, 0); }

  static inline cuda::GetFakeCounts counts_ = nullptr;
  const Device device_{"fake:0"};
};

/// Runs first: afterwards other threads have used the device.
TEST_F(GpuMachine, OneThreadHasAStreamForWorkOneForUploadsAndOneForReads) {
  const Floats values(40000, 3);
  Tensor x = tensor(values, {40000}, f32, device_);
  for (int i = 0; i < 5; ++i) step([&] { x.add_(2); });
  EXPECT_EQ(x.to_vector<float>(), Floats(40000, 13));
  EXPECT_EQ(counts_().streams, 3);
  EXPECT_EQ(counts_().waits, 2) << "work for the upload, and the read for its value";
  EXPECT_GT(counts_().graph_launches, 0);
}

TEST_F(GpuMachine, ValuesGoFromThreadToThread) {
  for (unsigned seed = 0; seed < 4; ++seed) PassValues(device_, seed);
}

TEST_F(GpuMachine, ThreadsRunAtTheSameTime) {
  for (unsigned seed = 0; seed < 4; ++seed) RunAtTheSameTime(device_, seed);
}

TEST_F(GpuMachine, ThreadsMayBeMoreThanStreams) {
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < 12; ++i) {
    threads.emplace_back([this, i] {
      RandomSteps steps(device_, i, 4);
      for (int k = 0; k < 60; ++k) steps.DoSomething();
      wait_device_ops({device_});
      steps.CheckAll();
    });
  }
}

TEST_F(GpuMachine, MemoryIsGivenBackWhileOthersWork) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([this, i] {
      for (int k = 0; k < 6; ++k) {
        const auto value = static_cast<float>(i + k);
        Tensor x = tensor(Floats(40000, value), {40000}, f32, device_);
        Tensor y = x * 2 + 1;
        EXPECT_EQ(y.to_vector<float>(), Floats(40000, value * 2 + 1));
        FreeMemory(device_);
      }
    });
  }
}

}  // namespace
}  // namespace hammock
