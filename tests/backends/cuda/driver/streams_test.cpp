// Threads have streams of their own, which wait only for what they need; see Note [Streams].
#include <gtest/gtest.h>

#include <thread>

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/driver/device_memory.h"
#include "backends/cuda/driver/fault_words.h"
#include "backends/cuda/driver/frail_machine.h"
#include "backends/cuda/driver/gpu_machine.h"
#include "backends/cuda/driver/late_machine.h"
#include "backends/cuda/emulated.h"
#include "backends/cuda/random_steps.h"
#include "hammock/hammock.h"

namespace hammock {
namespace {

using cuda::BlockPtr;
using cuda::LateMachine;

/// A device on a machine that works as late as it may. The main thread has stream 0.
class CudaStreams : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::WhyNotEmulated().empty()) GTEST_SKIP() << cuda::WhyNotEmulated();
    static int8_t type = 70;
    std::string name = "late" + std::to_string(type);
    lazy::RegisterBackend(cuda::MakeBackend({machine_}, name, type++).release());
    device_ = Device(name + ":0");
    EXPECT_EQ(machine_->Stream(), 0);
  }
  void TearDown() override {
    machine_->Finish();
    EXPECT_EQ(machine_->TakeRaces(), std::vector<std::string>());
  }

  Tensor On(std::vector<float> values) const {
    const auto size = static_cast<int64_t>(values.size());
    return tensor(std::move(values), {size}, f32, device_);
  }
  Tensor IndexOn(int64_t value) const {
    return tensor(std::vector<int64_t>{value}, {1}, i64, device_);
  }

  std::shared_ptr<LateMachine> machine_ = std::make_shared<LateMachine>(cuda::EmulatedForTests());
  Device device_;
};

TEST(CudaThreadStreams, AThreadHasAStreamUntilItEnds) {
  cuda::ThreadStreams streams;
  EXPECT_EQ(streams.count(), 0);
  EXPECT_EQ(streams.Mine(), 0);
  EXPECT_EQ(streams.Mine(), 0);
  EXPECT_EQ(streams.count(), 1);
  for (int i = 0; i < 3; ++i) {
    std::jthread([&] { EXPECT_EQ(streams.Mine(), 1); });
  }
  EXPECT_EQ(streams.count(), 2);
  cuda::ThreadStreams others;  // of another machine
  EXPECT_EQ(others.Mine(), 0);
}

TEST(CudaThreadStreams, ManyThreadsShareThem) {
  cuda::ThreadStreams streams;
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<int> mine;
  for (int i = 0; i < 2 * cuda::kMostStreams; ++i) {
    workers.push_back(std::make_unique<Worker>());
    workers.back()->Do([&] { mine.push_back(streams.Mine()); });
  }
  for (int i = 0; i < 2 * cuda::kMostStreams; ++i) {
    EXPECT_EQ(mine[i], i % cuda::kMostStreams);
  }
  EXPECT_EQ(streams.count(), cuda::kMostStreams);
}

TEST_F(CudaStreams, OneThreadWaitsForNothing) {
  Tensor x = On({1, 2, 3});
  for (int i = 0; i < 4; ++i) {
    step([&] { x.mul_(2); });
    step([&] { x.add_(index_select(x, 0, IndexOn(0))); });
  }
  EXPECT_EQ(x.to_vector<float>(), (Floats{256, 272, 288}));
  EXPECT_EQ(machine_->waits(), 0);
  EXPECT_EQ(machine_->Streams(), 1);
}

TEST_F(CudaStreams, RunsComeAfterTheirArguments) {
  Tensor x = On({1, 2, 3});
  Tensor y = x * 2;
  mark_step();
  Worker worker;
  worker.Do([&] { EXPECT_EQ((y + 7).to_vector<float>(), (Floats{9, 11, 13})); });
  EXPECT_EQ(machine_->waits(), 1);
}

TEST_F(CudaStreams, LargeUploadsAreArgumentsToo) {
  Tensor x = On(Floats(40000, 1));
  Worker worker;
  worker.Do([&] {
    Tensor y = On(Floats(40000, 2));
    EXPECT_EQ((x + y).to_vector<float>(), Floats(40000, 3));
  });
}

