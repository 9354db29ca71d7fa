// PyTorch's lazy tensors on Hammock from C++, in strict mode.

#include "lazy/lazy_backend.h"

#include <gtest/gtest.h>
#include <hammock/error.h>
#include <hammock/metrics.h>
#include <torch/csrc/jit/ir/irparser.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/lazy/backend/backend_interface.h>
#include <torch/csrc/lazy/core/lazy_graph_executor.h>
#include <torch/torch.h>

#include "engine/fallback.h"
#include "lazy/lazy_data.h"

namespace hammock_torch {
namespace {

class Lazy : public ::testing::Test {
 protected:
  void SetUp() override {
    SetStrict(true);
    InitLazyBackend("cpu");
  }
  static void MarkStep() {
    torch::lazy::BackendDevice device;
    torch::lazy::LazyGraphExecutor::Get()->SyncLiveTensorsGraph(&device, {}, true);
    torch::lazy::LazyGraphExecutor::Get()->MarkStep(device);
  }
};

/// Losses of a few steps of training.
std::vector<double> Train(const at::Device& device) {
  torch::manual_seed(3);
  torch::Tensor x = torch::randn({16, 6}).to(device), y = torch::randn({16, 2}).to(device);
  torch::Tensor w = torch::randn({6, 8}).to(device).requires_grad_();
  torch::Tensor v = torch::randn({8, 2}).to(device).requires_grad_();
  std::vector<double> losses;
  for (int step = 0; step < 4; ++step) {
    torch::Tensor loss = torch::mse_loss(torch::relu(x.mm(w)).mm(v), y);
    loss.backward();
    torch::NoGradGuard no_grad;
    for (torch::Tensor* parameter : {&w, &v}) {
      parameter->sub_(parameter->grad() * 0.05);
      parameter->mutable_grad() = torch::Tensor();
    }
    losses.push_back(loss.cpu().item<double>());
  }
  return losses;
}

TEST_F(Lazy, TrainsAsOnTheCpu) {
  std::vector<double> expected = Train(at::kCPU), actual = Train(at::kLazy);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(expected[i], actual[i], 1e-4);
  EXPECT_LT(actual.back(), actual.front());
}

TEST_F(Lazy, DrawsTheNumbersOfTheSeed) {
  torch::manual_seed(11);
  torch::Tensor expected = torch::bernoulli(torch::full({50}, 0.3));
  torch::manual_seed(11);
  torch::Tensor actual = torch::bernoulli(torch::full({50}, 0.3).to(at::kLazy));
  EXPECT_TRUE(actual.cpu().equal(expected));
}

TEST_F(Lazy, ValuesAreNotAliasedByTheHost) {
  torch::Tensor x = torch::ones({3});
  torch::Tensor y = x.to(at::kLazy);
  x.add_(1);
  torch::Tensor sum = y + y;
  MarkStep();
  torch::Tensor read = sum.cpu();
  read.zero_();
  EXPECT_EQ((sum + 0).cpu().sum().item<double>(), 6);
}

TEST_F(Lazy, DevicesAreThoseThatExist) {
  auto devices = torch::lazy::getBackend()->GetBackendDevices();
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_EQ(devices[0].toString(), "CPU0");
  EXPECT_THROW(InitLazyBackend("cpu:7"), hammock::ValueError);
  EXPECT_THROW(InitLazyBackend("no such device"), hammock::ValueError);
  InitLazyBackend("reference");
  torch::Tensor x = torch::ones({3}).to(at::kLazy);
  EXPECT_EQ((x + 1).cpu().sum().item<double>(), 6);
}

int64_t KernelsOfTheCpu() {
  return hammock::metrics::CounterValue("cpu::KernelRunsCompiled").value_or(0) +
         hammock::metrics::CounterValue("cpu::KernelRunsInterpreted").value_or(0);
}

TEST_F(Lazy, CachedGraphsRunOnTheDeviceOfTheBackend) {
  auto graph = std::make_shared<torch::jit::Graph>();
  torch::jit::parseIR(R"(graph(%x : Tensor):
    %y : Tensor = aten::exp(%x)
    return (%y))",
                      graph.get());
  LazyComputation computation(graph, {torch::lazy::Shape(at::kFloat, {3})},
                              {torch::lazy::Shape(at::kFloat, {3})});
  torch::jit::GraphExecutor cached(computation.graph(), "");
  for (const char* device : {"reference", "cpu"}) {
    InitLazyBackend(device);
    int64_t before = KernelsOfTheCpu();
    torch::jit::Stack stack = {torch::zeros({3})};
    cached.run(stack);
    EXPECT_TRUE(stack[0].toTensor().equal(torch::ones({3})));
    EXPECT_EQ(KernelsOfTheCpu() > before, device == std::string("cpu"));
  }
}

TEST_F(Lazy, ReportsWhatRan) {
  torch::Tensor x = torch::ones({5}).to(at::kLazy);
  (x * 3).cpu();
  EXPECT_NE(LazyReport().find("graphs lowered"), std::string::npos);
  EXPECT_NE(LastLazyGraph().find("aten::mul"), std::string::npos);
}

}  // namespace
}  // namespace hammock_torch
