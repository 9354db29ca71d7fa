#include "hammock/ir/node.h"
#include "ops/expect.h"

namespace hammock {
namespace {

TEST(BinaryCrossEntropy, BoundsLogarithms) {
  Tensor x = Vec({0.5, 0, 1}), target = Vec({1, 1, 1});
  EXPECT_TENSOR(binary_cross_entropy(x, target, std::nullopt, "none"), Type(f32, {3}),
                {std::log(2.0), 100, 0}, 1e-6);
  EXPECT_TENSOR(binary_cross_entropy(x, target, Vec({2, 0, 0}), "sum"), Type(f32, {}),
                {2 * std::log(2.0)}, 1e-6);
  EXPECT_TENSOR(binary_cross_entropy(Vec({0.25, 0.75}, bf16), Vec({0, 1}, bf16)), Type(bf16, {}),
                {-std::log(0.75)}, 1e-2);
  EXPECT_ERROR(binary_cross_entropy(Vec({kNan}), Vec({1})).host(), Error, "between 0 and 1");
  EXPECT_ERROR(binary_cross_entropy(x, Vec({1})), ValueError, "must have the sizes of input");
  EXPECT_ERROR(binary_cross_entropy(x, target, Vec({1, 2})), ValueError, "binary_cross_entropy");
  EXPECT_ERROR(binary_cross_entropy(x, Vec({1, 1, 1}, i64)), ValueError, "target of the same type");
}

TEST(BinaryCrossEntropy, OfLogitsDoesNotOverflow) {
  Tensor x = Vec({0, 1000, -1000}), target = Vec({1, 0, 0});
  EXPECT_TENSOR(binary_cross_entropy_with_logits(x, target, std::nullopt, "none"), Type(f32, {3}),
                {std::log(2.0), 1000, 0}, 1e-6);
  EXPECT_TENSOR(binary_cross_entropy_with_logits(x, target, std::nullopt, "none", Vec({3, 3, 3})),
                Type(f32, {3}), {3 * std::log(2.0), 1000, 0}, 1e-6);
  EXPECT_ERROR(binary_cross_entropy_with_logits(x, Vec({1})), ValueError, "sizes of input");
}

TEST(KlDiv, OfProbabilitiesAndTheirLogarithms) {
  Tensor x = tensor({{0.0, 0.0}, {0.0, 0.0}}), target = tensor({{1.0, 0.0}, {2.0, 2.0}});
  double part = 2 * std::log(2.0);
  EXPECT_TENSOR(kl_div(x, target, "none"), Type(f32, {2, 2}), {0, 0, part, part}, 1e-6);
  EXPECT_TENSOR(kl_div(x, target, "batchmean"), Type(f32, {}), {part}, 1e-6);
  EXPECT_TENSOR(kl_div(x, log(target), "sum", true), Type(f32, {}), {kNan});
  EXPECT_TENSOR(kl_div(x, Vec({0, std::log(2.0)}), "sum", true), Type(f32, {}), {2 * part}, 1e-6);
  EXPECT_ERROR(kl_div(x, target, "batch"), ValueError, "kl_div: reduction");
}

TEST(SmoothLosses, AreQuadraticNearZero) {
  Tensor x = Vec({0.5, 3, -3}), zero = Vec({0, 0, 0});
  EXPECT_TENSOR(smooth_l1_loss(x, zero, "none"), Type(f32, {3}), {0.125, 2.5, 2.5});
  EXPECT_TENSOR(smooth_l1_loss(x, zero, "none", 2), Type(f32, {3}), {0.0625, 2, 2});
  EXPECT_TENSOR(smooth_l1_loss(x, zero, "sum", 0), Type(f32, {}), {6.5});
  EXPECT_TENSOR(huber_loss(x, zero, "none", 2), Type(f32, {3}), {0.125, 4, 4});
  EXPECT_ERROR(smooth_l1_loss(x, zero, "mean", -1), ValueError, "beta must be at least 0, got -1");
  EXPECT_ERROR(huber_loss(x, zero, "mean", 0), ValueError, "delta must be greater than 0");
}

TEST(SmoothLosses, DoNotRecompileForAnotherBeta) {
  Tensor x = Vec({0.5, 3}), zero = Vec({0, 0});
  smooth_l1_loss(x, zero, "mean", 1).host();
  int64_t before = Compiles();
  EXPECT_TENSOR(smooth_l1_loss(x, zero, "mean", 2), Type(f32, {}), {(0.0625 + 2) / 2});
  EXPECT_EQ(Compiles(), before);
}

TEST(Likelihoods, GaussianAndPoisson) {
  Tensor x = tensor({{1.0, 3.0}}), target = tensor({{0.0, 0.0}});
  EXPECT_TENSOR(gaussian_nll_loss(x, target, Vec({1}), false, 1e-6, "none"), Type(f32, {1, 2}),
                {0.5, 4.5}, 1e-6);
  // A variance of 0 counts as eps.
  EXPECT_TENSOR(gaussian_nll_loss(x, target, tensor({{0.0}}), false, 1.0, "none"),
                Type(f32, {1, 2}), {0.5, 4.5}, 1e-6);
  EXPECT_TENSOR(gaussian_nll_loss(Vec({0}), Vec({0}), Vec({1}), true), Type(f32, {}),
                {0.5 * std::log(2 * M_PI)}, 1e-6);
  EXPECT_ERROR(gaussian_nll_loss(x, target, Vec({1, 1, 1})), ValueError, "var f32[3]");
  Tensor count = Vec({0, 2}, i64);
  EXPECT_TENSOR(poisson_nll_loss(count, count, false, false, 1.0, "none"), Type(f32, {2}),
                {0, 2 - 2 * std::log(3.0)}, 1e-6);
  double stirling = 2 * std::log(2.0) - 2 + 0.5 * std::log(4 * M_PI);
  EXPECT_TENSOR(poisson_nll_loss(Vec({0, 0}), Vec({1, 2}), true, true, 1e-8, "none"),
                Type(f32, {2}), {1, 1 + stirling}, 1e-6);
}

TEST(MarginLosses, OfNumbers) {
  Tensor x = Vec({0.5, 2}), sign = Vec({-1, 1});
  EXPECT_TENSOR(hinge_embedding_loss(x, sign, 1, "none"), Type(f32, {2}), {0.5, 2});
  EXPECT_TENSOR(soft_margin_loss(Vec({0}), Vec({1})), Type(f32, {}), {std::log(2.0)}, 1e-6);
  EXPECT_TENSOR(margin_ranking_loss(x, Vec({0, 5}), sign, 0.5, "none"), Type(f32, {2}), {1, 3.5});
  EXPECT_TENSOR(margin_ranking_loss(Vec({1}, i64), Vec({0}, i64), Vec({-1}, i64)), Type(f32, {}),
                {1});
  EXPECT_ERROR(margin_ranking_loss(x, tensor({{1.0}}), sign), ValueError, "as many dims");
}

TEST(Distances, OfVectors) {
  Tensor a = tensor({{3.0, 4.0}, {0.0, 0.0}}), b = tensor({{4.0, 3.0}, {1.0, 0.0}});
  EXPECT_TENSOR(cosine_similarity(a, b), Type(f32, {2}), {0.96, 0}, 1e-6);
  EXPECT_TENSOR(cosine_similarity(a, b, 0, 10), Type(f32, {2}), {0.12, 0.12}, 1e-6);
  EXPECT_TENSOR(normalize(a), Type(f32, {2, 2}), {0.6, 0.8, 0, 0}, 1e-6);
  EXPECT_TENSOR(normalize(a, 1, 0), Type(f32, {2, 2}), {1, 1, 0, 0});
  EXPECT_TENSOR(pairwise_distance(a, b, 2, 0, true), Type(f32, {2, 1}), {std::sqrt(2.0), 1}, 1e-6);
  EXPECT_TENSOR(pairwise_distance(a, b, kInf, 0), Type(f32, {2}), {1, 1});
  Tensor points = tensor({{0.0, 0.0}, {3.0, 4.0}, {0.0, 1.0}});
  EXPECT_TENSOR(pdist(points), Type(f32, {3}), {5, 1, std::sqrt(18.0)}, 1e-6);
  EXPECT_TENSOR(pdist(points, 0), Type(f32, {3}), {2, 1, 2});
  EXPECT_TENSOR(pdist(zeros({1, 2})), Type(f32, {0}), {});
  EXPECT_ERROR(pdist(Vec({1})), ValueError, "pdist: needs a matrix");
  EXPECT_ERROR(pdist(points, -1), ValueError, "p must be at least 0");
  EXPECT_ERROR(cosine_similarity(Vec({1}, i64), Vec({1}, i64), 0), TypeError, "floating dtype");
}

TEST(Distances, AsLosses) {
  Tensor a = tensor({{1.0, 0.0}, {1.0, 0.0}}), b = tensor({{1.0, 0.0}, {1.0, 1.0}});
  EXPECT_TENSOR(cosine_embedding_loss(a, b, Vec({1, -1}), 0.5, "none"), Type(f32, {2}),
                {0, std::sqrt(0.5) - 0.5}, 1e-6);
  EXPECT_TENSOR(cosine_embedding_loss(Vec({1, 0}, i64), Vec({0, 1}, i64), tensor(1)), Type(f32, {}),
                {1}, 1e-6);
  EXPECT_ERROR(cosine_embedding_loss(a, b, tensor(1.0)), ValueError, "cosine_embedding_loss");
  Tensor far = tensor({{5.0, 0.0}, {1.0, 0.5}});
  EXPECT_TENSOR(triplet_margin_loss(a, b, far, 1, 2, 0, false, "none"), Type(f32, {2}), {0, 1.5},
                1e-6);
  // The positive of the second is as close to the negative as the anchor is.
  EXPECT_TENSOR(triplet_margin_loss(a, b, far, 1, 2, 0, true, "none"), Type(f32, {2}), {0, 1.5},
                1e-6);
}

TEST(ClassLosses, MultiMargin) {
  Tensor x = tensor({{1.0, 3.0, 0.0}, {0.0, 0.0, 4.0}}), target = Vec({0, 2}, i64);
  EXPECT_TENSOR(multi_margin_loss(x, target, 1, 1.0, std::nullopt, "none"), Type(f32, {2}), {1, 0});
  EXPECT_TENSOR(multi_margin_loss(x, target, 2, 1.0, Vec({2, 0, 0}), "none"), Type(f32, {2}),
                {6, 0}, 1e-6);
  EXPECT_TENSOR(multi_margin_loss(Vec({1, 3}), tensor(0), 1, 1.0, std::nullopt, "none"),
                Type(f32, {}), {1.5});
  EXPECT_ERROR(multi_margin_loss(x, target, 3), ValueError, "p must be 1 or 2, got 3");
  EXPECT_ERROR(multi_margin_loss(x, Vec({0}, i64)), ValueError, "needs 2 targets of i64");
  EXPECT_ERROR(multi_margin_loss(x, Vec({0, 3}, i64)).host(), Error, "out of bounds");
}

TEST(ClassLosses, MultilabelEndsAtMinusOne) {
  Tensor x = tensor({{0.1, 0.2, 0.4, 0.8}}), target = tensor({{3, 0, -1, 1}});
  EXPECT_TENSOR(
      multilabel_margin_loss(x, target), Type(f32, {}),
      {0.25 * ((1 - (0.1 - 0.2)) + (1 - (0.1 - 0.4)) + (1 - (0.8 - 0.2)) + (1 - (0.8 - 0.4)))},
      1e-6);
  EXPECT_TENSOR(multilabel_margin_loss(x, tensor({{-1, 0, 0, 0}}), "none"), Type(f32, {1}), {0});
  EXPECT_TENSOR(multilabel_soft_margin_loss(zeros({2, 3}), ones({2, 3}), std::nullopt, "none"),
                Type(f32, {2}), {std::log(2.0), std::log(2.0)}, 1e-6);
}

TEST(ClassLosses, NllOfImages) {
  Tensor logp = tensor(std::vector<float>{-1, -2, -3, -4}, {1, 2, 1, 2});
  Tensor target = tensor(std::vector<int64_t>{1, 0}, {1, 1, 2});
  EXPECT_TENSOR(nll_loss2d(logp, target), Type(f32, {}), {2.5});
  EXPECT_TENSOR(nll_loss2d(logp, target, std::nullopt, 0), Type(f32, {1, 1, 2}), {3, 2});
  EXPECT_ERROR(nll_loss2d(logp, target, std::nullopt, 3), ValueError, "reduction must be 0");
}

// Two steps, blank and two labels, all alike: each path has the probability 1/9.
TEST(Ctc, SumsOverAlignments) {
  Tensor logp = full({2, 3, 3}, std::log(1.0 / 3));
  Tensor targets = tensor({{1, 2}, {1, 0}, {1, 1}}), lengths = Vec({2, 2, 2}, i64);
  Tensor counts = Vec({2, 1, 2}, i64);
  // 1 2 has one path, 1 has three (1 1, - 1, 1 -), 1 1 needs three steps.
  EXPECT_TENSOR(ctc_loss(logp, targets, lengths, counts, 0, "none"), Type(f32, {3}),
                {std::log(9.0), std::log(3.0), kInf}, 1e-6);
  EXPECT_TENSOR(ctc_loss(logp, targets, lengths, counts, 0, "sum", true), Type(f32, {}),
                {std::log(27.0)}, 1e-6);
  EXPECT_TENSOR(ctc_loss(logp, targets, lengths, counts, 0, "mean", true), Type(f32, {}),
                {(std::log(9.0) / 2 + std::log(3.0)) / 3}, 1e-6);
}

TEST(Ctc, TakesLengthsAndTargetsInOneRow) {
  Tensor logp = full({2, 3, 3}, std::log(1.0 / 3));
  std::vector<int64_t> lengths{2, 1, 2}, counts{2, 1, 0};
  // The second has one step; the third has no labels, so all its steps are blank.
  EXPECT_TENSOR(ctc_loss(logp, Vec({1, 2, 1}, i64), lengths, counts, 0, "none"), Type(f32, {3}),
                {std::log(9.0), std::log(3.0), std::log(9.0)}, 1e-6);
  EXPECT_TENSOR(ctc_loss(full({2, 3}, std::log(1.0 / 3)), Vec({1}, i64), std::vector<int64_t>{2},
                         std::vector<int64_t>{1}, 0, "none"),
                Type(f32, {}), {std::log(3.0)}, 1e-6);
  EXPECT_ERROR(ctc_loss(logp, Vec({1, 2}, i64), lengths, counts), ValueError, "add up to, 3");
  EXPECT_ERROR(ctc_loss(logp, Vec({1, 2, 1}, i64), lengths, counts, 3), ValueError, "blank 3");
  EXPECT_ERROR(ctc_loss(logp, Vec({1, 2, 1}, i64), {3, 1, 2}, counts), ValueError, "from 0 to 2");
}

TEST(Ctc, IsOneNodeHoweverLong) {
  Tensor loss = ctc_loss(zeros({50, 1, 3}), tensor({{1}}), Vec({50}, i64), Vec({1}, i64));
  EXPECT_EQ(std::string(loss.value().node->op().name()), "ctc_loss.Tensor");
}

}  // namespace
}  // namespace hammock
