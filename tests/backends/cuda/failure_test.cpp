// What becomes of values when a device fails, runs out of memory, or is waited for.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/driver/device_memory.h"
#include "backends/cuda/driver/frail_machine.h"
#include "backends/cuda/driver/libraries.h"
#include "hammock/hammock.h"
#include "hammock/repro.h"

namespace hammock {
namespace {

using cuda::FrailMachine;

/// Devices of a backend of its own, since a lost one never comes back: two on one card, the third
/// on another.
class CudaFailure : public testing::Test {
 protected:
  void SetUp() override {
    static int8_t type = 102;
    name_ = "frail" + std::to_string(type);
    std::vector<std::shared_ptr<cuda::Machine>> all;
    for (int card : {0, 0, 1}) {
      machines_.push_back(std::make_shared<FrailMachine>(card));
      all.push_back(machines_.back());
    }
    lazy::RegisterBackend(cuda::MakeBackend(all, name_, type++).release());
  }
  Device DeviceOf(int ordinal) const { return Device(name_ + ":" + std::to_string(ordinal)); }
  Tensor On(int ordinal, std::vector<float> values) const {
    int64_t size = static_cast<int64_t>(values.size());
    return tensor(values, {size}, f32, DeviceOf(ordinal));
  }
  /// A value that is on the device alone.
  Tensor OnlyOn(int ordinal, std::vector<float> values) const {
    Tensor x = On(ordinal, std::move(values));
    (x + 1).to_vector<float>();
    return x;
  }

