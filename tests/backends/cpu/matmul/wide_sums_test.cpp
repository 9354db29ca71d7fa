// The option wide_sums: matmuls and convolutions of f32 as those of f64, rounded once.

#include <gtest/gtest.h>

#include "hammock/autograd.h"
#include "hammock/hammock.h"

namespace hammock {
namespace {

/// Results of `compute` on f32 and, cast at the end, on f64 operands.
template <class F>
void ExpectSumsOfDoubles(F compute) {
  manual_seed(3);
  Tensor a = randn({4, 8, 20, 20}) * 100, b = randn({6, 8, 3, 3});
  config::Override wide("wide_sums", "true");
  EXPECT_EQ(compute(a, b).template to_vector<float>(),
            compute(a.to(f64), b.to(f64)).to(f32).template to_vector<float>());
}

TEST(WideSums, OfMatmuls) {
  ExpectSumsOfDoubles([](const Tensor& a, const Tensor& b) {
    return matmul(reshape(a, {64, -1}), reshape(b, {-1, 2}).repeat({1, 16}).slice(0, 0, 200));
  });
}

TEST(WideSums, OfConvolutionsAndTheirGradients) {
  ExpectSumsOfDoubles([](const Tensor& a, const Tensor& b) { return conv2d(a, b); });
  ExpectSumsOfDoubles([](const Tensor& a, const Tensor& b) {
    Tensor w = b.detach().requires_grad_();
    conv2d(a, w).sum().backward();
    return w.grad();
  });
}

TEST(WideSums, AreAnotherCompilation) {
  Tensor x = tensor({1e8f, 1.0f, -1e8f}), y = ones({3, 1});
  auto compute = [&] { return matmul(reshape(x, {1, 3}), y).item<float>(); };
  compute();
  config::Override wide("wide_sums", "true");
  EXPECT_EQ(compute(), 1.0f);
}

}  // namespace
}  // namespace hammock
