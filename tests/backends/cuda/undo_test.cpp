// Steps that may fail, and steps behind them, update donated memory in place on the CUDA backend
// too, and yet nothing is lost where one has failed. See Note [Guarded kernels] in program.h.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/driver/gpu_machine.h"
#include "backends/cuda/driver/held_machine.h"
#include "backends/cuda/emulated.h"
#include "backends/cuda/passes/cuda_passes.h"
#include "backends/cuda/passes/late_writes.h"
#include "hammock/compile.h"
#include "hammock/hammock.h"
#include "hammock/nn.h"
#include "hammock/optim.h"
#include "runtime/runtime.h"

namespace hammock {
namespace {

using namespace hammock::testing;

using Floats = std::vector<float>;

/// The device of write_units_test.cpp, which is compiled for it too.
class Emulated : public ::testing::Environment {
 public:
  void SetUp() override {
    auto machine = cuda::WhyNoGpu().empty() ? cuda::MakeGpuMachine(0) : cuda::EmulatedForTests();
    lazy::RegisterBackend(cuda::MakeBackend({machine}, "emulated", 103).release());
  }
};
[[maybe_unused]] const auto* const environment = ::testing::AddGlobalTestEnvironment(new Emulated);

// ---- Programs

class GuardedProgram : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::WhyNotEmulated().empty()) GTEST_SKIP() << cuda::WhyNotEmulated();
  }

  cuda::Address Word(uint64_t value) {
    cuda::Address at = machine_->TakeMemory(8);
    machine_->Upload(at, &value, 8);
    return at;
  }
  uint64_t Read(cuda::Address at) {
    uint64_t value = 0;
    machine_->Download(&value, at, 8, nullptr);
    return value;
  }
  /// The first output of a run into memory of nonsense; `runs` times with the same memory.
  std::vector<unsigned char> Run(const std::string& text, const cuda::RunFaults& faults,
                                 int runs = 1) {
    Graph graph = ParseGraph(text);
    cuda::Program program(graph, machine_);
    std::vector<cuda::Address> in, out;
    for (NodeId id : graph.inputs()) {
      const int64_t bytes = graph[id].type().bytes();
      in.push_back(machine_->TakeMemory(bytes));
      machine_->Clear(in.back(), bytes);
    }
    for (GraphValue output : graph.outputs()) {
      out.push_back(cuda::TakeWithNonsense(*machine_, graph.TypeOf(output).bytes()));
    }
    cuda::Address arena = cuda::TakeWithNonsense(*machine_, program.plan().arena_bytes);
    for (int i = 0; i < runs; ++i) program.Run(in, out, arena, faults);
    std::vector<unsigned char> result(
        static_cast<size_t>(graph.TypeOf(graph.outputs()[0]).bytes()));
    machine_->Download(result.data(), out[0], static_cast<int64_t>(result.size()), nullptr);
    return result;
  }
  static bool IsNonsense(const std::vector<unsigned char>& bytes) {
    return std::count(bytes.begin(), bytes.end(), 0xFF) == static_cast<long>(bytes.size());
  }

  std::shared_ptr<cuda::NotingMachine> machine_ =
      std::make_shared<cuda::NotingMachine>(cuda::EmulatedForTests());
};

constexpr const char* kKernels[] = {
    // a map, a row, columns that are split over blocks, a tile
    "%0 = input : f32[4096]\n%1 = exp %0 : f32[4096]\nreturn %1",
    R"(%0 = input : f32[64,512]
       %1 = reduce_sum %0 {dims=[1], keepdim=false} : f32[64]
       return %1)",
    R"(%0 = input : f32[4096,512]
       %1 = reduce_sum %0 {dims=[0], keepdim=false} : f32[512]
       return %1)",
    R"(%0 = input : f32[256,320]
       %1 = permute %0 {dims=[1,0]} : f32[320,256]
       %2 = exp %1 : f32[320,256]
       return %2)",
    // several in one launch
    R"(%0 = input : f32[100]
       %1 = input : f32[70]
       %2 = exp %0 : f32[100]
       %3 = neg %1 : f32[70]
       return %2, %3)"};