TEST_F(CudaStreams, ThreadsDoNotWaitForEachOther) {
  Tensor x = On({1, 2, 3});
  Tensor y = x * 2;
  mark_step();
  const uint64_t passed = machine_->Passed(0);
  EXPECT_LT(passed, machine_->Asked(0));
  Worker worker;
  worker.Do([&] {
    Tensor z = On({4, 5});
    for (int i = 0; i < 3; ++i) step([&] { z.mul_(3); });
    EXPECT_EQ(z.to_vector<float>(), (Floats{108, 135}));
  });
  EXPECT_EQ(machine_->Passed(0), passed);
  EXPECT_EQ(machine_->waits(), 0);
  EXPECT_EQ(y.to_vector<float>(), (Floats{2, 4, 6}));
}

/// What the host has to look at when a run has ended is looked at by stream too.
TEST_F(CudaStreams, ErrorsOfOneThreadAreKnownWithoutTheOthers) {
  machine_->Hold(0, true);
  Tensor x = On({1, 2, 3});
  Tensor y = index_select(x, 0, IndexOn(1));
  mark_step();
  Tensor behind = index_select(x, 0, IndexOn(2));
  mark_step();
  Worker worker;
  worker.Do([&] {
    Tensor z = On({4, 5});
    EXPECT_EQ(index_select(z, 0, IndexOn(1)).to_vector<float>(), (Floats{5}));
    EXPECT_THROW(index_select(z, 0, IndexOn(2)).to_vector<float>(), Error);
  });
  machine_->Hold(0, false);
  EXPECT_EQ(y.to_vector<float>(), (Floats{2}));
  EXPECT_EQ(behind.to_vector<float>(), (Floats{3}));
}

TEST_F(CudaStreams, DonatedMemoryIsWrittenAfterOthersHaveReadIt) {
  Tensor w = On({1, 2, 3});
  step([&] { w.add_(1); });
  Worker worker;
  for (int i = 0; i < 3; ++i) {
    Tensor y = w * 5, z;  // by the stream of the memory
    mark_step();
    worker.Do([&] {
      step([&] { w.add_(1); });
      z = w * 6;  // by another one, from the next round on
      mark_step();
    });
    step([&] { w.add_(1); });
    const float at = static_cast<float>(2 * i + 2);
    EXPECT_EQ(y.to_vector<float>(), (Floats{5 * at, 5 * at + 5, 5 * at + 10}));
    EXPECT_EQ(z.to_vector<float>(), (Floats{6 * at + 6, 6 * at + 12, 6 * at + 18}));
    EXPECT_EQ(w.to_vector<float>(), (Floats{at + 2, at + 3, at + 4}));
  }
}

/// What a thread makes and another one keeps is the other one's.
TEST_F(CudaStreams, DonatedMemoryHasAnotherHome) {
  Tensor w = On({1, 2, 3});
  step([&] { w.add_(1); });
  Worker worker;
  worker.Do([&] { step([&] { w.add_(1); }); });
  const int waits = machine_->waits();
  Tensor busy = On({1}) * 3;
  mark_step();
  worker.Do([&] {
    for (int i = 0; i < 3; ++i) step([&] { w.add_(1); });
  });
  EXPECT_EQ(machine_->waits(), waits);
  worker.Do([&] { EXPECT_EQ(w.to_vector<float>(), (Floats{6, 7, 8})); });
}

TEST_F(CudaStreams, FailuresPassFromThreadToThread) {
  Tensor table = On({1, 2, 3}), w = On({10, 20});
  step([&] { w.add_(1); });
  wait_device_ops({device_});
  Tensor bad = index_select(table, 0, IndexOn(7));
  mark_step();
  Worker worker;
  worker.Do([&] {
    EXPECT_THROW(
        {
          step([&] { w.add_(bad.sum()); });
          wait_device_ops({device_});
        },
        Error);
    EXPECT_EQ(w.to_vector<float>(), (Floats{11, 21}));
  });
  EXPECT_THROW(bad.to_vector<float>(), Error);
}

