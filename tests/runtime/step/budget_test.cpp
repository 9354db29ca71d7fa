// Where recorded ops are run although nobody has asked for them.

#include <gtest/gtest.h>

#include <thread>

#include "hammock/hammock.h"
#include "hammock/optim.h"
#include "support/host_backend.h"
#include "support/tensor_matchers.h"

namespace hammock {
namespace {

int64_t CounterOf(const char* name) {
  return static_cast<int64_t>(metrics::CounterValue(name).value_or(0));
}
int64_t Compiles() { return CounterOf("UncachedCompile"); }
int64_t Cuts() { return CounterOf("TrimIrGraph"); }

Tensor Chain(Tensor x, int ops) {
  for (int i = 0; i < ops; ++i) x = i % 2 ? x * 0.5f : x + 1.0f;
  return x;
}

/// A model of one parameter whose loss takes `ops` nodes, trained without steps.
class Model {
 public:
  Model(int ops, const char* device) : ops_(ops), weight_(ones({2}, f32, device)) {
    weight_.requires_grad_();
    optimizer_ = std::make_unique<optim::Adam>(std::vector<Tensor>{weight_});
  }
  void Train() {
    optimizer_->zero_grad();
    Tensor fixed = Chain(weight_.detach(), ops_);
    (weight_ * fixed).sum().backward();
    optimizer_->step();
  }
  const Tensor& weight() const { return weight_; }