TEST_F(GuardedProgram, KernelsBehindAFaultWriteNothing) {
  const cuda::Address fine[] = {Word(0)}, failed[] = {Word(1)};
  for (const char* text : kKernels) {
    SCOPED_TRACE(text);
    EXPECT_FALSE(IsNonsense(Run(text, {})));
    EXPECT_FALSE(IsNonsense(Run(text, {0, fine[0], fine})));
    EXPECT_TRUE(IsNonsense(Run(text, {0, failed[0], failed})));
    EXPECT_TRUE(IsNonsense(Run(text, {0, failed[0], failed}, 3))) << "in a CUDA graph";
  }
}

TEST_F(GuardedProgram, ARunCollectsWhatHasFailedBeforeIt) {
  for (int wrong = -1; wrong < 8; ++wrong) {
    std::vector<cuda::Address> earlier;
    for (int i = 0; i < 8; ++i) earlier.push_back(Word(i == wrong ? 5 : 0));
    const cuda::Address own = Word(77);
    EXPECT_EQ(IsNonsense(Run(kKernels[0], {0, own, earlier}, 3)), wrong >= 0);
    EXPECT_EQ(Read(own), wrong >= 0 ? 1 : 0);
  }
}

TEST_F(GuardedProgram, WritesComeBehindWhatCanFail) {
  // The update of %0 does not need the index, but must come behind the check.
  Graph graph = ParseGraph(R"(
    %0 = input : f32[64]
    %1 = input : f32[64]
    %2 = input : i64[3]
    %3 = exp %0 : f32[64]
    %4 = neg %1 : f32[64]
    %5 = exp %4 : f32[64]
    %6 = index_select %5, %2 {dim=0} : f32[3]
    return %3, %6)");
  compiler::Schedule schedule = cuda::ScheduleForCuda(cuda::RewriteForCuda(graph));
  int fault = -1, update = -1;
  auto find = [&](const std::vector<int>& order) {
    for (size_t i = 0; i < order.size(); ++i) {
      const compiler::Command& step = schedule.commands[order[i]];
      if (step.is_call()) fault = static_cast<int>(i);
      if (step.writes == std::vector{schedule.outputs[0]}) update = static_cast<int>(i);
    }
  };
  std::vector<int> as_is(schedule.commands.size());
  for (size_t i = 0; i < as_is.size(); ++i) as_is[i] = static_cast<int>(i);
  find(as_is);
  ASSERT_LT(update, fault);
  find(cuda::WriteLate(schedule, fault));
  EXPECT_EQ(update, fault + 1);
  cuda::Program program(graph, machine_);
  EXPECT_EQ(program.donations(true).Match({true, true, true}), (std::vector<int>{0, -1}));
}

TEST_F(GuardedProgram, ItsOwnFaultHoldsItsWritesBackInAnyOrderOfACudaGraph) {
  const std::string text = R"(
    %0 = input : f32[64]
    %1 = input : i64[3]
    %2 = exp %0 : f32[64]
    %3 = index_select %0, %1 {dim=0} : f32[3]
    return %2, %3)";
  Graph graph = ParseGraph(text);
  cuda::Program program(graph, machine_);
  cuda::FaultWords faults(machine_);
  auto words = faults.Take(program.fault_count());
  std::vector<cuda::Address> in = {machine_->TakeMemory(256), machine_->TakeMemory(24)};
  std::vector<cuda::Address> out = {machine_->TakeMemory(256), machine_->TakeMemory(12)};
  machine_->Clear(in[0], 256);
  cuda::Address arena = machine_->TakeMemory(program.plan().arena_bytes + 1);
  for (int64_t index : {0, 64, 0, 0, 64, 64, 0}) {
    const int64_t indices[] = {0, 1, index};
    machine_->Upload(in[1], indices, 24);
    cuda::FillWithNonsense(*machine_, out[0], 256);
    *words->faults = 0;
    program.Run(in, out, arena, {reinterpret_cast<cuda::Address>(words->faults), words->failed});
    std::vector<unsigned char> result(256);
    machine_->Download(result.data(), out[0], 256, nullptr);
    EXPECT_EQ(IsNonsense(result), index == 64);
    EXPECT_EQ(Read(words->failed), index == 64 ? 1 : 0);
  }
  EXPECT_GT(machine_->replayed, 2);
}