/// A run reads the word of an earlier one, which nobody holds any more when it does.
TEST_F(CudaStreams, WordsOfRunsAreNotWrittenWhileOthersReadThem) {
  Tensor x = On({1, 2, 3}), w = On({10, 20, 30});
  step([&] { w.add_(1); });
  Tensor y = index_select(x, 0, IndexOn(1));
  mark_step();
  Worker worker;
  worker.Do([&] { step([&] { w.add_(y); }); });
  EXPECT_EQ(y.to_vector<float>(), (Floats{2}));
  worker.Do([&] { step([&] { w.add_(1); }); });
  y = Tensor();
  EXPECT_THROW(index_select(x, 0, IndexOn(7)).to_vector<float>(), Error);
  worker.Do([&] { EXPECT_EQ(w.to_vector<float>(), (Floats{14, 24, 34})); });
}

TEST_F(CudaStreams, GraphsBelongToStreams) {
  Worker worker;
  auto train = [&] {
    Tensor w = On({1, 2, 3});
    for (int i = 0; i < 6; ++i) step([&] { w.mul_(2); });
    EXPECT_EQ(w.to_vector<float>(), (Floats{64, 128, 192}));
  };
  for (int i = 0; i < 3; ++i) {
    train();
    worker.Do(train);
  }
  EXPECT_GT(machine_->replays(), 0);
}

TEST_F(CudaStreams, KernelsThatCountTheirBlocksHaveCountersOfTheirOwn) {
  Floats ones(4096 * 8, 1);
  auto sums = [&] {
    Tensor x = tensor(ones, {4096, 8}, f32, device_);
    return x.sum(Dims{0});
  };
  Tensor mine = sums(), other;
  mark_step();
  Worker worker;
  worker.Do([&] {
    other = sums();
    mark_step();
  });
  EXPECT_EQ(mine.to_vector<float>(), Floats(8, 4096));
  EXPECT_EQ(other.to_vector<float>(), Floats(8, 4096));
}

// ---- Memory

/// Some work that the calling thread's stream is asked for, and the event after it.
std::shared_ptr<cuda::Event> Use(LateMachine& machine, const BlockPtr& block) {
  machine.Clear(block->address, block->bytes);
  return machine.RecordEvent();
}

class CudaStreamMemory : public testing::Test {
 protected:
  void TearDown() override {
    machine_->Finish();
    EXPECT_EQ(machine_->TakeRaces(), std::vector<std::string>());
    memory_.FreeCached();
  }
  cuda::Address TakeByWorker() {
    cuda::Address address = 0;
    worker_.Do([&] { address = memory_.Take(5000, "test", 0)->address; });
    return address;
  }

  std::shared_ptr<LateMachine> machine_ =
      std::make_shared<LateMachine>(cuda::MakeEmulatedMachine("none"));
  cuda::DeviceMemory memory_{machine_, "late"};
  Worker worker_;
};

TEST_F(CudaStreamMemory, IsTakenByAnotherStreamWhenItIsIdle) {
  cuda::Address first = 0;
  {
    BlockPtr block = memory_.Take(5000, "test", 0);
    first = block->address;
    Use(*machine_, block);
  }
  cuda::Address second = TakeByWorker();
  EXPECT_NE(second, first);
  EXPECT_EQ(memory_.Take(5000, "test", 0)->address, first) << "the own stream comes later anyway";
  machine_->Finish();
  BlockPtr held;
  worker_.Do([&] { held = memory_.Take(5000, "test", 0); });
  EXPECT_EQ(held->address, second) << "the own stream's is taken first";
  EXPECT_EQ(TakeByWorker(), first);
}

TEST_F(CudaStreamMemory, IsNotTakenWhileAnotherStreamReadsIt) {
  cuda::Address first = 0;
  {
    BlockPtr block = memory_.Take(5000, "test", 0);
    first = block->address;
    worker_.Do([&] { block->uses.Note(*Use(*machine_, block)); });
  }
  BlockPtr held = memory_.Take(5000, "test", 0);
  EXPECT_NE(held->address, first);
  EXPECT_NE(TakeByWorker(), first) << "it is idle for nobody else, but not the worker's";
  machine_->Finish();
  EXPECT_EQ(memory_.Take(5000, "test", 0)->address, first);
}

TEST_F(CudaStreamMemory, ConcurrentCopiesGetMemoryThatNoStreamUses) {
  cuda::Address first = 0;
  {
    BlockPtr block = memory_.Take(5000, "test", 0);
    first = block->address;
    worker_.Do([&] { block->uses.Note(*Use(*machine_, block)); });
  }
  EXPECT_NE(memory_.Take(5000, "test", 0, cuda::BlockUse::kConcurrent)->address, first);
  machine_->Finish();
  EXPECT_EQ(memory_.Take(5000, "test", 0, cuda::BlockUse::kConcurrent)->address, first);
}

