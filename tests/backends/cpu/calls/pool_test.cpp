// The gradient of maxima over windows, bit for bit as on the reference device.

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "backends/cpu/calls/calls.h"
#include "hammock/autograd.h"
#include "hammock/hammock.h"

namespace hammock::cpu {
namespace {

struct PoolCase {
  Dims sizes;
  int64_t window, stride;
  DType dtype = f32;
  bool nan = false;
  int64_t padding = 0;
  bool ceil_mode = false;
};

/// Few different values, so that many windows have several maxima.
Tensor Values(const Dims& sizes, DType dtype, bool nan) {
  std::mt19937 random(7);
  std::uniform_int_distribution<int> number(-2, 2);
  std::vector<float> values(static_cast<size_t>(Shape(f32, sizes).numel()));
  for (float& value : values) value = static_cast<float>(number(random));
  for (size_t i = 0; nan && i < values.size(); i += 7) values[i] = NAN;
  return tensor(values, sizes).to(dtype);
}

std::vector<double> GradientOn(const Device& device, const PoolCase& c) {
  Tensor x = Values(c.sizes, c.dtype, c.nan).to(device).requires_grad_();
  Tensor y = max_pool2d(x, {c.window}, {c.stride}, {c.padding}, {1}, c.ceil_mode);
  Tensor weights = arange(y.numel(), c.dtype, device) + 1;
  (where(isnan(y), y.detach() * 0, y) * reshape(weights, y.sizes())).sum().backward();
  Tensor gradient = x.grad().to(f64);
  return where(isnan(gradient), full({}, -1.0, f64, device), gradient).to_vector<double>();
}

TEST(MaxPoolGradient, IsThatOfTheReferenceBitForBit) {
  const PoolCase cases[] = {
      {{2, 3, 28, 28}, 2, 2},
      {{2, 3, 14, 14}, 2, 2},
      {{1, 2, 15, 17}, 2, 2},
      {{3, 9, 40}, 2, 2, f64},
      {{2, 2, 11, 9}, 3, 2},
      {{2, 1, 8, 8}, 3, 1},
      {{2, 2, 9, 10}, 3, 3, f64},
      {{64, 16, 12, 12}, 2, 2},
      {{2, 3, 28, 28}, 2, 2, f32, true},
      {{1, 1, 7, 7}, 3, 2, f32, true},
      {{2, 3, 12, 14}, 3, 2, f32, false, 1},
      {{2, 2, 9, 7}, 5, 3, f64, false, 2},
      {{1, 2, 11, 8}, 3, 2, f32, true, 1},
      {{1, 2, 8, 11}, 3, 2, f32, false, 0, true},
      {{1, 2, 8, 8}, 2, 2, f32, false, 1},
      // Rows of more windows than are computed at once, with a rest.
      {{2, 2, 20, 300}, 3, 2, f32, false, 1},
      {{1, 2, 9, 301}, 3, 2, f32, true, 1},
      {{2, 1, 12, 150}, 5, 1, f64, false, 2},
      {{1, 2, 12, 140}, 4, 2, f32, false, 1, true},
      {{1, 1, 30, 90}, 11, 2, f32, false, 3},
  };
  for (const PoolCase& c : cases) {
    EXPECT_EQ(GradientOn("cpu", c), GradientOn("reference", c))
        << Shape(c.dtype, c.sizes).to_string() << " by " << c.window << ", " << c.stride;
  }
}

TEST(MaxPoolGradient, GoesToOneElementOfAWindowOfEquals) {
  Tensor x = zeros({1, 1, 4, 4}).requires_grad_();
  max_pool2d(x, {2}).sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(),
            (std::vector<float>{1, 0, 1, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0}));
}

/// Its windows have padding alone, and no element that could get their gradients.
TEST(MaxPoolGradient, OfAnEmptyPlaneTouchesNothing) {
  const Graph graph = ParseGraph(R"(
    %0 = input : f32[8,1,4]
    %1 = input : f32[8,0,3]
    %2 = _max_window_backward %0, %1 {window=[2,2], stride=[1,1], low=[1,1], high=[1,1], dilation=[1,1]} : f32[8,0,3]
    return %2)");
  std::vector<float> grad(32, 1), memory(64, 0);
  const auto* from = reinterpret_cast<const char*>(grad.data());
  auto* empty = reinterpret_cast<char*>(memory.data());
  const char* in[] = {from, empty};
  char* out[] = {empty};
  MakeCall(graph, graph.outputs()[0].node)->Run(in, out, nullptr);
  EXPECT_EQ(memory, std::vector<float>(64, 0));
}

}  // namespace
}  // namespace hammock::cpu