// ---- Steps

std::string TextOf(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

Floats FloatsOf(const Tensor& tensor) { return tensor.to(f32).to_vector<float>(); }

/// On a device whose runs are not known to have ended while it is held. Each test has its own,
/// since the peak of a device's memory never falls.
class QueuedUndo : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::WhyNotEmulated().empty()) GTEST_SKIP() << cuda::WhyNotEmulated();
    NewDevice();
  }
  static void NewDevice() {
    static int count = 0;
    machine_ = std::make_shared<cuda::HeldMachine>(cuda::EmulatedForTests());
    name_ = fmt::format("held{}", ++count);
    lazy::RegisterBackend(cuda::MakeBackend({machine_}, name_, 104).release());
    SetDefaultDevice(name_);
  }
  void TearDown() override {
    if (machine_) machine_->Release();
    TextOf([] { wait_device_ops(); });
    SetDefaultDevice("cpu");
  }
  /// Does `work` while nobody learns how its steps end; what is raised then. What a failure has
  /// left is computed when it is raised, and not in place.
  static std::string Queued(const std::function<void()>& work) {
    machine_->Hold();
    work();
    queued_peak_ = Peak();
    machine_->Release();
    return TextOf([] { wait_device_ops(); });
  }
  static int64_t Peak() { return GetMemoryInfo(Device(name_)).peak; }
  static Tensor Index(int64_t index) { return full({1}, index, i64); }

  static std::shared_ptr<cuda::HeldMachine> machine_;
  static std::string name_;
  static int64_t queued_peak_;  // when all steps were queued
};
std::shared_ptr<cuda::HeldMachine> QueuedUndo::machine_;
std::string QueuedUndo::name_;
int64_t QueuedUndo::queued_peak_ = 0;

TEST_F(QueuedUndo, StepsBehindAFailedOneWriteNothingAndTakeNoMemory) {
  constexpr int64_t kSize = 1 << 16;
  Tensor w = ones({kSize}), m = zeros({kSize}), good = Index(0), bad = Index(kSize);
  mark_step(true);
  auto train = [&](const Tensor& index) {
    step([&] {
      w.add_(index_select(w, 0, index));
      m.add_(index_select(m, 0, index) + 1.0f);
    });
    step([&] { m.mul_(0.5f); });  // cannot fail by itself
  };
  train(good);
  wait_device_ops();
  const int64_t peak = Peak();
  EXPECT_LT(peak, 3 * kSize * 4) << "awaited: in place";
  EXPECT_EQ(Queued([&] {
              for (int i = 0; i < 10; ++i) train(good);
            }),
            "");
  auto expect_steps = [&](int steps) {
    float w_then = 1, m_then = 0;
    for (int i = 0; i < steps; ++i) {
      w_then *= 2;
      m_then += 0.5f;
    }
    EXPECT_EQ(FloatsOf(w), Floats(kSize, w_then));
    EXPECT_EQ(FloatsOf(m), Floats(kSize, m_then));
  };
  expect_steps(11);
  std::string text = Queued([&] {
    for (int i = 0; i < 10; ++i) train(i == 3 ? bad : good);
  });
  EXPECT_NE(text.find("index_select"), std::string::npos) << text;
  expect_steps(14);
  EXPECT_LE(Peak(), peak + 1024) << "indices and scalars of steps under way";
}

