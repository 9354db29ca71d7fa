// Errors that only values decide: the call records, reading raises and names the call's line.

#include <gtest/gtest.h>

#include "hammock/hammock.h"
#include "ops/expect.h"

namespace hammock {
namespace {

TEST(Require, RaisesAtTheReadWithTheLineOfTheCall) {
  Tensor x = Vec({0.5, 1.5}), target = Vec({1, 0});
  Tensor loss = binary_cross_entropy(x, target);
  std::string line = std::to_string(__LINE__ - 1);
  try {
    loss.item();
    ADD_FAILURE() << "did not throw";
  } catch (const Error& error) {
    EXPECT_NE(
        error.message().find("binary_cross_entropy: all elements of input must be between 0 and 1"),
        std::string::npos)
        << error.message();
    EXPECT_NE(error.where().find("require_test.cpp:" + line), std::string::npos) << error.where();
  }
}

TEST(Require, IsSeenByWhoeverUsesTheResult) {
  Tensor x = Vec({0.5, -0.5}).requires_grad_();
  binary_cross_entropy(x, Vec({1, 0}), std::nullopt, "sum").backward();
  EXPECT_ERROR(x.grad().host(), Error, "between 0 and 1");
  EagerMode eager;
  EXPECT_ERROR(binary_cross_entropy(x, Vec({1, 0})), Error, "between 0 and 1");
}

TEST(Require, LetsGoodValuesThrough) {
  EXPECT_TENSOR(binary_cross_entropy(Vec({0, 1}), Vec({0, 1}), std::nullopt, "none"),
                Type(f32, {2}), {0, 0}, 1e-9);
  EXPECT_TENSOR(bernoulli(Vec({0, 1})), Type(f32, {2}), {0, 1});
  EXPECT_TENSOR(normal(Vec({2, 3}), Vec({0, 0})), Type(f32, {2}), {2, 3});
  EXPECT_TENSOR(quantile(Vec({1, 2, 3}), Vec({0, 1})), Type(f32, {2}), {1, 3});
  EXPECT_TENSOR(CallOp("require", {Vec({1, 2}), tensor({true, true}), "no"}).ToTensor(),
                Type(f32, {2}), {1, 2});
}

TEST(Require, LossesRefuseWhatTheyCannotJudge) {
  Tensor x = Vec({0.5, 1}), target = Vec({1, 0});
  EXPECT_ERROR(binary_cross_entropy(Vec({kNan, 0}), target).host(), Error, "between 0 and 1");
  EXPECT_ERROR(gaussian_nll_loss(x, target, Vec({1, -1})).host(), Error,
               "gaussian_nll_loss: var has negative entries");
  Tensor log_probs = log_softmax(zeros({3, 1, 4}), 2), labels = tensor({{1, 2}});
  Tensor two = tensor({2}), four = tensor({4}), three = tensor({3});
  EXPECT_ERROR(ctc_loss(log_probs, labels, four, two).host(), Error,
               "ctc_loss: input_lengths must not be beyond");
  EXPECT_ERROR(ctc_loss(log_probs, labels, three, three).host(), Error,
               "ctc_loss: target_lengths must not be beyond");
}

TEST(Require, RandomOpsRefuseImpossibleParameters) {
  EXPECT_ERROR(bernoulli(Vec({0.5, 1.5})).host(), Error, "bernoulli: probabilities must be");
  EXPECT_ERROR(bernoulli(Vec({kNan})).host(), Error, "bernoulli: probabilities must be");
  EXPECT_ERROR(normal(Vec({0, 0}), Vec({1, -1})).host(), Error, "normal: std must not be");
  EXPECT_ERROR(normal(0.0, Vec({-1})).host(), Error, "normal: std must not be");
}

TEST(Require, StatisticsRefuseWhatIsOutOfRange) {
  EXPECT_ERROR(quantile(Vec({1, 2}), Vec({0.5, 1.1})).host(), Error,
               "quantile: q values must be in the range [0, 1]");
  EXPECT_ERROR(nanquantile(Vec({1, 2}), Vec({-0.1})).host(), Error, "nanquantile: q values");
  EXPECT_ERROR(repeat_interleave(Vec({1, 2}), tensor({2, -1})).host(), Error,
               "repeat_interleave: repeats can not be negative");
  EXPECT_ERROR(one_hot(tensor({0, -1}), 3).host(), Error, "index -1 is out of bounds");
  EXPECT_ERROR(bincount(tensor({1, -1})).host(), Error, "index -1 is out of bounds");
}

}  // namespace
}  // namespace hammock
