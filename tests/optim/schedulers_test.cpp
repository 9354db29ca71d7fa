#include "hammock/optim/schedulers.h"

#include <gtest/gtest.h>

#include "optim/problem.h"
#include "support/tensor_matchers.h"

namespace hammock::optim {
namespace {

using Json = nlohmann::json;

std::unique_ptr<Scheduler> Make(Optimizer& optimizer, const std::string& name, const Json& o) {
  if (name == "StepLR") return std::make_unique<StepLR>(optimizer, o["step_size"], o["gamma"]);
  if (name == "MultiStepLR") {
    return std::make_unique<MultiStepLR>(optimizer, o["milestones"], o["gamma"]);
  }
  if (name == "ExponentialLR") return std::make_unique<ExponentialLR>(optimizer, o["gamma"]);
  if (name == "LinearLR") {
    return std::make_unique<LinearLR>(optimizer, LinearOptions{.start_factor = o["start_factor"],
                                                               .total_iters = o["total_iters"]});
  }
  if (name == "CosineAnnealingLR") {
    return std::make_unique<CosineAnnealingLR>(
        optimizer, CosineOptions{.t_max = o["T_max"], .eta_min = o["eta_min"]});
  }
  if (name == "CosineAnnealingWarmRestarts") {
    return std::make_unique<CosineAnnealingWarmRestarts>(
        optimizer,
        WarmRestartsOptions{.t_0 = o["T_0"], .t_mult = o["T_mult"], .eta_min = o["eta_min"]});
  }
  return std::make_unique<OneCycleLR>(
      optimizer, OneCycleOptions{.max_lr = o["max_lr"],
                                 .total_steps = o["total_steps"],
                                 .linear = o.value("anneal_strategy", "cos") == "linear",
                                 .three_phase = o.value("three_phase", false)});
}

TEST(Schedulers, GoPyTorchsWay) {
  const Json& results = PyTorchResults().at("schedulers");
  ASSERT_EQ(results.size(), 8u);
  for (const Json& expected : results) {
    std::string name = expected["name"];
    SCOPED_TRACE(name + " " + expected["options"].dump());
    Tensor p = zeros({1}).requires_grad_();
    SGD optimizer({p}, {.lr = 0.2, .momentum = 0.9});
    auto scheduler = Make(optimizer, name, expected["options"]);
    for (size_t i = 0; i < expected["lrs"].size(); ++i) {
      EXPECT_NEAR(optimizer.lr(), expected["lrs"][i].get<double>(), 1e-12) << "step " << i;
      EXPECT_NEAR(optimizer.momentum(), expected["momenta"][i].get<double>(), 1e-12);
      if (i + 1 < expected["lrs"].size()) scheduler->step();
    }
    EXPECT_GT(expected["lrs"].size(), 1u);
  }
}

TEST(Schedulers, AResumedRunGoesToItsStep) {
  Tensor p = zeros({1}).requires_grad_();
  SGD optimizer({p}, {.lr = 1.0});
  StepLR schedule(optimizer, 2, 0.5);
  schedule.set_last_step(5);
  EXPECT_EQ(optimizer.lr(), 0.25);
  schedule.step();
  EXPECT_EQ(schedule.last_lr(), std::vector<double>{0.125});
}

TEST(SequentialLR, WarmsUpAndThenCools) {
  Tensor p = zeros({1}).requires_grad_();
  SGD optimizer({p}, {.lr = 1.0});
  std::vector<std::unique_ptr<Scheduler>> parts;
  parts.push_back(
      std::make_unique<LinearLR>(optimizer, LinearOptions{.start_factor = 0.5, .total_iters = 2}));
  parts.push_back(std::make_unique<ExponentialLR>(optimizer, 0.5));
  SequentialLR schedule(optimizer, std::move(parts), {2});
  std::vector<double> lrs;
  for (int i = 0; i < 5; ++i, schedule.step()) lrs.push_back(optimizer.lr());
  EXPECT_EQ(lrs, (std::vector<double>{0.5, 0.75, 1.0, 0.5, 0.25}));
}

TEST(ReduceLROnPlateau, GoesPyTorchsWay) {
  const Json& expected = PyTorchResults().at("plateau");
  Tensor p = zeros({1}).requires_grad_();
  SGD optimizer({p}, {.lr = 1.0});
  ReduceLROnPlateau schedule(optimizer, {.factor = 0.5, .patience = 1, .cooldown = 1});
  ASSERT_FALSE(expected["metrics"].empty());
  for (size_t i = 0; i < expected["metrics"].size(); ++i) {
    schedule.step(expected["metrics"][i]);
    EXPECT_EQ(optimizer.lr(), expected["lrs"][i].get<double>()) << i;
  }
}

TEST(Schedulers, RefuseWhatHasNoMeaning) {
  Tensor p = zeros({1}).requires_grad_();
  SGD optimizer({p});
  EXPECT_THROW_MESSAGE(StepLR(optimizer, 0), ValueError, "step_size is 0");
  EXPECT_THROW_MESSAGE(CosineAnnealingLR(optimizer, {.t_max = 0}), ValueError, "t_max is 0");
  OneCycleLR cycle(optimizer, {.max_lr = 1, .total_steps = 2});
  cycle.step();
  cycle.step();
  EXPECT_THROW_MESSAGE(cycle.step(), ValueError, "step 3 of 2");
  EXPECT_THROW_MESSAGE(ReduceLROnPlateau(optimizer, {.factor = 1}), ValueError, "expected below 1");
}

}  // namespace
}  // namespace hammock::optim
