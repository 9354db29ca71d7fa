// Branches and loops written as functions.

#include "hammock/control.h"

#include <gtest/gtest.h>

#include "hammock/hammock.h"
#include "support/tensor_matchers.h"

namespace hammock {
namespace {

using Tensors = std::vector<Tensor>;

TEST(ControlFunctions, ABranchIsChosenWhenTheStepRuns) {
  Tensor w = tensor({3.0f, 4.0f}).requires_grad_();
  auto doubled = [&](const Tensors& in) { return Tensors{in[0] * w}; };
  auto negated = [](const Tensors& in) { return Tensors{-in[0]}; };
  for (float sign : {1.0f, -1.0f}) {
    w.set_grad(Tensor());
    Tensor x = tensor({sign, sign}).requires_grad_();
    Tensor y = cond(x.sum() > 0.0, doubled, negated, {x}, {w})[0];
    y.sum().backward();
    EXPECT_TENSOR_EQ(y.detach(), sign > 0 ? tensor({3.0f, 4.0f}) : tensor({1.0f, 1.0f}));
    EXPECT_TENSOR_EQ(x.grad(), sign > 0 ? tensor({3.0f, 4.0f}) : tensor({-1.0f, -1.0f}));
    EXPECT_TENSOR_EQ(w.grad(), sign > 0 ? tensor({1.0f, 1.0f}) : tensor({0.0f, 0.0f}));
  }
  EXPECT_THROW(cond(w.sum() > 0.0, doubled, negated, {tensor({1.0f, 1.0f})}), ValueError)
      << "w would have no gradient";
}

TEST(ControlFunctions, AFunctionMayWriteItsArguments) {
  Tensor x = tensor({1.0f, 2.0f});
  auto writes = [](const Tensors& in) {
    Tensor y = in[0];
    y += 1.0;
    return Tensors{y * 2.0, y};
  };
  auto keeps = [](const Tensors& in) { return Tensors{in[0], in[0]}; };
  Tensors results = cond(tensor(true), writes, keeps, {x});
  EXPECT_TENSOR_EQ(results[0], tensor({4.0f, 6.0f}));
  EXPECT_TENSOR_EQ(results[1], tensor({2.0f, 3.0f}));
  EXPECT_TENSOR_EQ(x, tensor({1.0f, 2.0f}));
}

TEST(ControlFunctions, ALoopRunsAsLongAsItsConditionHolds) {
  Tensor factor = tensor(2.0f);
  Tensors results = while_loop([](const Tensors& in) { return Tensors{in[1] < 100.0}; },
                               [&](const Tensors& in) {
                                 return Tensors{in[0] + int64_t{1}, in[1] * factor};
                               },
                               {tensor(int64_t{0}), tensor(3.0f)});
  EXPECT_EQ(results[0].item<int64_t>(), 6);
  EXPECT_EQ(results[1].item<float>(), 192);
  auto draws = [](const Tensors& in) { return Tensors{in[0] + rand({})}; };
  EXPECT_THROW(
      while_loop([](const Tensors& in) { return Tensors{in[0] < 1.0}; }, draws, {tensor(0.0f)}),
      NotSupported);
}

TEST(ControlFunctions, ALoopOfKnownLengthHasGradients) {
  Tensor w = tensor(0.5f).requires_grad_();
  Tensor x = tensor({1.0f, 2.0f, 3.0f}).requires_grad_();
  Tensors results = for_loop(3,
                             [&](const Tensors& in) {
                               return Tensors{in[1] * w + in[2], in[1]};
                             },
                             {tensor(0.0f)}, {x}, {w});
  EXPECT_EQ(results[0].item<float>(), 4.25f);  // (1 * 0.5 + 2) * 0.5 + 3
  EXPECT_TENSOR_EQ(results[1].detach(), tensor({0.0f, 1.0f, 2.5f}));
  results[0].backward();
  EXPECT_TENSOR_EQ(x.grad(), tensor({0.25f, 0.5f, 1.0f}));
  EXPECT_EQ(w.grad().item<float>(), 3.0f);  // 2 * 0.5 * 1 + 2
}

TEST(ControlFunctions, OneMayBeInAnother) {
  Tensor y = cond(
      tensor(true),
      [](const Tensors& in) {
        Tensor twice = in[0] * 2.0;
        return cond(
            tensor(true), [&](const Tensors&) { return Tensors{twice + 1.0}; },
            [&](const Tensors&) { return Tensors{twice}; }, {});
      },
      [](const Tensors& in) { return in; }, {tensor(4.0f)})[0];
  EXPECT_EQ(y.item<float>(), 9);
}

}  // namespace
}  // namespace hammock