TEST_F(QueuedUndo, AnUnrelatedMetricFailsAlone) {
  constexpr int64_t kSize = 1 << 16;
  Tensor w = ones({kSize}), good = Index(0), bad = Index(kSize);
  mark_step(true);
  std::vector<Tensor> metrics(4);
  auto train = [&](Tensor& metric, const Tensor& index) {
    step([&] {
      metric = index_select(w, 0, index);
      w.mul_(3.0f);
    });
  };
  train(metrics[0], good);
  wait_device_ops();
  const int64_t peak = Peak();
  std::string text = Queued([&] {
    for (int i = 0; i < 4; ++i) train(metrics[i], i == 1 ? bad : good);
  });
  EXPECT_NE(text.find("index_select"), std::string::npos) << text;
  EXPECT_LE(queued_peak_, peak + 1024);
  EXPECT_EQ(FloatsOf(w), Floats(kSize, 243));
  EXPECT_EQ(FloatsOf(metrics[0]), Floats{3});
  EXPECT_NE(TextOf([&] { metrics[1].host(); }), "");
  EXPECT_EQ(FloatsOf(metrics[3]), Floats{81});
}

TEST_F(QueuedUndo, AStepBehindSeveralKnowsAllOfThem) {
  for (int many : {2, 8, 12}) {  // beyond 8 nothing is donated
    for (int wrong : {-1, 0, many - 1}) {
      std::vector<Tensor> parts;
      Tensor sum = zeros({1000}), after = zeros({1000});
      for (int i = 0; i < many; ++i) parts.push_back(full({1000}, static_cast<float>(i)));
      mark_step(true);
      std::string text = Queued([&] {
        for (int i = 0; i < many; ++i) {
          step([&] {
            Tensor& part = parts[i];
            part.add_(index_select(part, 0, Index(i == wrong ? 1000 : 0)));
          });
        }
        step([&] {
          for (const Tensor& part : parts) sum.add_(part);
        });
        step([&] { after.add_(sum); });
      });
      EXPECT_EQ(text.empty(), wrong < 0) << text;
      const float expected = wrong < 0 ? static_cast<float>(many * (many - 1)) : 0;
      EXPECT_EQ(FloatsOf(sum), Floats(1000, expected)) << many << " " << wrong;
      EXPECT_EQ(FloatsOf(after), Floats(1000, expected)) << many << " " << wrong;
      for (int i = 0; i < many; ++i) {
        const float own = static_cast<float>(i == wrong ? i : 2 * i);
        EXPECT_EQ(FloatsOf(parts[i]), Floats(1000, own));
      }
    }
  }
}

TEST_F(QueuedUndo, AStepOverwritesWhatAStepUnderWayReads) {
  constexpr int64_t kSize = 1 << 16;
  for (int wrong : {-1, 2}) {
    Tensor w = ones({kSize}), m = zeros({kSize});
    std::vector<Tensor> metrics(6);
    mark_step(true);
    auto train = [&](int i) {
      step([&] { w.add_(index_select(w, 0, Index(0))); });
      step([&] { m.add_(w); });
      step([&] { metrics[i] = index_select(w, 0, Index(i == wrong ? kSize : 1)); });
    };
    train(0);
    wait_device_ops();
    const int64_t peak = Peak();
    std::string text = Queued([&] {
      for (int i = 1; i < 6; ++i) train(i);
    });
    EXPECT_EQ(text.empty(), wrong < 0) << text;
    EXPECT_LE(queued_peak_, peak + 1024);
    EXPECT_EQ(FloatsOf(w), Floats(kSize, 64)) << "metrics fail alone";
    EXPECT_EQ(FloatsOf(m), Floats(kSize, 126));
    for (int i = 0; i < 6; ++i) {
      const Tensor& metric = metrics[i];
      if (i == wrong) {
        EXPECT_NE(TextOf([&] { metric.host(); }), "");
      } else {
        EXPECT_EQ(FloatsOf(metric), Floats{static_cast<float>(2 << i)});
      }
    }
  }
}