 private:
  int ops_;
  Tensor weight_;
  std::unique_ptr<optim::Adam> optimizer_;
};

/// Calls `body` until some `nodes` are recorded, then runs the rest.
template <class Fn>
int64_t CompilesOf(int64_t nodes, Fn body) {
  mark_step(true);
  int64_t compiles = Compiles(), recorded = CounterOf("TracedOps");
  for (int i = 0; i < 4 || CounterOf("TracedOps") - recorded < nodes; ++i) body();
  mark_step(true);
  return Compiles() - compiles;
}

class LoopBodies : public ::testing::TestWithParam<int> {};

TEST_P(LoopBodies, OfTrainingWithoutStepsCompileFewGraphs) {
  Model model(GetParam(), "null");
  EXPECT_LE(CompilesOf(5 * GetParam() + 20000, [&] { model.Train(); }), 4);
}

TEST_P(LoopBodies, WithoutNaturalEndsCompileFewGraphs) {
  Tensor x = ones({2}, f32, "null");
  // The prologue moves the first cut to some place in the body.
  x = Chain(x, 77);
  EXPECT_LE(CompilesOf(5 * GetParam() + 20000, [&] { x = Chain(x, GetParam()); }), 4);
}

INSTANTIATE_TEST_SUITE_P(Budget, LoopBodies, ::testing::Values(10, 65, 333, 1500, 7000, 30000));

TEST(Budget, LoopsThatReadAtTheirEndCompileNothingNew) {
  Model model(50, "null");
  auto epoch = [&] {
    for (int i = 0; i < 100; ++i) model.Train();
    model.weight().sum().item<float>();
  };
  epoch();
  epoch();
  int64_t compiles = Compiles();
  for (int i = 0; i < 3; ++i) epoch();
  EXPECT_EQ(Compiles(), compiles);
}

// On a thread of its own: such a loop changes where its thread is cut from then on.
TEST(Budget, LoopsWithSizesOfTheirOwnInEachTurnCompileFewGraphs) {
  std::thread([] {
    Tensor weight = ones({4, 3}, f32, "reference");
    weight.requires_grad_();
    optim::Adam optimizer({weight});
    int64_t turn = 0;
    auto train = [&] {
      optimizer.zero_grad();
      const int64_t rows = 1 + (++turn * 7919) % 61, columns = 1 + (turn * 104729) % 53;
      Tensor x = ones({rows, 4}, f32, "reference");
      Tensor y = ones({3, columns}, f32, "reference");
      Chain(matmul(matmul(x, weight), y), 20).sum().backward();
      optimizer.step();
    };
    // Three graphs of several iterations, then one for all sizes, and those of sizes that are 1.
    EXPECT_LE(CompilesOf(60000, train), 16);
  }).join();
}

TEST(Budget, NestedLoopsCompileFewGraphs) {
  Tensor x = ones({2}, f32, "null");
  int64_t compiles = CompilesOf(40000, [&] {
    for (int i = 0; i < 50; ++i) x = (x + 1.0f) * 0.5f - x.abs();
    x = x.sum() + Chain(x, 31).exp();
  });
  EXPECT_LE(compiles, 4);
}

TEST(Budget, TwoModelsInTurnCompileFewGraphs) {
  Model small(400, "null"), large(2500, "null");
  EXPECT_LE(CompilesOf(40000,
                       [&] {
                         small.Train();
                         large.Train();
                       }),
            4);
}

TEST(Budget, CallsOfAModuleCompileFewGraphs) {
  nn::Sequential net;
  for (int i = 0; i < 60; ++i) net->push_back(nn::ReLU());
  Tensor x = ones({2}, f32, "null");
  int64_t compiles = CompilesOf(20000, [&] {
    NoGradGuard no_grad;
    x = net(x) + 1.0f;
  });
  EXPECT_LE(compiles, 4);
}

TEST(Budget, CallsOfLayersInAFunctionCompileFewGraphs) {
  auto first = nn::ReLU();
  auto second = nn::Sigmoid();
  auto third = nn::Tanh();
  Tensor x = ones({2}, f32, "null");
  int64_t compiles = CompilesOf(40000, [&] {
    NoGradGuard no_grad;
    x = Chain(first(x), 23);
    x = Chain(second(x), 11);
    x = Chain(third(x), 37);
  });
  EXPECT_LE(compiles, 4);
}

TEST(Budget, CutsChangeNoBit) {
  auto train = [](bool steps) {
    Model model(1100, "reference");
    for (int i = 0; i < 6; ++i) {
      if (steps) {
        step([&] { model.Train(); });
      } else {
        model.Train();
      }
    }
    return model.weight().host();
  };
  int64_t cuts = Cuts();
  HostTensor plain = train(false);
  EXPECT_GT(Cuts(), cuts);
  EXPECT_TRUE(plain.SameBits(train(true)));
}

TEST(Budget, AStepIsNeverCutByItsLength) {
  int64_t cuts = Cuts();
  Tensor x = ones({2}, f32, "null");
  step([&] { x = Chain(x, 120000); });
  EXPECT_EQ(Cuts(), cuts);
}

TEST(Budget, AStepThatFitsIsNotCutByWhatIsFusedAway) {
  config::Override bytes("trim_graph_bytes", "100000");
  int64_t cuts = Cuts();
  Tensor x = zeros({1000}, f32, "reference");  // 4 kB
  step([&] {
    std::vector<Tensor> on_the_way;
    for (int i = 0; i < 100; ++i) {
      if (on_the_way.size() == 10) on_the_way.clear();
      on_the_way.push_back(x = x + 1.0f);
    }
  });
  EXPECT_EQ(Cuts(), cuts);
  EXPECT_EQ(x[999].item<float>(), 100.0f);
}

TEST(Budget, AStepThatDoesNotFitRunsInParts) {
  config::Override bytes("trim_graph_bytes", "100000");
  int64_t cuts = Cuts();
  Tensor x = zeros({1000}, f32, "reference"), total = zeros({1000}, f32, "reference");
  std::vector<Tensor> kept;
  step([&] {
    for (int i = 0; i < 100; ++i) kept.push_back(x + static_cast<float>(i));
    for (const Tensor& part : kept) total.add_(part);
  });
  EXPECT_GT(Cuts(), cuts);
  EXPECT_EQ(total[999].item<float>(), 4950.0f);
  EXPECT_EQ(kept[99][0].item<float>(), 99.0f);
}

/// A step that is cut by what the limit leaves is within it, and still fails as a whole.
TEST(Budget, AStepThatALimitCutsIsWithinItAndIsUndoneAsAWhole) {
  constexpr int64_t kSize = 2 << 20, kBytes = 4 * kSize;  // the first look is at eight of these
  const Device cpu("cpu");
  Tensor x = zeros({kSize}, f32, cpu), m = zeros({kSize}, f32, cpu),
         total = zeros({kSize}, f32, cpu);
  for (Tensor& tensor : {std::ref(x), std::ref(m), std::ref(total)}) tensor.add_(1.0f);
  mark_step(true);
  const int64_t limit = GetMemoryInfo(cpu).in_use + kBytes * 31 / 4;
  SetMemoryLimit(cpu, limit);
  auto train = [&](int64_t index) {
    const int64_t cuts = Cuts();
    step([&] {
      m.add_(1.0f);
      std::vector<Tensor> kept;
      for (int i = 0; i < 8; ++i) kept.push_back(x * static_cast<float>(i) + m);
      for (const Tensor& part : kept) total.add_(part);
      kept.clear();
      total.add_(index_select(x, 0, full({1}, index, i64, cpu)));
    });
    wait_device_ops();
    EXPECT_EQ(Cuts(), cuts + 1) << "the part has run";
    EXPECT_LE(GetMemoryInfo(cpu).in_use, limit);
  };
  train(0);
  EXPECT_EQ(m[7].item<float>(), 2);
  EXPECT_EQ(total[7].item<float>(), 1 + 28 + 8 * 2 + 1);
  EXPECT_THROW(train(kSize), Error);
  EXPECT_EQ(m[7].item<float>(), 2);
  EXPECT_EQ(total[7].item<float>(), 46);
  train(1);
  EXPECT_EQ(m[kSize - 1].item<float>(), 3);
  EXPECT_EQ(total[kSize - 1].item<float>(), 46 + 28 + 8 * 3 + 1);
  SetMemoryLimit(cpu, 0);
}

/// Records `count` values of 2^40 elements each, which stay pending if memory suffices.
void RecordHugeValues(const char* device, int count) {
  Tensor x = zeros({1 << 20, 1 << 20}, f32, device);
  std::vector<Tensor> kept;
  for (int i = 0; i < count; ++i) kept.push_back(x + static_cast<float>(i));
}

TEST(Budget, ADeviceOfUnknownMemoryHasThatOfTheHost) {
  testing::HostBackend backend("unmeasured");
  backend.before_execute = [](const lazy::Computation&) {
    throw DeviceError(ErrorCode::kDevice, "not run");
  };
  testing::Registered registered(backend);
  int64_t cuts = Cuts();
  RecordHugeValues("unmeasured", 50);
  EXPECT_GT(Cuts(), cuts);
}

TEST(Budget, TheNullDeviceIsNeverShortOfMemory) {
  int64_t cuts = Cuts();
  RecordHugeValues("null", 50);
  EXPECT_EQ(Cuts(), cuts);
}

// ---- Note [Initial state]

/// Of a width that no other test has, so that its graphs are new.
nn::Sequential NewNet(int64_t width) {
  manual_seed(5);
  return nn::Sequential(nn::Linear(4, width), nn::ReLU(), nn::Linear(width, 2));
}

TEST(InitialState, TheFirstCallIsCompiledAsLaterOnesAre) {
  nn::Sequential net = NewNet(61);
  auto answer = [&] { return net(arange(12).to(f32).reshape({3, 4})).sum().item<float>(); };
  int64_t before = Compiles();
  float first = answer();
  EXPECT_EQ(Compiles() - before, 2);  // the parameters, the call
  EXPECT_EQ(answer(), first);
  EXPECT_EQ(Compiles() - before, 2);
}

TEST(InitialState, TheFirstStepIsCompiledAsLaterOnesAre) {
  nn::Sequential net = NewNet(62);
  Tensor weight = net->parameters()[0];
  int64_t before = Compiles();
  for (int i = 0; i < 3; ++i) {
    Tensor total;
    step([&] { total = weight.detach().square().sum(); });
    total.item();
  }
  EXPECT_EQ(Compiles() - before, 2);
}

TEST(InitialState, TheFirstTrainingStepIsCompiledAsLaterOnesAre) {
  nn::Sequential net = NewNet(64);
  optim::AdamW optimizer(net->parameters(), {});
  int64_t before = Compiles();
  for (int i = 0; i < 3; ++i) {
    step([&] {
      optimizer.zero_grad();
      net(ones({3, 4})).square().mean().backward();
      optimizer.step();
    });
  }
  mark_step(true);
  EXPECT_EQ(Compiles() - before, 2);  // the parameters and moments, the step
}

TEST(InitialState, ChangesNoBit) {
  auto answer = [&] { return NewNet(63)(arange(12).to(f32).reshape({3, 4})).detach(); };
  Tensor apart = answer();
  config::Override off("trim_graph_size", "0");
  EXPECT_TENSOR_EQ(apart, answer());
}

TEST(InitialState, IsNotComputedWhereNobodyMayRunAnything) {
  nn::Sequential net(nn::Linear(4, 5), nn::Linear(5, 6), nn::Linear(6, 7));
  int64_t before = Compiles();
  {
    config::Override off("trim_graph_size", "0");
    net(ones({1, 4}));
  }
  {
    NoExecution forbid("the test");
    net(ones({1, 4}));
  }
  EXPECT_EQ(Compiles() - before, 0);
  net(ones({1, 4}));
  EXPECT_EQ(Compiles() - before, 1);
}

}  // namespace
}  // namespace hammock