  std::string name_;
  std::vector<std::shared_ptr<FrailMachine>> machines_;
};

constexpr const char* kNoError = "no DeviceError";

std::string ErrorOf(const std::function<void()>& work) {
  try {
    work();
  } catch (const DeviceError& error) {
    return error.what();
  }
  return kNoError;
}

std::string Line(int line) { return "failure_test.cpp:" + std::to_string(line); }

TEST_F(CudaFailure, NamesTheStepThatCausedIt) {
  Tensor x = OnlyOn(0, {1, 2, 3});
  machines_[0]->FailAfter(1);
  Tensor fine = x * 3;
  mark_step();
  Tensor bad = exp(x);
  int line = __LINE__ - 1;
  mark_step();
  Tensor later = x - 5;
  mark_step();
  std::string error = ErrorOf([&] { later.to_vector<float>(); });
  EXPECT_NE(error.find("an illegal memory access"), std::string::npos) << error;
  EXPECT_NE(error.find("in the run of exp at"), std::string::npos) << error;
  EXPECT_NE(error.find(Line(line)), std::string::npos) << error;
  EXPECT_NE(error.find(name_ + ":0 is lost"), std::string::npos) << error;
}

TEST_F(CudaFailure, LosesValuesWhoseOnlyCopyWasThereAndNothingElse) {
  Tensor lost = OnlyOn(0, {1, 2, 3});
  Tensor on_host = On(0, {4, 5, 6});
  Tensor elsewhere = OnlyOn(2, {7, 8, 9});
  Tensor on_cpu = tensor(std::vector<float>{1, 2}, {2}, f32, Device("reference")) + 1;
  machines_[0]->FailAfter(0);
  Tensor bad = lost * 2;
  mark_step();
  for (int i = 0; i < 2; ++i) {
    EXPECT_NE(ErrorOf([&] { lost.to_vector<float>(); }).find("is lost"), std::string::npos);
  }
  EXPECT_EQ(on_host.to_vector<float>(), (std::vector<float>{4, 5, 6}));
  EXPECT_EQ(elsewhere.to_vector<float>(), (std::vector<float>{7, 8, 9}));
  EXPECT_EQ(on_cpu.to_vector<float>(), (std::vector<float>{2, 3}));
  // The process goes on: on another card, and with what was not lost.
  Tensor moved = on_host.to(DeviceOf(2));
  (moved + elsewhere).to_vector<float>();
  EXPECT_EQ(moved.to_vector<float>(), (std::vector<float>{4, 5, 6}));
}

TEST_F(CudaFailure, DevicesOfOneCardAreLostTogether) {
  Tensor x = OnlyOn(0, {1, 2}), other = OnlyOn(1, {3, 4});
  machines_[0]->FailAfter(0);
  Tensor bad = x + 4;
  mark_step();
  EXPECT_NE(ErrorOf([&] { bad.to_vector<float>(); }), kNoError);
  std::string error = ErrorOf([&] { other.to_vector<float>(); });
  EXPECT_NE(error.find(name_ + ":1 is lost"), std::string::npos) << error;
}

TEST_F(CudaFailure, ABarrierRaisesItOnce) {
  Tensor x = OnlyOn(0, {1, 2});
  machines_[0]->FailAfter(0);
  Tensor bad = x + 4;  // compiled before, elsewhere
  int line = __LINE__ - 1;
  mark_step();
  std::string error = ErrorOf([&] { wait_device_ops({DeviceOf(0)}); });
  EXPECT_NE(error.find(Line(line)), std::string::npos) << error;
  wait_device_ops({DeviceOf(0)});
  wait_device_ops({DeviceOf(2)});
}

TEST_F(CudaFailure, ABarrierIsSilentWhenAReadHasRaisedIt) {
  Tensor x = OnlyOn(0, {1, 2});
  machines_[0]->FailAfter(0);
  Tensor bad = x + 4;
  mark_step();
  EXPECT_NE(ErrorOf([&] { bad.to_vector<float>(); }), kNoError);
  wait_device_ops({DeviceOf(0)});
}

TEST_F(CudaFailure, ALostDeviceRefusesWork) {
  Tensor x = OnlyOn(0, {1, 2});
  machines_[0]->FailAfter(0);
  Tensor bad = x + 4;
  mark_step();
  EXPECT_NE(ErrorOf([&] { wait_device_ops({DeviceOf(0)}); }), kNoError);
  Tensor y = On(0, {1, 2}) * 2;
  EXPECT_NE(ErrorOf([&] { y.to_vector<float>(); }).find("is lost"), std::string::npos);
  bool said = false;
  Device device = DeviceOf(0);
  for (const lazy::DeviceFact& fact : device.backend().DescribeDevice(device.backend_device())) {
    said = said || (fact.missing && fact.text.find("is lost") != std::string::npos);
  }
  EXPECT_TRUE(said);
}

/// A folder that is removed at the end.
struct Folder {
  Folder() : path(testing::TempDir() + "hammock-dumps-" + std::to_string(getpid())) {}
  ~Folder() { std::filesystem::remove_all(path); }
  std::string FileOf(const std::string& extension) const {
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      if (entry.path().extension() == extension) return entry.path();
    }
    return "";
  }
  std::string TextOf(const std::string& extension) const {
    std::ifstream file(FileOf(extension));
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  const std::string path;
};

TEST_F(CudaFailure, ADumpCanBeRunAgainAndNamesTheKernel) {
  Folder folder;
  config::Override dump("cuda.dump_failures", folder.path);
  Tensor x = OnlyOn(0, {1, 2, 3, 4});
  EXPECT_FALSE(std::filesystem::exists(folder.path)) << "nothing has failed";
  machines_[0]->FailAfter(1);
  Tensor sums = cumsum(x, 0);
  Tensor bad = sums * x;
  int line = __LINE__ - 1;
  std::string error = ErrorOf([&] { bad.to_vector<float>(); });
  EXPECT_NE(error.find(Line(line)), std::string::npos) << error;
  EXPECT_NE(folder.TextOf(".cu").find("__global__"), std::string::npos);
  EXPECT_NE(folder.TextOf(".txt").find("is lost"), std::string::npos);
  EXPECT_NE(folder.TextOf(".txt").find("failure_test.cpp"), std::string::npos);
  std::vector<Tensor> again = RunRepro(folder.FileOf(".repro"), Device("reference"));
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(again[0].to_vector<float>(), (std::vector<float>{1, 3, 6, 10}));
  EXPECT_EQ(again[1].to_vector<float>(), (std::vector<float>{1, 6, 18, 40}));
}

TEST_F(CudaFailure, OutOfMemoryNamesTheLargestValuesAndLosesNothing) {
  Tensor large = OnlyOn(0, std::vector<float>(5000, 1));
  Tensor small = OnlyOn(0, {1, 2, 3});
  FreeMemory(DeviceOf(0));
  machines_[0]->SetMemoryLeft(1000);
  Tensor y = large + 7;
  try {
    y.to_vector<float>();
    FAIL() << "no error";
  } catch (const OutOfMemory& error) {
    std::string text = error.what();
    EXPECT_NE(text.find("has no 20000 bytes left"), std::string::npos) << text;
    size_t at = text.find("largest live values");
    ASSERT_NE(at, std::string::npos) << text;
    EXPECT_NE(text.find("f32[5000] made at ", at), std::string::npos) << text;
  }
  EXPECT_EQ(small.to_vector<float>(), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(large.to_vector<float>()[4999], 1);
  machines_[0]->SetMemoryLeft(1 << 20);
  LazyGraphExecutor::Get()->ClearErrors(y);
  y.to_vector<float>();
}

TEST_F(CudaFailure, CachedMemoryIsGivenBackBeforeItIsAnError) {
  machines_[0]->SetMemoryLeft(1 << 20);
  OnlyOn(0, std::vector<float>(100'000, 2));
  lazy::MemoryInfo info = GetMemoryInfo(DeviceOf(0));
  EXPECT_GE(info.reserved, info.in_use + 800'000) << "operand and result are in the cache";
  EXPECT_GE(info.peak, 800'000);
  // This does not fit in addition to them.
  Tensor large = OnlyOn(0, std::vector<float>(120'000, 2));
  EXPECT_EQ(large.to_vector<float>()[119'999], 2);
}

TEST_F(CudaFailure, WhatANeighbourHasCachedIsGivenBackToo) {
  machines_[1]->ShareMemoryWith(*machines_[0]);
  machines_[0]->SetMemoryLeft(1 << 20);
  OnlyOn(1, std::vector<float>(100'000, 2));
  EXPECT_GE(GetMemoryInfo(DeviceOf(1)).reserved, 800'000);
  Tensor large = OnlyOn(0, std::vector<float>(120'000, 2));
  EXPECT_EQ(large.to_vector<float>()[119'999], 2);
  EXPECT_EQ(GetMemoryInfo(DeviceOf(1)).reserved, GetMemoryInfo(DeviceOf(1)).in_use);
}

TEST_F(CudaFailure, DevicesOfOneCardShareItsMemory) {
  int64_t all = machines_[0]->memory_bytes();
  EXPECT_EQ(GetMemoryInfo(DeviceOf(0)).limit, all / 2);
  EXPECT_EQ(GetMemoryInfo(DeviceOf(1)).limit, all / 2);
  EXPECT_EQ(GetMemoryInfo(DeviceOf(2)).limit, 0) << "its card is its own";
}

TEST_F(CudaFailure, CopiesBetweenDevicesDoNotTouchTheHost) {
  Tensor x = OnlyOn(0, {1, 2, 3});
  metrics::Counter& direct = metrics::GetCounter("DirectDeviceCopies");
  metrics::Metric& read = metrics::GetMetric("TransferFromDeviceBytes", metrics::Kind::kBytes);
  int64_t copies = direct.Value();
  int64_t reads = read.Data().samples;
  Tensor y = x.to(DeviceOf(2));
  EXPECT_EQ(direct.Value(), copies + 1);
  EXPECT_EQ(read.Data().samples, reads);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1, 2, 3}));
  // A copy survives its source.
  machines_[0]->FailAfter(0);
  Tensor bad = x + 1;
  mark_step();
  EXPECT_NE(ErrorOf([&] { bad.to_vector<float>(); }), kNoError);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1, 2, 3}));
  EXPECT_NE(ErrorOf([&] { x.to(DeviceOf(2)); }).find(":0 is lost"), std::string::npos);
}

TEST_F(CudaFailure, TheDefaultDeviceCanBeAnyOfThem) {
  Device before = Device();
  {
    config::Override of_config("device", name_ + ":1");
    EXPECT_EQ(zeros({1}).device(), DeviceOf(1));
  }
  SetDefaultDevice(DeviceOf(2));
  EXPECT_EQ(zeros({1}).device(), DeviceOf(2));
  SetDefaultDevice(before);
}

TEST(CudaMemory, ConcurrentCopiesGetNoBlockThatWorkUses) {
  auto machine = std::make_shared<FrailMachine>(0);
  cuda::DeviceMemory memory(machine, "frail:0");
  auto use = cuda::BlockUse::kConcurrent;
  machine->Hold(true);
  cuda::Address first = 0;
  {
    cuda::BlockPtr block = memory.Take(1 << 20, "test", 0);
    first = block->address;
    machine->RecordEvent();
  }
  EXPECT_NE(memory.Take(1 << 20, "test", 0, use)->address, first);
  EXPECT_EQ(memory.Info().in_use, 0);
  machine->Hold(false);
  {
    const cuda::BlockPtr one = memory.Take(1 << 20, "test", 0, use);
    const cuda::BlockPtr other = memory.Take(1 << 20, "test", 0, use);
    EXPECT_TRUE(one->address == first || other->address == first);
  }
  memory.FreeCached();
}

/// Steps that repeat get the same memory, and so find their CUDA graphs.
TEST(CudaMemory, BlocksAreTakenInTheSameOrderHoweverTheyWereGivenBack) {
  auto machine = std::make_shared<FrailMachine>(0);
  cuda::DeviceMemory memory(machine, "frail:0");
  auto take = [&] { return memory.Take(5000, "test", 0); };
  std::vector<cuda::BlockPtr> blocks = {take(), take(), take()};
  blocks.clear();
  auto addresses = [&](std::vector<int> given_back) {
    std::vector<cuda::BlockPtr> held = {take(), take(), take()};
    std::vector<cuda::Address> result;
    for (const cuda::BlockPtr& block : held) result.push_back(block->address);
    for (int i : given_back) held[i] = nullptr;
    return result;
  };
  const std::vector<cuda::Address> first = addresses({1, 2, 0});
  EXPECT_EQ(addresses({2, 0, 1}), first);
  EXPECT_EQ(addresses({0, 1, 2}), first);
  memory.FreeCached();
}

TEST(CudaMemory, WorkGetsABlockThatEarlierWorkUses) {
  auto machine = std::make_shared<FrailMachine>(0);
  cuda::DeviceMemory memory(machine, "frail:0");
  machine->Hold(true);
  cuda::Address first = memory.Take(5000, "test", 0)->address;
  machine->RecordEvent();
  EXPECT_EQ(memory.Take(5000, "test", 0)->address, first);
  memory.FreeCached();
}

TEST(CudaLibraries, AreFoundOrSaidToBeMissing) {
  std::vector<std::string> names;
  for (const lazy::DeviceFact& fact : cuda::DescribeLibraries()) {
    names.push_back(fact.name);
    EXPECT_FALSE(fact.text.empty()) << fact.name;
    if (fact.missing) {
      EXPECT_TRUE(fact.text.find("cannot be opened") != std::string::npos ||
                  fact.text.find("no GPU") != std::string::npos ||
                  fact.text.find("error") != std::string::npos)
          << fact.name << ": " << fact.text;
    }
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"driver", "nvrtc", "cublaslt", "cudnn", "cufft", "nccl"}));
}

}  // namespace
}  // namespace hammock
