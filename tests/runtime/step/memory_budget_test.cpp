// Training within a budget of memory: the numbers are those of training without one.

#include <gtest/gtest.h>

#include "hammock/hammock.h"
#include "hammock/nn.h"
#include "hammock/optim.h"

namespace hammock {
namespace {

struct Block : nn::Module {
  Block() : Module("Block") {
    norm = register_module("norm", nn::LayerNorm({16}));
    up = register_module("up", nn::Linear(16, 64));
    down = register_module("down", nn::Linear(64, 16));
    drop = register_module("drop", nn::Dropout(0.1));
  }
  Tensor forward(const Tensor& x) { return x + drop(down(gelu(up(norm(x))))); }

  nn::LayerNorm norm = nullptr;
  nn::Linear up = nullptr, down = nullptr;
  nn::Dropout drop = nullptr;
};

struct Network : nn::Module {
  Network() : Module("Network") {
    for (int i = 0; i < 6; ++i) {
      blocks.push_back(register_module("block" + std::to_string(i), std::make_shared<Block>()));
    }
  }
  Tensor forward(Tensor x) {
    for (auto& block : blocks) x = block->forward(x);
    return x;
  }
  std::vector<std::shared_ptr<Block>> blocks;
};

/// Losses and all parameters after a few steps, with batches of these sizes.
std::vector<float> Train(const std::vector<int64_t>& batches, bool half) {
  manual_seed(3);
  Network network;
  optim::AdamW optimizer(network.parameters(), {.lr = 1e-2});
  std::vector<float> numbers;
  for (int64_t batch : batches) {
    Tensor loss;
    step([&] {
      std::optional<AutocastGuard> guard;
      if (half) guard.emplace(bf16);
      optimizer.zero_grad();
      loss = network.forward(randn({batch, 16})).square().mean();
      loss.backward();
      optimizer.step();
    });
    numbers.push_back(loss.item<float>());
  }
  for (const Tensor& parameter : network.parameters()) {
    const std::vector<float> values = parameter.to_vector<float>();
    numbers.insert(numbers.end(), values.begin(), values.end());
  }
  return numbers;
}

int64_t Recomputed() { return metrics::CounterValue("RecomputedValues").value_or(0); }

class MemoryBudget : public ::testing::TestWithParam<bool> {
 protected:
  config::Override device_{"device", "cpu"};
};

TEST_P(MemoryBudget, TrainsToTheSameBits) {
  const std::vector<int64_t> batches(4, 512);
  const std::vector<float> expected = Train(batches, GetParam());
  const int64_t before = Recomputed();
  config::Override budget("memory_budget", "0.7");
  EXPECT_EQ(Train(batches, GetParam()), expected);
  EXPECT_GT(Recomputed(), before);
}

TEST_P(MemoryBudget, HoldsForSizesThatShareACompilation) {
  const std::vector<int64_t> batches = {480, 512, 481, 400, 514};
  const std::vector<float> expected = Train(batches, GetParam());
  config::Override budget("memory_budget", "0.7");
  EXPECT_EQ(Train(batches, GetParam()), expected);
}

INSTANTIATE_TEST_SUITE_P(Of, MemoryBudget, ::testing::Bool(),
                         [](const auto& half) { return half.param ? "Bf16" : "F32"; });

}  // namespace
}  // namespace hammock
