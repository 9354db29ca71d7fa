// Convolutions with strides.

#include <gtest/gtest.h>

#include "hammock/hammock.h"
#include "support/tensor_matchers.h"

namespace hammock {
namespace {

/// The gradient of a convolution by its input, one product at a time.
std::vector<double> GradientOf(const std::vector<double>& weight, int64_t size, int64_t stride,
                               int64_t padding) {
  const auto reach = static_cast<int64_t>(weight.size());
  std::vector<double> gradient(static_cast<size_t>(size));
  for (int64_t begin = -padding; begin + reach <= size + padding; begin += stride) {
    for (int64_t k = 0; k < reach; ++k) {
      const int64_t at = begin + k;
      if (at >= 0 && at < size) gradient[static_cast<size_t>(at)] += weight[static_cast<size_t>(k)];
    }
  }
  return gradient;
}

TEST(StridedConvolutions, GradientsAreZeroWhereNoWindowReaches) {
  const std::vector<double> weight = {1, 2, 4};
  for (int64_t stride : {1, 2, 3, 5}) {
    for (int64_t padding : {0, 1, 2}) {
      for (int64_t size : {5, 6, 7, 8, 9, 10}) {
        Tensor x = zeros({1, 1, size}, f64).requires_grad_();
        conv1d(x, tensor(weight).reshape({1, 1, 3}), std::nullopt, {stride}, {padding})
            .sum()
            .backward();
        EXPECT_EQ(x.grad().to_vector<double>(), GradientOf(weight, size, stride, padding))
            << "stride " << stride << ", padding " << padding << ", size " << size;
      }
    }
  }
}

TEST(StridedConvolutions, WhatNoWindowReachesIsPaddedBehindThem) {
  // Libraries have no kernels for transposed ones with more output padding than padding.
  Tensor x = rand({2, 4, 13, 14}).requires_grad_();
  Tensor weight = rand({8, 4, 4, 4});
  Tensor y = conv2d(x, weight, std::nullopt, {4, 4});
  y.sum().backward();
  Tensor up = conv_transpose2d(y.detach(), weight, std::nullopt, {4, 4}, {0, 0}, {3, 2});
  EXPECT_EQ(up.sizes(), (Dims{2, 4, 15, 14}));
  for (const Tensor& result : {x.grad(), up}) {
    const std::string text = LazyGraphExecutor::Get()->DumpTensors(std::span(&result, 1));
    EXPECT_EQ(text.find("output_padding=[1"), std::string::npos) << text;
    EXPECT_EQ(text.find("output_padding=[3"), std::string::npos) << text;
    EXPECT_NE(text.find("pad_constant"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace hammock