TEST_F(QueuedUndo, GradientsAndUpdatesMayBeStepsOfTheirOwn) {
  constexpr int64_t kSize = 1 << 16;
  Tensor w = ones({kSize}).requires_grad_();
  mark_step(true);
  auto train = [&](int64_t index) {
    step([&] { (w * index_select(w.detach(), 0, Index(index))).sum().backward(); });
    step([&] {
      NoGradGuard no_grad;
      w.sub_(w.grad() * 0.5f);
      w.set_grad(Tensor());
    });
  };
  train(0);
  wait_device_ops();
  const int64_t peak = Peak();
  EXPECT_EQ(Queued([&] {
              for (int i = 0; i < 5; ++i) train(0);
            }),
            "");
  EXPECT_EQ(FloatsOf(w), Floats(kSize, 1.0f / 64));
  EXPECT_NE(Queued([&] {
              for (int i = 0; i < 5; ++i) train(i == 2 ? kSize : 0);
            }),
            "");
  EXPECT_EQ(FloatsOf(w), Floats(kSize, 1.0f / 256));
  EXPECT_LE(Peak(), peak + 4 * kSize * 4 + 1024)
      << "gradients wait with their updates, not weights";
}

TEST_F(QueuedUndo, ACompiledCallOverwritesWhatAnotherOneReads) {
  constexpr int64_t kSize = 1 << 16;
  Tensor w = ones({kSize});
  mark_step(true);
  auto train = compile(
      [&](const Tensor& index) {
        w.add_(index_select(w, 0, index));
        return w.sum();
      },
      {w});
  auto eval = compile([&](const Tensor& index) { return index_select(w, 0, index).sum(); }, {w});
  Tensor good = Index(0), bad = Index(kSize), last;
  train(good).host();
  eval(good).host();
  wait_device_ops();
  const int64_t peak = Peak();
  EXPECT_EQ(Queued([&] {
              for (int i = 0; i < 5; ++i) {
                train(good);
                last = eval(good);
              }
            }),
            "");
  EXPECT_LE(Peak(), peak + 1024);
  EXPECT_EQ(last.item<float>(), 64);
  EXPECT_NE(Queued([&] {
              for (int i = 0; i < 3; ++i) {
                train(good);
                last = eval(i == 1 ? bad : good);
              }
            }),
            "");
  EXPECT_EQ(FloatsOf(w), Floats(kSize, 512));
  EXPECT_EQ(last.item<float>(), 512);
}

TEST_F(QueuedUndo, MemoryThatStepsUnderWayHoldIsWaitedForBeforeItIsAnError) {
  constexpr int64_t kSize = 1 << 18;
  Tensor w = zeros({4});
  mark_step(true);
  FreeMemory(Device(name_));
  SetMemoryLimit(Device(name_), GetMemoryInfo(Device(name_)).in_use + 3 * kSize * 4);
  std::vector<float> batch(kSize, 1.0f);
  std::string text;
  machine_->Hold();
  std::jthread releaser([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    machine_->Release();
  });
  text = TextOf([&] {
    for (int i = 0; i < 8; ++i) {  // a step keeps its batch until it is known not to have failed
      Tensor x = tensor(batch, std::nullopt);
      step([&] { w.add_(index_select(x, 0, Index(0))); });
    }
    wait_device_ops();
  });
  SetMemoryLimit(Device(name_), 0);
  EXPECT_EQ(text, "");
  EXPECT_EQ(FloatsOf(w), Floats(4, 8));
}

TEST_F(QueuedUndo, OtherThreadsStepsAreNotHeldBack) {
  Tensor w = ones({1000}), other = ones({1000});
  mark_step(true);
  std::string text = Queued([&] {
    step([&] { w.add_(index_select(w, 0, Index(1000))); });
    step([&] { other.add_(index_select(other, 0, Index(0))); });
  });
  EXPECT_NE(text, "");
  EXPECT_EQ(FloatsOf(w), Floats(1000, 1));
  EXPECT_EQ(FloatsOf(other), Floats(1000, 2));
}

TEST_F(QueuedUndo, ValuesThatShareMemoryStay) {
  Tensor w = ones({1000}), kept;
  mark_step(true);
  EXPECT_EQ(Queued([&] {
              step([&] { w.add_(index_select(w, 0, Index(0))); });
              step([&] { kept = w.clone(); });  // the same memory
              step([&] { w.add_(index_select(w, 0, Index(0))); });
              step([&] { w.add_(1.0f); });
            }),
            "");
  EXPECT_EQ(FloatsOf(kept), Floats(1000, 2));
  EXPECT_EQ(FloatsOf(w), Floats(1000, 5));
}