TEST_F(CudaStreamMemory, WordsOfRunsAreTakenAgainLikeBlocks) {
  cuda::FaultWords faults(machine_);
  cuda::Address first = 0;
  std::shared_ptr<cuda::Event> event;
  {
    auto words = faults.Take(0);
    first = words->failed;
    machine_->Clear(first, 8);
    event = machine_->RecordEvent();
  }
  worker_.Do([&] { EXPECT_NE(faults.Take(0)->failed, first); });
  {
    auto words = faults.Take(0);
    EXPECT_EQ(words->failed, first);
    worker_.Do([&] {
      machine_->ComeAfter(*event);
      machine_->Clear(first, 8);
      words->uses.Note(*machine_->RecordEvent());
    });
  }
  EXPECT_NE(faults.Take(0)->failed, first);
  machine_->Finish();
}

// ---- A machine that is lost

TEST(CudaLostStreams, TheOldestRunsOfAllStreamsAreNamed) {
  auto machine = std::make_shared<cuda::FrailMachine>(9);
  lazy::RegisterBackend(cuda::MakeBackend({machine}, "frailstreams", 69).release());
  Device device("frailstreams:0");
  Tensor x = tensor(Floats{1, 2}, {2}, f32, device);
  x.to_vector<float>();
  machine->Hold(true);
  Tensor a = sin(x), b;
  mark_step();
  Worker worker;
  worker.Do([&] {
    b = cos(x);
    mark_step();
  });
  machine->FailAfter(0);
  Tensor c = tan(x);
  mark_step();
  try {
    wait_device_ops({device});
    FAIL() << "no error";
  } catch (const DeviceError& error) {
    std::string text = error.what();
    EXPECT_NE(text.find("sin at streams_test.cpp"), std::string::npos) << text;
    EXPECT_NE(text.find("or cos at streams_test.cpp"), std::string::npos) << text;
  }
}

// ---- Everything at once

class CudaStreamsAtRandom : public CudaStreams, public testing::WithParamInterface<unsigned> {
 protected:
  void SetUp() override {
    CudaStreams::SetUp();
    machine_->WorkAtRandom(GetParam(), GetParam() % 3 == 0 ? 0 : 20);
  }
};

TEST_P(CudaStreamsAtRandom, ValuesGoFromThreadToThread) { PassValues(device_, GetParam()); }
TEST_P(CudaStreamsAtRandom, ThreadsRunAtTheSameTime) { RunAtTheSameTime(device_, GetParam()); }

INSTANTIATE_TEST_SUITE_P(Seeds, CudaStreamsAtRandom, testing::Range(0u, 8u));

// ---- On a card

TEST(CudaCard, ThreadsGiveTheValuesOfOne) {
  if (!cuda::WhyNoGpu().empty()) GTEST_SKIP() << cuda::WhyNoGpu();
  for (unsigned seed = 0; seed < 20; ++seed) {
    PassValues(Device("cuda"), seed);
    RunAtTheSameTime(Device("cuda"), seed);
  }
}

TEST(CudaCard, AThreadDoesNotWaitForWorkOfAnother) {
  if (!cuda::WhyNoGpu().empty()) GTEST_SKIP() << cuda::WhyNoGpu();
  Device device("cuda");
  auto answer = [&] {
    Tensor x = tensor(Floats{1, 2}, {2}, f32, device);
    EXPECT_EQ((x * 3 + 1).to_vector<float>(), (Floats{4, 7}));
  };
  Tensor slow;
  std::atomic<bool> done{false};
  Worker one, other;
  for (Worker* worker : {&one, &other}) worker->Do(answer);  // all is compiled and open
  slow = full({8192, 8192}, 1e-3, f32, device);
  for (int i = 0; i < 20; ++i) {
    slow = matmul(slow, slow) * 0.1;
    mark_step();
  }
  other.Start([&] {
    slow.sum().item<float>();
    done = true;
  });
  one.Do(answer);
  EXPECT_FALSE(done) << "it waited, or nothing was slow";
}

}  // namespace
}  // namespace hammock
