#include "hammock/ir/op_def.h"
#include "ops/expect.h"

namespace hammock {
namespace {

Tensor Grid() { return tensor({{1.0, 5.0, 3.0}, {4.0, 2.0, 6.0}}); }

TEST(Reduce, SumsOfIntegersAndBoolAreI64) {
  EXPECT_TENSOR(sum(Grid()), Type(f32, {}), {21});
  EXPECT_TENSOR(sum(Grid(), {0}), Type(f32, {3}), {5, 7, 9});
  EXPECT_TENSOR(sum(Grid(), {-1}, true), Type(f32, {2, 1}), {9, 12});
  EXPECT_TENSOR(sum(Vec({100, 100, 100}, u8)), Type(i64, {}), {300});
  EXPECT_TENSOR(sum(Vec({1, 0, 1}, boolean)), Type(i64, {}), {2});
  EXPECT_TENSOR(sum(Vec({1, 2}, i32), {}, false, f64), Type(f64, {}), {3});
  EXPECT_TENSOR(prod(Vec({2, 3, 4}, i32)), Type(i64, {}), {24});
}

TEST(Reduce, EmptySetsGiveTheIdentityOrRaise) {
  Tensor none = zeros({2, 0});
  EXPECT_TENSOR(sum(none, {1}), Type(f32, {2}), {0, 0});
  EXPECT_TENSOR(prod(none, {1}), Type(f32, {2}), {1, 1});
  EXPECT_TENSOR(mean(none, {1}), Type(f32, {2}), {kNan, kNan});
  EXPECT_TENSOR(all(none, {1}), Type(boolean, {2}), {1, 1});
  EXPECT_TENSOR(logsumexp(none, {1}), Type(f32, {2}), {-kInf, -kInf});
  EXPECT_TENSOR(amax(none, {0}), Type(f32, {0}), {});
  EXPECT_ERROR(amax(none, {1}), ValueError, "amax: dim 1 of f32[2,0] has size 0");
  EXPECT_ERROR(max(none), ValueError, "max: f32[2,0] has no elements");
  EXPECT_ERROR(argmin(none, 1), ValueError, "argmin");
}

TEST(Reduce, DimsAreWrappedAndChecked) {
  EXPECT_ERROR(sum(Grid(), {0, 0}), ValueError, "dim 0 appears twice in [0,0]");
  EXPECT_ERROR(sum(Grid(), {2}), ValueError, "dim 2 is out of range");
  EXPECT_ERROR(amax(Grid(), {0, -2}), ValueError, "dim 0 appears twice");
  EXPECT_TENSOR(sum(tensor(3.0), {-1}), Type(f32, {}), {3});
  EXPECT_TENSOR(std::get<1>(max(tensor(3.0), 0)), Type(i64, {}), {0});
}

TEST(Reduce, MeanNeedsAFloat) {
  EXPECT_TENSOR(mean(Grid(), {1}), Type(f32, {2}), {3, 4});
  EXPECT_TENSOR(mean(Vec({1, 2}, i64), {}, false, f32), Type(f32, {}), {1.5});
  EXPECT_ERROR(mean(Vec({1, 2}, i64)), TypeError, "mean: the result needs a floating dtype");
  EXPECT_TENSOR(nanmean(Vec({1, kNan, 5})), Type(f32, {}), {3});
  EXPECT_TENSOR(nansum(Vec({1, kNan, 5})), Type(f32, {}), {6});
}

// A running sum in bf16 would stay at 256.
TEST(Reduce, NarrowFloatsAreRoundedOnce) {
  Tensor x = cat({full({1}, 256.0, bf16), ones({255}, bf16)});
  EXPECT_TENSOR(mean(x), Type(bf16, {}), {2});
  EXPECT_TENSOR(cumsum(x, 0).slice(0, 255, 256), Type(bf16, {1}), {512});
}

TEST(Reduce, ExtremesPropagateNanAndTakeTheFirst) {
  Tensor x = tensor({{1.0, 3.0, 3.0}, {2.0, kNan, 5.0}});
  auto [values, indices] = max(x, 1);
  EXPECT_TENSOR(values, Type(f32, {2}), {3, kNan});
  EXPECT_TENSOR(indices, Type(i64, {2}), {1, 1});
  EXPECT_TENSOR(amin(x, {1}), Type(f32, {2}), {1, kNan});
  EXPECT_TENSOR(argmax(x), Type(i64, {}), {4});
  EXPECT_TENSOR(argmax(x, std::nullopt, true), Type(i64, {1, 1}), {4});
  EXPECT_TENSOR(max(Vec({1, 4}), Vec({3, 2})), Type(f32, {2}), {3, 4});
  auto [low, high] = aminmax(Grid(), 1);
  EXPECT_TENSOR(low, Type(f32, {2}), {1, 2});
  EXPECT_TENSOR(high, Type(f32, {2}), {5, 6});
  EXPECT_ERROR(argmax(Vec({1}, boolean)), TypeError, "argmax: has no order for bool");
}

TEST(Reduce, TruthKeepsU8) {
  EXPECT_TENSOR(any(Vec({0, 2, 0})), Type(boolean, {}), {1});
  EXPECT_TENSOR(all(Vec({1, 0}, u8)), Type(u8, {}), {0});
  EXPECT_TENSOR(count_nonzero(Grid() - 1.0), Type(i64, {}), {5});
}

TEST(Reduce, VarianceSubtractsTheCorrection) {
  Tensor x = Vec({1, 2, 3, 6});
  EXPECT_TENSOR(var(x), Type(f32, {}), {14.0 / 3}, 1e-6);
  EXPECT_TENSOR(var(x, {}, 0), Type(f32, {}), {3.5});
  EXPECT_TENSOR(std(x, {}, 0), Type(f32, {}), {std::sqrt(3.5)}, 1e-6);
  EXPECT_TENSOR(var(Vec({7})), Type(f32, {}), {kNan});
  auto [variance, average] = var_mean(Grid(), {1}, 1, true);
  EXPECT_TENSOR(variance, Type(f32, {2, 1}), {4, 4});
  EXPECT_TENSOR(average, Type(f32, {2, 1}), {3, 4});
  EXPECT_ERROR(var(Vec({1, 2}, i64)), TypeError, "var: needs a floating dtype");
}

TEST(Reduce, BoolMeansUnbiasedWhenCalledByName) {
  Tensor x = Vec({1, 2, 3, 6});
  EXPECT_TENSOR(CallOp("var", {x, false}).ToTensor(), Type(f32, {}), {3.5});
  EXPECT_TENSOR(CallOp("var", {Grid(), 1}).ToTensor(), Type(f32, {2}), {4, 4});
  EXPECT_TENSOR(CallOp("std", {Grid()}, {{"dim", 1}, {"correction", 1}}).ToTensor(), Type(f32, {2}),
                {2, 2});
}

TEST(Reduce, LogSumExpDoesNotOverflow) {
  EXPECT_TENSOR(logsumexp(Vec({1000, 1000}), {0}), Type(f32, {}), {1000 + std::log(2.0)}, 1e-4);
  EXPECT_TENSOR(logsumexp(Vec({-kInf, -kInf}), {0}), Type(f32, {}), {-kInf});
  EXPECT_TENSOR(logsumexp(Vec({kInf, 1}), {0}), Type(f32, {}), {kInf});
  EXPECT_TENSOR(logsumexp(Vec({0, 0}, i64), {0}), Type(f32, {}), {std::log(2.0)}, 1e-6);
}

TEST(Reduce, Norms) {
  Tensor x = Vec({3, -4, 0});
  EXPECT_TENSOR(norm(x), Type(f32, {}), {5});
  EXPECT_TENSOR(norm(x, 1), Type(f32, {}), {7});
  EXPECT_TENSOR(norm(x, 0), Type(f32, {}), {2});
  EXPECT_TENSOR(norm(x, kInf), Type(f32, {}), {4});
  EXPECT_TENSOR(norm(x, -kInf), Type(f32, {}), {0});
  EXPECT_TENSOR(norm(Vec({1, 2}), 3), Type(f32, {}), {std::cbrt(9.0)}, 1e-6);
  EXPECT_TENSOR(dist(x, Vec({0, 0, 0})), Type(f32, {}), {5});
  EXPECT_TENSOR(trace(tensor({{1.0, 2.0}, {3.0, 4.0}})), Type(f32, {}), {5});
}

TEST(Reduce, Scans) {
  EXPECT_TENSOR(cumsum(Grid(), 1), Type(f32, {2, 3}), {1, 6, 9, 4, 6, 12});
  EXPECT_TENSOR(cumprod(Vec({2, 3, 4}, i32), 0), Type(i64, {3}), {2, 6, 24});
  EXPECT_TENSOR(cumsum(tensor(2.0), 0), Type(f32, {}), {2});
  auto [values, indices] = cummax(Vec({1, 3, 3, 2, kNan, 9}), 0);
  EXPECT_TENSOR(values, Type(f32, {6}), {1, 3, 3, 3, kNan, kNan});
  EXPECT_TENSOR(indices, Type(i64, {6}), {0, 1, 2, 2, 4, 4});
  // A scan of exp(x - max) would lose the first two.
  EXPECT_TENSOR(logcumsumexp(Vec({-1000, -1000, 0}), 0), Type(f32, {3}),
                {-1000, -1000 + std::log(2.0), 0}, 1e-4);
}

TEST(Reduce, OrderStatistics) {
  EXPECT_TENSOR(median(Vec({4, 1, 3, 2})), Type(f32, {}), {2});
  EXPECT_TENSOR(median(Vec({4, kNan, 3})), Type(f32, {}), {kNan});
  EXPECT_TENSOR(nanmedian(Vec({4, kNan, 3})), Type(f32, {}), {3});
  auto [value, index] = median(Vec({4, kNan, 3}), 0);
  EXPECT_TENSOR(index, Type(i64, {}), {1});
  auto [second, where_second] = kthvalue(Grid(), 2);
  EXPECT_TENSOR(second, Type(f32, {2}), {3, 4});
  EXPECT_TENSOR(where_second, Type(i64, {2}), {2, 0});
  auto [common, place] = mode(Vec({2, 1, 3, 3, 1}));
  EXPECT_TENSOR(common, Type(f32, {}), {1});
  EXPECT_TENSOR(place, Type(i64, {}), {4});
  EXPECT_TENSOR(quantile(Vec({0, 10, 20}), Vec({0, 0.25, 1})), Type(f32, {3}), {0, 5, 20});
  EXPECT_THROW(CallOp("quantile", {Any(Vec({0, 10})), Any(2.0)}), ValueError);
  EXPECT_ERROR(kthvalue(Grid(), 4), ValueError, "kthvalue: k must be from 1 to 3");
}

TEST(Reduce, ComparisonsRead) {
  EXPECT_TRUE(equal(Grid(), Grid()));
  EXPECT_FALSE(equal(Grid(), Grid() + 1.0));
  EXPECT_FALSE(equal(Vec({1}), Vec({1, 1})));
  EXPECT_TRUE(allclose(Vec({1, kNan}), Vec({1.000001, kNan}), 1e-5, 1e-8, true));
}

TEST(Reduce, MethodsForward) {
  EXPECT_TENSOR(Grid().sum({1}).max(), Type(f32, {}), {12});
  EXPECT_TENSOR(std::get<1>(Grid().min(1)), Type(i64, {2}), {0, 1});
  EXPECT_TENSOR(Grid().std({1}), Type(f32, {2}), {2, 2});
}

}  // namespace
}  // namespace hammock