TEST_F(QueuedUndo, ViewsAreUndone) {
  Tensor base = zeros({4, 1000});
  Tensor row = base[1];
  mark_step(true);
  std::string text = Queued([&] {
    for (int i = 0; i < 5; ++i) {
      step([&] {
        row.add_(index_select(row, 0, Index(i == 2 ? 1000 : 0)) + 1.0f);
        base.add_(1.0f);
      });
    }
  });
  EXPECT_NE(text, "");
  Floats values = FloatsOf(base);
  EXPECT_EQ(values[0], 2);
  EXPECT_EQ(values[1000], 6);
  EXPECT_EQ(FloatsOf(row), Floats(1000, 6));
}

TEST_F(QueuedUndo, CompiledCallsAreUndone) {
  constexpr int64_t kSize = 1 << 16;
  Tensor w = ones({kSize}), m = zeros({kSize});
  mark_step(true);
  auto train = compile(
      [&](const Tensor& index) {
        m.add_(1.0f);
        w.add_(index_select(w, 0, index));
        return w.sum();
      },
      {w, m});
  Tensor good = Index(0), bad = Index(kSize);
  train(good).host();
  wait_device_ops();
  const int64_t peak = Peak();
  std::string text = Queued([&] {
    for (int i = 0; i < 8; ++i) train(i == 4 ? bad : good);
  });
  EXPECT_NE(text, "");
  EXPECT_EQ(FloatsOf(w), Floats(kSize, 32));
  EXPECT_EQ(FloatsOf(m), Floats(kSize, 5));
  EXPECT_LE(Peak(), peak + 1024);
  EXPECT_EQ(train(good).item<float>(), 64 * kSize);
}

TEST(UndoOfThreads, StepsOfSeveralThreadsAreUndoneEachByItself) {
  if (!cuda::WhyNotEmulated().empty()) GTEST_SKIP() << cuda::WhyNotEmulated();
  SetDefaultDevice("emulated");
  constexpr int64_t kSize = 5000;
  Tensor shared = ones({kSize});
  mark_step(true);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Tensor w = zeros({kSize}), m = zeros({kSize});
      for (int i = 0; i < 60; ++i) {
        const bool bad = i % (11 + t) == 7;
        TextOf([&] {
          step([&] {
            w.add_(index_select(shared, 0, full({1}, bad ? kSize : 0, i64)));
            m.add_(1.0f);
          });
          step([&] { m.add_(w * 0.0f); });  // reads what may be undone
        });
        if (i % 20 == 19) TextOf([&] { w.host(); });
      }
      TextOf([&] { m.host(); });
      while (TextOf([&] { mark_step(true); }) != "") {
      }
      Floats expected(kSize, FloatsOf(w)[0]);
      EXPECT_EQ(FloatsOf(w), expected);
      EXPECT_EQ(FloatsOf(m), expected) << "both or none";
      EXPECT_GT(expected[0], 0);
    });
  }
  threads.clear();
  TextOf([] { wait_device_ops(); });
  SetDefaultDevice("cpu");
}

// ---- Training

struct Learner {
  Learner()
      : table(64, 32),
        head(32, 16),
        words(randint(0, 64, {40})),
        good(zeros({40}, i64)),
        bad(full({40}, 16, i64)) {}
  nn::Embedding table;
  nn::Linear head;
  Tensor words, good, bad;
  bool autocast = false;

  std::vector<Tensor> parameters() const {
    std::vector<Tensor> all = table->parameters();
    for (const Tensor& param : head->parameters()) all.push_back(param);
    return all;
  }
  template <class Optimizer>
  void Step(Optimizer& optimizer, const Tensor& labels) {
    step([&] {
      optimizer.zero_grad();
      Tensor scores;
      if (autocast) {
        AutocastGuard guard(bf16);
        scores = head(table(words));
      } else {
        scores = head(table(words));
      }
      cross_entropy(scores, labels).backward();
      optimizer.step();
    });
  }
};

