// A GPU's machine on a driver that only pretends: which calls it makes, on which streams, and in
// which order. What kernels compute is tested elsewhere.
#include "backends/cuda/driver/gpu_machine.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/driver/driver.h"
#include "backends/cuda/driver/fake_driver.h"
#include "backends/cuda/emulated.h"
#include "backends/cuda/emulation/fibres.h"
#include "backends/cuda/random_steps.h"
#include "hammock/config.h"
#include "hammock/direct_call.h"
#include "hammock/lazy/device_exchange.h"

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

TEST_F(GpuMachine, KernelsAreLaunchedEarlyIfThatIsAsked) {
  EXPECT_EQ(counts_().early_launches, 0);
  config::Override early("cuda.early_launches", "true");
  Tensor x = tensor(Floats(500, 15), {500}, f32, device_);
  for (int i = 0; i < 6; ++i) step([&] { x.sub_(2); });
  EXPECT_EQ(x.to_vector<float>(), Floats(500, 3));
  EXPECT_GT(counts_().early_launches, 0);
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

/// Another library writes the input, reads the result and overwrites both on a stream of its own;
/// streams of the fake driver dawdle, so that work which does not wait sees other values.
TEST_F(GpuMachine, ExchangesMemoryWithStreamsOfOthers) {
  constexpr int kRounds = 6;
  constexpr int64_t kCount = 5000;
  constexpr size_t kBytes = kCount * sizeof(float);
  const cuda::Driver& driver = *cuda::TheDriver();
  cuda::CUstream stream = nullptr;
  cuda::CUdeviceptr memory = 0;
  auto twice_and_one = [](const std::vector<Tensor>& in) { return std::vector{in[0] * 2 + 1}; };
  DirectCall call(
      extract_compiled_graph(twice_and_one, {tensor(Floats(kCount, 0), {kCount}, f32, device_)}));
  ASSERT_EQ(driver.stream_create(&stream, 1), 0);
  ASSERT_EQ(driver.memory_take(&memory, kBytes), 0);
  const auto theirs = reinterpret_cast<uint64_t>(stream);
  const lazy::DeviceExchange* exchange = call.exchange();
  ASSERT_TRUE(exchange);
  const lazy::BackendDevice& device = call.backend_device();
  std::vector<Floats> given, read(kRounds, Floats(kCount));
  int released = 0;
  for (int round = 0; round < kRounds; ++round) {
    given.emplace_back(kCount, static_cast<float>(round));
    driver.copy_to_device(memory, given.back().data(), kBytes, stream);
    exchange->ComeAfter(device, theirs);
    BackendDataPtr input =
        exchange->Borrow(memory, Shape(f32, {kCount}), device, [&] { ++released; });
    auto results = call({{input}});
    auto lent = exchange->Lend(std::move(results[0]));
    exchange->LetComeAfter(device, theirs);  // behind the copies that Lend may have to make
    input.reset();
    driver.fill(memory, 0, kBytes, stream);
    driver.copy_to_host(read[round].data(), lent.memory, kBytes, stream);
    driver.fill(lent.memory, 0, kBytes, stream);
    exchange->TakeBack(std::move(lent), device, theirs);
  }
  wait_device_ops({device_});
  ASSERT_EQ(driver.stream_synchronize(stream), 0);
  for (int round = 0; round < kRounds; ++round) {
    EXPECT_EQ(read[round], Floats(kCount, static_cast<float>(2 * round + 1)));
  }
  EXPECT_EQ(released, kRounds);
}

/// Work of the other library waits for the thread that lends, and so for the one that computed.
TEST_F(GpuMachine, LendsResultsOfOtherThreads) {
  constexpr int kRounds = 6;
  constexpr int64_t kCount = 5000;
  const cuda::Driver& driver = *cuda::TheDriver();
  DirectCall call(
      extract_compiled_graph([](const std::vector<Tensor>& in) { return std::vector{in[0] + 1}; },
                             {tensor(Floats(kCount, 0), {kCount}, f32, device_)}));
  const lazy::DeviceExchange* exchange = call.exchange();
  cuda::CUstream stream = nullptr;
  ASSERT_EQ(driver.stream_create(&stream, 1), 0);
  const auto theirs = reinterpret_cast<uint64_t>(stream);
  std::vector<Floats> read(kRounds, Floats(kCount));
  for (int round = 0; round < kRounds; ++round) {
    std::vector<BackendDataPtr> results;
    std::thread([&] {
      const Floats values(kCount, static_cast<float>(round));
      results = call({{call.Import(HostTensor::From(values, {kCount}))}});
    }).join();
    auto lent = exchange->Lend(std::move(results[0]));
    exchange->LetComeAfter(call.backend_device(), theirs);
    driver.copy_to_host(read[round].data(), lent.memory, kCount * sizeof(float), stream);
    exchange->TakeBack(std::move(lent), call.backend_device(), theirs);
  }
  ASSERT_EQ(driver.stream_synchronize(stream), 0);
  for (int round = 0; round < kRounds; ++round) {
    EXPECT_EQ(read[round], Floats(kCount, static_cast<float>(round + 1)));
  }
}

/// Work of the other library reads what tensors had, though steps write them meanwhile, and memory
/// that it has let go of is not written before.
TEST_F(GpuMachine, SharesMemoryOfTensors) {
  constexpr int kRounds = 6;
  constexpr int64_t kCount = 5000;
  constexpr size_t kBytes = kCount * sizeof(float);
  const cuda::Driver& driver = *cuda::TheDriver();
  cuda::CUstream stream = nullptr;
  ASSERT_EQ(driver.stream_create(&stream, 1), 0);
  const auto theirs = reinterpret_cast<uint64_t>(stream);
  Tensor x = tensor(Floats(kCount, 0), {kCount}, f32, device_) * 1;
  std::vector<Floats> read(kRounds, Floats(kCount));
  for (int round = 0; round < kRounds; ++round) {
    step([&] { x.add_(1); });
    SharedDeviceMemory shared = SharedMemory(x, theirs);
    EXPECT_EQ(SharedMemory(x, theirs).address, shared.address) << "is not copied";
    step([&] { x.add_(1); });
    driver.copy_to_host(read[round].data(), shared.address, kBytes, stream);
    shared = {};
    step([&] { x.add_(1); });
  }
  EXPECT_EQ(x.to_vector<float>(), Floats(kCount, 3 * kRounds));
  ASSERT_EQ(driver.stream_synchronize(stream), 0);
  for (int round = 0; round < kRounds; ++round) {
    EXPECT_EQ(read[round], Floats(kCount, static_cast<float>(3 * round + 1)));
  }
}

/// Values that the host has, numbers and what is borrowed: these are copied.
TEST_F(GpuMachine, SharesMemoryOfTensorsThatHaveNoneOfTheirOwn) {
  auto first = [&](const SharedDeviceMemory& shared) {
    float value = 0;
    cuda::CUstream stream = nullptr;
    EXPECT_EQ(cuda::TheDriver()->stream_create(&stream, 1), 0);
    wait_device_ops({device_});
    cuda::TheDriver()->copy_to_host(&value, shared.address, sizeof value, stream);
    EXPECT_EQ(cuda::TheDriver()->stream_synchronize(stream), 0);
    return value;
  };
  SharedDeviceMemory own = SharedMemory(tensor(Floats(64, 3), {64}, f32, device_), std::nullopt);
  EXPECT_EQ(first(own), 3);
  EXPECT_EQ(first(SharedMemory(full({}, 5, f32, device_), std::nullopt)), 5);
  Tensor borrowed = FromDeviceMemory(own.address, Shape(f32, {64}), device_,
                                     lazy::DeviceExchange::kDefaultStream, [] {});
  SharedDeviceMemory copy = SharedMemory(borrowed, std::nullopt);
  EXPECT_NE(copy.address, own.address);
  EXPECT_EQ(first(copy), 3);
  Tensor x = borrowed + 1;
  SharedDeviceMemory kept = SharedMemory(x, std::nullopt), lent = LentMemory(x, std::nullopt);
  EXPECT_NE(kept.address, lent.address) << "may be written";
  EXPECT_EQ(first(lent), 4);
  EXPECT_THROW(SharedMemory(full({4}, 1, f32, "cpu"), std::nullopt), NotSupported);
}

/// Another library's work writes the memory before, and after the call or the release.
TEST_F(GpuMachine, TakesMemoryOfOthers) {
  constexpr int kRounds = 6;
  constexpr int64_t kCount = 5000;
  constexpr size_t kBytes = kCount * sizeof(float);
  // The device's context is this thread's from its first work on.
  Tensor first = tensor(Floats(4000, 1), {4000}, f32, device_);
  step([&] { first.add_(1); });
  ASSERT_EQ(first.to_vector<float>()[0], 2);
  const cuda::Driver& driver = *cuda::TheDriver();
  cuda::CUstream stream = nullptr;
  cuda::CUdeviceptr memory = 0;
  ASSERT_EQ(driver.stream_create(&stream, 1), 0);
  ASSERT_EQ(driver.memory_take(&memory, kBytes + sizeof(float)), 0);
  const auto theirs = reinterpret_cast<uint64_t>(stream);
  const Shape shape(f32, {kCount});
  int released = 0;
  for (int round = 0; round < kRounds; ++round) {
    const Floats given(kCount + 1, static_cast<float>(round));
    auto give = [&] {
      driver.copy_to_device(memory, given.data(), kBytes + sizeof(float), stream);
    };
    give();
    Tensor copied = FromDeviceMemory(memory + sizeof(float), shape, device_, theirs);
    driver.fill(memory, 0, kBytes, stream);
    EXPECT_EQ(copied.to_vector<float>(), Floats(kCount, static_cast<float>(round)));
    give();
    Tensor sum = FromDeviceMemory(memory, shape, device_, theirs, [&] { ++released; }) + 1;
    EXPECT_EQ(sum.to_vector<float>(), Floats(kCount, static_cast<float>(round + 1)));
    mark_step();
    driver.fill(memory, 0, kBytes, stream);
    EXPECT_EQ(sum.to_vector<float>(), Floats(kCount, static_cast<float>(round + 1)));
  }
  EXPECT_EQ(released, kRounds);
  ASSERT_EQ(driver.stream_synchronize(stream), 0);
}

/// Not even by a run to which it is donated.
TEST_F(GpuMachine, BorrowedMemoryIsNeverWritten) {
  constexpr size_t kBytes = 64 * sizeof(float);
  const cuda::Driver& driver = *cuda::TheDriver();
  DirectCall call(
      extract_compiled_graph([](const std::vector<Tensor>& in) { return std::vector{in[0] + 1}; },
                             {tensor(Floats(64, 0), {64}, f32, device_)}));
  const lazy::BackendDevice& device = call.backend_device();
  const auto& backend = dynamic_cast<const lazy::BackendImplInterface&>(*call.exchange());
  auto computation = backend.Compile({std::make_shared<lazy::Computation>("twice", ParseGraph(R"(
    %0 = input : f32[64]
    %1 = add %0, %0 : f32[64]
    return %1)"),
                                                                          device)})[0];
  cuda::CUdeviceptr memory = 0;
  cuda::CUstream stream = nullptr;
  ASSERT_EQ(driver.memory_take(&memory, kBytes), 0);
  ASSERT_EQ(driver.stream_create(&stream, 1), 0);
  const Floats given(64, 3);
  Floats kept(64);
  driver.copy_to_device(memory, given.data(), kBytes, stream);
  ASSERT_EQ(driver.stream_synchronize(stream), 0);
  BackendDataPtr input = call.exchange()->Borrow(memory, Shape(f32, {64}), device, nullptr);
  auto results =
      backend.ExecuteComputation(computation, std::span(&input, 1), device, {.donated = {true}});
  EXPECT_EQ(call.Export(results[0]).values<float>()[5], 6);
  driver.copy_to_host(kept.data(), memory, kBytes, stream);
  ASSERT_EQ(driver.stream_synchronize(stream), 0);
  EXPECT_EQ(kept, given);
}

TEST_F(GpuMachine, OtherLibrariesMayMakeTheirContextsCurrent) {
  Tensor x = tensor(Floats(4000, 1), {4000}, f32, device_);
  step([&] { x.add_(2); });
  int other = 0;
  cuda::TheDriver()->context_set(reinterpret_cast<cuda::CUcontext>(&other));
  step([&] { x.add_(2); });
  EXPECT_EQ(x.to_vector<float>(), Floats(4000, 5));
}

/// Data that someone else holds is copied: who borrows it may write.
TEST_F(GpuMachine, LendsCopiesOfSharedData) {
  Tensor example = tensor(Floats(64, 0), {64}, f32, device_);
  DirectCall call(extract_compiled_graph(
      [](const std::vector<Tensor>& in) { return std::vector{in[0] + 1}; }, {example}));
  const lazy::DeviceExchange* exchange = call.exchange();
  auto results = call({{call.Import(HostTensor::From(Floats(64, 3), {64}))}});
  BackendDataPtr kept = results[0];
  auto copy = exchange->Lend(std::move(results[0]));
  auto own = exchange->Lend(kept);
  EXPECT_NE(copy.memory, own.memory);
  HostTensor values = call.Export(kept);
  EXPECT_EQ(values.values<float>()[5], 4);
}

}  // namespace
}  // namespace hammock
