// Gradients of loops and branches.

#include <gtest/gtest.h>

#include "hammock/hammock.h"
#include "hammock/op_builder.h"
#include "hammock/testing.h"
#include "ir/primitives.h"
#include "ops/primitives/loop.h"
#include "support/tensor_matchers.h"
#include "trace/symbolic.h"

namespace hammock {
namespace {

using ops::Loop;
using ops::LoopStep;

Tensor Numbers(const Dims& sizes, double phase) {
  int64_t count = Shape(DType::kBool, sizes).numel();
  return sin(arange(count).to(DType::kF64) * 0.7 + phase).reshape(sizes);
}

TEST(LoopGradient, OfCarriedStackedAndInvariantOperands) {
  // A recurrent layer: h = tanh(h * u + x_i * w), all h are kept.
  TensorsFn layer = [](const std::vector<Tensor>& in) {
    return Loop(4, {{in[0]}, {in[1]}, {in[2], in[3]}},
                [](const LoopStep& s) -> std::vector<Tensor> {
                  Tensor next = tanh(s.carried[0] * s.invariant[0] + s.slices[0] * s.invariant[1]);
                  return {next, next * next};
                });
  };
  std::vector<Tensor> inputs = {Numbers({2, 3}, 0.1), Numbers({4, 2, 3}, 0.5), Numbers({3}, 0.9),
                                Numbers({2, 3}, 1.3)};
  EXPECT_EQ(testing::Gradcheck(layer, inputs), "");
  EXPECT_EQ(testing::Gradgradcheck(layer, inputs, {1e-5, 1e-4, 1e-3}), "");
}

TEST(LoopGradient, PassesIntegersByAndUsesTheIndex) {
  TensorsFn powers = [](const std::vector<Tensor>& in) {
    Tensor counter = zeros({}, DType::kI64);
    auto results =
        Loop(3, {{counter, in[0]}, {}, {}}, [](const LoopStep& s) -> std::vector<Tensor> {
          return {s.carried[0] + s.index, s.carried[1] * s.carried[1] * (s.index + 1)};
        });
    return std::vector<Tensor>{results[1]};
  };
  EXPECT_EQ(testing::Gradcheck(powers, {Numbers({3}, 0.4)}), "");
}

TEST(LoopGradient, OfNoIterations) {
  Tensor x = ones({2}).requires_grad_();
  auto results = Loop(0, {{x}, {}, {}}, [](const LoopStep& s) -> std::vector<Tensor> {
    return {s.carried[0] * 2.0};
  });
  sum(results[0]).backward();
  EXPECT_TENSOR_EQ(x.grad(), {1, 1}, {2});
}

TEST(BranchGradient, IsThatOfTheBranchThatRan) {
  const Shape type(DType::kF64, {3});
  auto body = [&](auto fn) {
    const Shape types[] = {type, type};
    return Attr(std::make_shared<const Graph>(TraceSymbolically(
        types, [&](std::span<const Tensor> in) { return std::vector<Tensor>{fn(in[0], in[1])}; })));
  };
  const Attr branches[] = {body([](const Tensor& a, const Tensor& b) { return a * a * b; }),
                           body([](const Tensor& a, const Tensor&) { return sin(a); })};
  for (bool first : {true, false}) {
    TensorsFn choose = [&](const std::vector<Tensor>& in) {
      const Tensor operands[] = {tensor(first), in[0], in[1]};
      return ApplyMulti(ops::kCond, Location::current(), operands, branches);
    };
    std::vector<Tensor> inputs = {Numbers({3}, 0.2), Numbers({3}, 0.8)};
    EXPECT_EQ(testing::Gradcheck(choose, inputs), "") << first;
    EXPECT_EQ(testing::Gradgradcheck(choose, inputs, {1e-5, 1e-4, 1e-3}), "") << first;
  }
}

TEST(WhileGradient, IsRefusedByName) {
  const Shape types[] = {Shape(DType::kF32, {})};
  auto body = [&](auto fn) {
    return Attr(std::make_shared<const Graph>(TraceSymbolically(
        types, [&](std::span<const Tensor> in) { return std::vector<Tensor>{fn(in[0])}; })));
  };
  const Attr attrs[] = {body([](const Tensor& x) { return x < 10.0; }),
                        body([](const Tensor& x) { return x * 2.0; })};
  Tensor x = tensor(1.0f).requires_grad_();
  Tensor y = ApplyMulti(ops::kWhile, Location::current(), std::span(&x, 1), attrs)[0];
  EXPECT_TENSOR_EQ(y, {16}, {});
  EXPECT_THROW_MESSAGE(y.backward(), NotSupported, "while has no gradient");
}

}  // namespace
}  // namespace hammock