std::vector<Floats> StateOf(const Learner& learner, const optim::Optimizer& optimizer) {
  std::vector<Floats> state;
  for (const Tensor& param : learner.parameters()) state.push_back(FloatsOf(param));
  for (const auto& [name, tensor] : optimizer.state_dict()) state.push_back(FloatsOf(tensor));
  return state;
}

class QueuedTraining : public QueuedUndo {
 protected:
  /// Steps behind a failed one are undone with it, and queued steps need no more memory than
  /// awaited ones.
  template <class Optimizer, class Options>
  static void LosesNothing(const Options& options, const char* name, bool autocast = false) {
    SCOPED_TRACE(name);
    NewDevice();
    manual_seed(1);
    Learner learner, twin;
    learner.autocast = twin.autocast = autocast;
    twin.table->load_state_dict(learner.table->state_dict());
    twin.head->load_state_dict(learner.head->state_dict());
    twin.words = learner.words;
    mark_step(true);
    Optimizer optimizer(learner.parameters(), options);
    Optimizer undisturbed(twin.parameters(), options);
    for (int i = 0; i < 6; ++i) {
      twin.Step(undisturbed, twin.good);
      wait_device_ops();  // the first steps of both read the same memory
      learner.Step(optimizer, learner.good);
      wait_device_ops();
    }
    const int64_t peak = Peak();
    EXPECT_EQ(Queued([&] {
                for (int i = 0; i < 8; ++i) learner.Step(optimizer, learner.good);
              }),
              "");
    std::string text = Queued([&] {
      for (int i = 0; i < 8; ++i) learner.Step(optimizer, i == 2 ? learner.bad : learner.good);
    });
    EXPECT_NE(text, "");
    // Gradients of two steps may overlap; a copy of the table would be 8192 bytes.
    EXPECT_LE(Peak(), peak + 7168);
    for (int i = 0; i < 10; ++i) {
      twin.Step(undisturbed, twin.good);
      wait_device_ops();
    }
    EXPECT_EQ(StateOf(learner, optimizer), StateOf(twin, undisturbed));
    learner.Step(optimizer, learner.good);
    twin.Step(undisturbed, twin.good);
    EXPECT_EQ(StateOf(learner, optimizer), StateOf(twin, undisturbed));
  }
};

TEST_F(QueuedTraining, WithSgdLosesNothing) {
  LosesNothing<optim::SGD>(optim::SGDOptions{.lr = 0.1, .momentum = 0.9}, "SGD");
}
TEST_F(QueuedTraining, WithAdamLosesNothing) {
  LosesNothing<optim::Adam>(optim::AdamOptions{.lr = 0.01}, "Adam");
  LosesNothing<optim::AdamW>(optim::AdamWOptions{.lr = 0.01, .amsgrad = true}, "AdamW");
  LosesNothing<optim::Adamax>(optim::AdamaxOptions{}, "Adamax");
  LosesNothing<optim::NAdam>(optim::NAdamOptions{}, "NAdam");
  LosesNothing<optim::RAdam>(optim::RAdamOptions{}, "RAdam");
}
// Gradients are results of the kernels that update weights then, and must not take their memory.
TEST_F(QueuedTraining, WithNarrowMatmulsLosesNothing) {
  LosesNothing<optim::AdamW>(optim::AdamWOptions{.lr = 0.01}, "AdamW", /*autocast=*/true);
}
TEST_F(QueuedTraining, WithOtherOptimisersLosesNothing) {
  LosesNothing<optim::RMSprop>(optim::RMSpropOptions{.momentum = 0.9, .centered = true}, "RMSprop");
  LosesNothing<optim::Adagrad>(optim::AdagradOptions{}, "Adagrad");
  LosesNothing<optim::Adadelta>(optim::AdadeltaOptions{}, "Adadelta");
  LosesNothing<optim::Lion>(optim::LionOptions{}, "Lion");
}

}  // namespace
}  // namespace hammock
