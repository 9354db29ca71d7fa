#include "hammock/optim/grad_scaler.h"

#include <gtest/gtest.h>

#include <cmath>

#include "hammock/autocast.h"
#include "hammock/compile.h"
#include "hammock/hammock.h"
#include "hammock/nn.h"
#include "hammock/optim.h"
#include "support/tensor_matchers.h"

namespace hammock::optim {
namespace {

struct Problem {
  Tensor w = tensor({1.0, 2.0, 3.0});
  Problem() { w.requires_grad_(); }
  /// Gradients of `factor * w`.
  Tensor Loss(double factor = 1) const { return square(w).sum() * (factor / 2); }
};

TEST(GradScaler, AStepIsTheSameAsWithoutIt) {
  Problem scaled, plain;
  Adam one({scaled.w}, {.lr = 0.1}), two({plain.w}, {.lr = 0.1});
  GradScaler scaler;
  for (int i = 0; i < 5; ++i) {
    one.zero_grad();
    two.zero_grad();
    scaler.scale(scaled.Loss()).backward();
    scaler.step(one);
    scaler.update();
    plain.Loss().backward();
    two.step();
  }
  EXPECT_TENSOR_EQ(scaled.w, plain.w.to_vector<double>(), {3});  // powers of two are exact
  EXPECT_EQ(scaler.get_scale(), 65536);
}

TEST(GradScaler, AStepThatOverflowsIsSkippedAndTheScaleHalved) {
  Problem problem;
  AdamW optimizer({problem.w}, {.lr = 0.1});
  GradScaler scaler({.init_scale = 8, .growth_interval = 3});
  auto step = [&](double factor) {
    optimizer.zero_grad();
    scaler.scale(problem.Loss(factor)).backward();
    scaler.step(optimizer);
    scaler.update();
  };
  step(1);
  std::vector<double> before = problem.w.to_vector<double>();
  std::vector<double> average = optimizer.state_dict()["0.exp_avg"].to_vector<double>();
  step(INFINITY);
  EXPECT_TENSOR_EQ(problem.w, before, {3});
  EXPECT_TENSOR_EQ(optimizer.state_dict()["0.exp_avg"], average, {3});
  EXPECT_EQ(optimizer.state_dict()["0.step"].item<double>(), 1);
  EXPECT_EQ(scaler.get_scale(), 4);
  step(NAN);
  EXPECT_TENSOR_EQ(problem.w, before, {3});
  EXPECT_EQ(scaler.get_scale(), 2);
  step(1);
  step(1);
  EXPECT_EQ(scaler.get_scale(), 2);
  step(1);  // the third good one in a row
  EXPECT_EQ(scaler.get_scale(), 4);
  EXPECT_EQ(optimizer.state_dict()["0.step"].item<double>(), 4);
  EXPECT_NE(problem.w.to_vector<double>(), before);
}

TEST(GradScaler, NothingIsReadAndAllStepsAreOneGraph) {
  Problem problem;
  SGD optimizer({problem.w}, {.lr = 0.1, .momentum = 0.9});
  GradScaler scaler;
  auto step = [&](double factor) {
    hammock::step([&] {
      optimizer.zero_grad();
      scaler.scale(problem.Loss(factor)).backward();
      scaler.step(optimizer);
      scaler.update();
    });
  };
  for (int i = 0; i < 3; ++i) step(1.0 + i);
  ExpectNoRecompile no_recompile("good and bad steps are the same graph");
  step(2);
  step(INFINITY);
  step(3);
}

TEST(GradScaler, UnscaledGradientsCanBeLimited) {
  Problem problem;
  SGD optimizer({problem.w}, {.lr = 1});
  GradScaler scaler({.init_scale = 1024});
  scaler.scale(problem.Loss()).backward();
  EXPECT_TENSOR_EQ(problem.w.grad(), {1024, 2048, 3072}, {3});
  scaler.unscale_(optimizer);
  EXPECT_TENSOR_EQ(problem.w.grad(), {1, 2, 3}, {3});
  clip_grad_value_({problem.w}, 0.5);
  scaler.step(optimizer);
  scaler.update();
  EXPECT_TENSOR_EQ(problem.w, {0.5, 1.5, 2.5}, {3});
}

TEST(GradScaler, CallsComeInOrder) {
  Problem problem;
  SGD optimizer({problem.w}, {.lr = 1});
  GradScaler scaler;
  EXPECT_THROW_MESSAGE(scaler.update(), ValueError, "comes after a step");
  EXPECT_THROW_MESSAGE(scaler.unscale_(optimizer), ValueError, "has a gradient");
  GradScaler other;
  other.scale(problem.Loss()).backward();
  other.unscale_(optimizer);
  EXPECT_THROW_MESSAGE(other.unscale_(optimizer), ValueError, "has been called since");
  other.step(optimizer);
  EXPECT_THROW_MESSAGE(other.step(optimizer), ValueError, "step has been called");
  EXPECT_THROW_MESSAGE(other.unscale_(optimizer), ValueError, "after step");
  other.update();
  EXPECT_THROW_MESSAGE(GradScaler({.backoff_factor = 2}), ValueError, "backoff_factor 2");
}

TEST(GradScaler, HalfGradientsAreRefused) {
  Tensor w = ones({2}, f16);
  w.requires_grad_();
  SGD optimizer({w}, {.lr = 1});
  GradScaler scaler({.init_scale = 2});
  scaler.scale(w.sum()).backward();
  EXPECT_THROW_MESSAGE(scaler.unscale_(optimizer), ValueError, "a gradient is f16[2]");
}

TEST(GradScaler, ADisabledOnePassesThrough) {
  Problem problem;
  SGD optimizer({problem.w}, {.lr = 1});
  GradScaler scaler({.enabled = false});
  Tensor loss = problem.Loss();
  EXPECT_TRUE(scaler.scale(loss).is_same(loss));
  loss.backward();
  scaler.unscale_(optimizer);
  scaler.step(optimizer);
  scaler.update();
  EXPECT_TENSOR_EQ(problem.w, {0, 0, 0}, {3});
  EXPECT_EQ(scaler.get_scale(), 1);
}

TEST(GradScaler, StateIsLoaded) {
  GradScaler one({.init_scale = 32}), two;
  two.load_state_dict(one.state_dict());
  EXPECT_EQ(two.get_scale(), 32);
  two.update(8);
  EXPECT_EQ(two.get_scale(), 8);
  EXPECT_EQ(one.get_scale(), 32);
}

TEST(GradScaler, IsPartOfACompiledStep) {
  Problem problem;
  Adam optimizer({problem.w}, {.lr = 0.1});
  GradScaler scaler({.init_scale = 4});
  auto step = compile(
      [&](const Tensor& factor) {
        optimizer.zero_grad();
        Tensor loss = square(problem.w).sum() * factor;
        scaler.scale(loss).backward();
        scaler.step(optimizer);
        scaler.update();
        return loss;
      },
      {problem.w, optimizer, scaler});
  step(1.0);
  std::vector<double> before = problem.w.to_vector<double>();
  step(static_cast<double>(INFINITY));
  EXPECT_TENSOR_EQ(problem.w, before, {3});
  EXPECT_EQ(scaler.get_scale(), 2);
  step(1.0);
  EXPECT_EQ(optimizer.state_dict()["0.step"].item<double>(), 2);
  EXPECT_EQ(step.traces(), 1u);
}

TEST(GradScaler, HalfPrecisionTrainsWithSmallGradients) {
  // The gradients vanish in f16 unless they are scaled.
  manual_seed(1);
  auto train = [](bool enabled) {
    nn::Linear layer(4, 1, false);
    SGD optimizer(layer->parameters(), {.lr = 1e6});
    GradScaler scaler({.init_scale = 65536, .enabled = enabled});
    Tensor x = ones({1, 4}), before = layer->weight.detach().clone();
    Tensor loss;
    {
      AutocastGuard autocast(f16);
      loss = (layer(x) * 1e-4).sum() * 1e-4;
    }
    scaler.scale(loss).backward();
    scaler.step(optimizer);
    scaler.update();
    return (layer->weight - before).abs().max().item<double>();
  };
  EXPECT_EQ(train(false), 0);
  EXPECT_GT(train(true), 1e-3);
}

}  // namespace
}  // namespace hammock::optim
