/// The comparison of gradients with slopes, on modules whose gradients are wrong.

#include "gradients.h"

#include <gtest/gtest.h>

#include "hammock/autograd.h"
#include "hammock/ops.h"

namespace hammock::onnx_suite {
namespace {

using Forward = Tensor (*)(const Tensor& x, const Tensor& weight, const Tensor& bias);

std::string Complaint(Forward forward) {
  manual_seed(7);
  Module module("Net");
  module.register_parameter("weight", randn({4, 3}));
  module.register_parameter("bias", randn({3}));
  module.define(
      "forward(Tensor x) -> Tensor", [forward](Module& self, const std::vector<Any>& args) -> Any {
        return forward(args[0].ToTensor(), self.get_tensor("weight"), self.get_tensor("bias"));
      });
  return CheckGradients(module, {randn({2, 4})}, 2);
}

TEST(OnnxGradients, RightOnesPass) {
  EXPECT_EQ(Complaint([](const Tensor& x, const Tensor& weight, const Tensor& bias) {
              return tanh(matmul(x, weight) + bias);
            }),
            "");
}

TEST(OnnxGradients, TheLostOneOfASmallParameterIsFound) {
  EXPECT_EQ(Complaint([](const Tensor& x, const Tensor& weight, const Tensor& bias) {
              return tanh(matmul(x, weight) + bias.detach() * 1e-3);
            }),
            "the gradient of 'bias' is 0, but outputs depend on it");
}

TEST(OnnxGradients, TheLostOneOfAnInputIsFound) {
  EXPECT_NE(Complaint([](const Tensor& x, const Tensor& weight, const Tensor& bias) {
              return tanh(matmul(x.detach(), weight) + bias);
            }),
            "");
}

/// A lost half of the sum is no part of the gradient, along which the slope is right.
TEST(OnnxGradients, AnIncompleteOneIsFoundByRandomDirections) {
  const std::string complaint =
      Complaint([](const Tensor& x, const Tensor& weight, const Tensor& bias) {
        Tensor left = narrow(weight, 0, 0, 2), right = narrow(weight, 0, 2, 2);
        return matmul(x, cat({left, right.detach()})) + bias;
      });
  EXPECT_TRUE(complaint.starts_with("the slope along a random direction")) << complaint;
}

/// Outputs on which it has no influence: a relu of what is negative.
TEST(OnnxGradients, AZeroOneOfWhatHasNoInfluencePasses) {
  EXPECT_EQ(Complaint([](const Tensor& x, const Tensor& weight, const Tensor& bias) {
              return matmul(x, weight) + relu(bias - 100.0);
            }),
            "");
}

}  // namespace
}  // namespace hammock::onnx_suite
