// The gradient of maxima over windows, bit for bit as on the reference device.

#include <gtest/gtest.h>

#include <cmath>
#include <random>

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

}  // namespace
}  // namespace hammock::cpu
