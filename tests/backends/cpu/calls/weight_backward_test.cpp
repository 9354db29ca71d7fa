// The gradient of a convolution's weight, against the reference device.

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "hammock/autograd.h"
#include "hammock/hammock.h"
#include "hammock/op_builder.h"
#include "ir/primitives.h"

namespace hammock::cpu {
namespace {

struct ConvCase {
  Dims input, weight;
  int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
  bool transposed = false;
};

Tensor Values(const Dims& sizes, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> number(-1, 1);
  std::vector<float> values(static_cast<size_t>(Shape(f32, sizes).numel()));
  for (float& value : values) value = number(random);
  return tensor(values, sizes);
}

std::vector<float> GradientOn(const Device& device, const ConvCase& c) {
  Tensor x = Values(c.input, 1).to(device), w = Values(c.weight, 2).to(device).requires_grad_();
  auto all = [&](int64_t value) { return Dims::Filled(c.input.size() - 2, value); };
  Tensor y =
      Apply(ops::kConvolution, Location::current(), {x, w},
            {all(c.stride), all(c.padding), all(c.dilation), c.transposed, all(0), c.groups});
  (y * Values(y.sizes(), 3).to(device)).sum().backward();
  return w.grad().to_vector<float>();
}

TEST(WeightBackward, IsThatOfTheReference) {
  const ConvCase cases[] = {
      {{4, 3, 9, 8}, {5, 3, 3, 3}, 1, 1},
      {{19, 2, 7, 7}, {4, 2, 3, 3}, 2, 1},  // images that do not divide into equal groups
      {{3, 4, 8, 8}, {6, 2, 3, 3}, 1, 1, 1, 2},
      {{5, 6, 9, 9}, {6, 1, 3, 3}, 1, 1, 1, 6},
      {{2, 3, 11, 11}, {4, 3, 3, 3}, 1, 2, 2},
      {{2, 3, 20}, {4, 3, 5}, 3, 2},
      {{2, 2, 5, 6, 5}, {3, 2, 3, 3, 3}, 1, 1},
      {{1, 3, 10, 10}, {8, 3, 1, 1}},
      {{3, 4, 6, 6}, {4, 3, 3, 3}, 2, 1, 1, 1, true},
      {{2, 3, 10, 10}, {4, 3, 4, 4}, 4},     // a border that no window reaches
      {{2, 8, 6, 6}, {128, 8, 3, 3}, 1, 1},  // blocks of output channels
      {{3, 16, 5, 5}, {256, 16, 1, 1}},
  };
  for (const ConvCase& c : cases) {
    std::vector<float> actual = GradientOn("cpu", c), expected = GradientOn("reference", c);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_NEAR(actual[i], expected[i], 1e-5 * (1 + std::abs(expected[i])) * 8)
          << Shape(f32, c.input).to_string() << ", " << Shape(f32, c.weight).to_string();
    }
  }
}

TEST(WeightBackward, DoesNotDependOnTheNumberOfThreads) {
  for (const ConvCase& c :
       {ConvCase{{33, 4, 12, 12}, {8, 4, 3, 3}, 1, 1}, {{2, 8, 6, 6}, {256, 8, 3, 3}, 1, 1}}) {
    std::vector<float> first = GradientOn("cpu", c);
    config::Override one("cpu.threads", "1");
    EXPECT_EQ(GradientOn("cpu", c), first);
  }
}

}  // namespace
}  // namespace hammock::cpu
