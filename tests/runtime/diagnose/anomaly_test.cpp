#include "hammock/anomaly.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <thread>

#include "hammock/hammock.h"
#include "support/tensor_matchers.h"

namespace hammock {
namespace {

/// The error that reading a tensor raises.
template <class Fn>
ValueError ErrorOf(Fn read) {
  try {
    read();
  } catch (const ValueError& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was raised";
  return ValueError(ErrorCode::kValue, "");
}

std::string LineText(int line) { return "anomaly_test.cpp:" + std::to_string(line); }

TEST(Anomaly, NamesTheOpThatMakesANan) {
  AnomalyGuard guard;
  Tensor x = tensor({1.0, 2.0, -1.0, 3.0});
  Tensor shifted = x + 0.0;
  Tensor logs = log(shifted);
  int line = __LINE__ - 1;
  Tensor mean = (logs * 2.0).mean();
  ValueError error = ErrorOf([&] { mean.item(); });
  EXPECT_NE(error.message().find("log made a NaN at [2] of f32[4], where it was given -1"),
            std::string::npos)
      << error.message();
  EXPECT_EQ(error.where(), LineText(line));
}

TEST(Anomaly, NamesTheOpThatMakesAnInfinity) {
  AnomalyGuard guard;
  Tensor x = tensor({{1.0f, 0.0f}});
  Tensor y = 1.0 / x;
  int line = __LINE__ - 1;
  ValueError error = ErrorOf([&] { (y + 1.0).host(); });
  EXPECT_NE(error.message().find("made an infinity at [0,1] of f32[1,2]"), std::string::npos)
      << error.message();
  EXPECT_EQ(error.where(), LineText(line));
}

TEST(Anomaly, ANanOfInfinitiesIsMadeWhereTheyMeet) {
  AnomalyGuard guard;
  Tensor x = tensor({1.0, 0.0});
  Tensor difference = 1.0 / x - 1.0 / x;
  int line = __LINE__ - 1;
  ValueError error = ErrorOf([&] { difference.sum().item(); });
  EXPECT_NE(error.message().find("sub made a NaN"), std::string::npos) << error.message();
  EXPECT_EQ(error.where(), LineText(line));
}

TEST(Anomaly, OfAGradientHasTheLineOfTheForwardPass) {
  AnomalyGuard guard;
  Tensor x = tensor({4.0, 0.0}).requires_grad_();
  Tensor root = sqrt(x);
  int line = __LINE__ - 1;
  root.sum().backward();
  int backward = __LINE__ - 1;
  ValueError error = ErrorOf([&] { x.grad().host(); });
  EXPECT_NE(error.message().find("the gradient of sqrt"), std::string::npos) << error.message();
  EXPECT_NE(error.message().find("made an infinity at [1] of f32[2]"), std::string::npos)
      << error.message();
  EXPECT_NE(error.message().find("backward() was called at " + LineText(backward)),
            std::string::npos)
      << error.message();
  EXPECT_EQ(error.where(), LineText(line));
}

using UnaryFn = std::function<Tensor(const Tensor&)>;

struct Calls : nn::UnaryModule {
  explicit Calls(UnaryFn fn) : UnaryModule("Calls"), fn(std::move(fn)) {}
  UnaryFn fn;
  Tensor forward(const Tensor& x) override { return fn(x); }
};

struct Net : nn::UnaryModule {
  explicit Net(const UnaryFn& fn) : UnaryModule("Net") {
    encoder =
        register_module("encoder", nn::Sequential(nn::Identity(), std::make_shared<Calls>(fn)));
  }
  nn::Sequential encoder = nullptr;
  Tensor forward(const Tensor& x) override { return encoder(x); }
};

TEST(Anomaly, NamesTheModule) {
  Net net([](const Tensor& x) { return log(x); });
  int line = __LINE__ - 1;
  AnomalyGuard guard;
  ValueError error = ErrorOf([&] { net(tensor({1.0, 0.0})).host(); });
  EXPECT_EQ(error.where(), LineText(line) + " in encoder.1");
}

TEST(Anomaly, OfAGradientNamesTheModuleOfTheForwardPass) {
  Net net([](const Tensor& x) { return sqrt(x); });
  int line = __LINE__ - 1;
  AnomalyGuard guard;
  Tensor x = tensor({4.0, 0.0}).requires_grad_();
  net(x).sum().backward();
  int backward = __LINE__ - 1;
  ValueError error = ErrorOf([&] { x.grad().host(); });
  EXPECT_EQ(error.where(), LineText(line) + " in encoder.1");
  EXPECT_NE(error.message().find("the gradient of sqrt ("), std::string::npos) << error.message();
  EXPECT_NE(error.message().find("backward() was called at " + LineText(backward)),
            std::string::npos)
      << error.message();
}

TEST(Anomaly, NamesTheOpThatWasCalled) {
  AnomalyGuard guard;
  Tensor scores = tensor({{1.0, 2.0}}) / 0.0;
  ValueError infinity = ErrorOf([&] { scores.host(); });
  EXPECT_NE(infinity.message().find("div made an infinity at [0,0] of f32[1,2]"), std::string::npos)
      << infinity.message();
  ValueError nan = ErrorOf([&] { softmin(tensor({-INFINITY, 1.0}), 0).host(); });
  EXPECT_NE(nan.message().find("softmax in softmin made a NaN"), std::string::npos)
      << nan.message();
}

TEST(Anomaly, WhatCameWithTheInputsIsNone) {
  AnomalyGuard guard;
  Tensor x = tensor(std::vector<double>{1, std::nan(""), INFINITY});
  EXPECT_TRUE(std::isnan((x * 2.0).sum().item<double>()));
  Tensor mask = tensor({1.0, -1.0, 1.0}).gt(0.0);
  Tensor masked = where(mask, tensor({1.0, 2.0, 3.0}), -INFINITY);
  EXPECT_EQ(softmax(masked, 0)[1].item<double>(), 0);
  EXPECT_EQ(masked[1].item<double>(), -INFINITY);
}

TEST(Anomaly, IsFoundInSteps) {
  AnomalyGuard guard;
  Tensor weight = tensor({1.0, 2.0}), loss;
  auto train = [&](double scale) {
    step([&] {
      loss = log(weight * scale).sum();
      weight.sub_(loss * 0.1);
    });
  };
  train(1);
  EXPECT_TRUE(std::isfinite(loss.item<double>()));
  ValueError error = ErrorOf([&] {
    train(-1);
    loss.item();
  });
  EXPECT_NE(error.message().find("log made a NaN"), std::string::npos);
}

TEST(Anomaly, IsOffOutsideOfGuards) {
  Tensor bad = log(tensor({-1.0}));
  EXPECT_FALSE(AnomalyGuard::is_enabled());
  EXPECT_TRUE(std::isnan(bad.item<double>()));
}

TEST(Anomaly, WhatIsRecordedInAGuardIsCheckedAtItsEnd) {
  Tensor bad;
  {
    AnomalyGuard guard;
    bad = log(tensor({-1.0}));
  }
  EXPECT_NE(ErrorOf([&] { bad.item(); }).message().find("log made a NaN"), std::string::npos);
}

TEST(Anomaly, TheOptionChecksAllThreads) {
  config::Override debug("debug_nans", "true");
  EXPECT_TRUE(AnomalyGuard::is_enabled());
  std::string message;
  std::thread([&] { message = ErrorOf([] { log(tensor({-1.0})).item(); }).message(); }).join();
  EXPECT_NE(message.find("log made a NaN"), std::string::npos) << message;
  EXPECT_NE(ErrorOf([] { log(tensor({-1.0})).item(); }).message().find("log made a NaN"),
            std::string::npos);
}

TEST(Anomaly, TheOptionNamesTheLineOfTheForwardPass) {
  config::Override debug("debug_nans", "true");
  Tensor x = tensor({4.0, 0.0}).requires_grad_();
  Tensor root = sqrt(x);
  int line = __LINE__ - 1;
  root.sum().backward();
  ValueError error = ErrorOf([&] { x.grad().host(); });
  EXPECT_NE(error.message().find("the gradient of sqrt"), std::string::npos) << error.message();
  EXPECT_EQ(error.where(), LineText(line));
}

TEST(Anomaly, OfACompiledFunctionLeavesOtherResultsAlone) {
  AnomalyGuard guard;
  auto both = compile([](const Tensor& x) { return std::tuple(x + 1.0, log(x)); });
  EXPECT_EQ(std::get<1>(both(tensor({1.0}))).item<double>(), 0);
  auto [sum, bad] = both(tensor({-1.0}));
  ValueError error = ErrorOf([&bad = bad] { bad.item(); });
  EXPECT_NE(error.message().find("log made a NaN"), std::string::npos) << error.message();
  EXPECT_EQ(sum.item<double>(), 0);
}

}  // namespace
}  // namespace hammock
