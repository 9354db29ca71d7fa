#include "hammock/optim/clip.h"

#include <gtest/gtest.h>

#include <cmath>

#include "hammock/hammock.h"
#include "support/tensor_matchers.h"

namespace hammock::optim {
namespace {

TEST(ClipGradNorm, ScalesAllGradientsTogether) {
  Tensor a = zeros({2}).requires_grad_(), b = zeros({1}).requires_grad_(), c = zeros({1});
  a.set_grad(tensor({3.0f, 0.0f}));
  b.set_grad(tensor({4.0f}));
  Tensor norm = clip_grad_norm_({a, b, c}, 1.0);
  EXPECT_FLOAT_EQ(norm.item<float>(), 5.0f);
  EXPECT_NEAR(a.grad().to_vector<float>()[0], 0.6f, 1e-6);
  EXPECT_NEAR(b.grad().to_vector<float>()[0], 0.8f, 1e-6);
  EXPECT_NEAR(clip_grad_norm_({a, b}, 10.0).item<float>(), 1.0f, 1e-6);
  EXPECT_NEAR(a.grad().to_vector<float>()[0], 0.6f, 1e-6);  // already within
  double infinity = std::numeric_limits<double>::infinity();
  EXPECT_NEAR(clip_grad_norm_({a, b}, 10.0, infinity).item<float>(), 0.8f, 1e-6);
  EXPECT_EQ(clip_grad_norm_({c}, 1.0).item<float>(), 0.0f);
}

TEST(ClipGradValue, LimitsEveryElement) {
  Tensor a = zeros({3}).requires_grad_();
  a.set_grad(tensor({-3.0f, 0.25f, 2.0f}));
  clip_grad_value_({a}, 0.5);
  EXPECT_EQ(a.grad().to_vector<float>(), (std::vector<float>{-0.5, 0.25, 0.5}));
}

TEST(EMA, AveragesAndExchanges) {
  Tensor p = tensor({1.0f}).requires_grad_();
  EMA average({p}, 0.75);
  {
    NoGradGuard no_grad;
    p.add_(4.0);
  }
  average.update();
  EXPECT_EQ(average.averages()[0].item<float>(), 2.0f);
  average.swap();
  EXPECT_EQ(p.item<float>(), 2.0f);
  average.swap();
  EXPECT_EQ(p.item<float>(), 5.0f);
  EXPECT_TRUE(p.requires_grad());
  EXPECT_THROW_MESSAGE(EMA({p}, 1.5), ValueError, "decay is 1.5");
}

}  // namespace
}  // namespace hammock::optim
