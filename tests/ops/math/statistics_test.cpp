#include "hammock/error.h"
#include "ops/expect.h"

namespace hammock {
namespace {

struct Parts {
  Tensor values, inverse, counts;
};
Parts Of(const std::tuple<Tensor, Tensor, Tensor>& parts) {
  return {std::get<0>(parts), std::get<1>(parts), std::get<2>(parts)};
}

TEST(Unique, ElementsInOrderWithInverseAndCounts) {
  Tensor x = tensor({{3, 1, 3}, {2, 1, 9}});
  Parts u = Of(unique(x));
  EXPECT_TENSOR(u.values, Type(i64, {4}), {1, 2, 3, 9});
  EXPECT_TENSOR(u.inverse, Type(i64, {2, 3}), {2, 0, 2, 1, 0, 3});
  EXPECT_TENSOR(u.counts, Type(i64, {4}), {2, 1, 2, 1});
  EXPECT_TENSOR(Of(unique(Vec({kNan, 1, kNan}))).values, Type(f32, {3}), {1, kNan, kNan});
  EXPECT_TENSOR(Of(unique(tensor({true, false, true}))).values, Type(boolean, {2}), {0, 1});
}

TEST(Unique, SlicesAreComparedAsWords) {
  Tensor x = tensor({{1, 2, 0}, {1, 1, 9}, {1, 2, 0}, {0, 5, 5}});
  Parts u = Of(unique(x, true, 0));
  EXPECT_TENSOR(u.values, Type(i64, {3, 3}), {0, 5, 5, 1, 1, 9, 1, 2, 0});
  EXPECT_TENSOR(u.inverse, Type(i64, {4}), {2, 1, 2, 0});
  EXPECT_TENSOR(u.counts, Type(i64, {3}), {1, 1, 2});
  EXPECT_TENSOR(Of(unique(x, true, -1)).values, Type(i64, {4, 3}),
                {0, 1, 2, 9, 1, 1, 0, 1, 2, 5, 0, 5});
  // Of three dims: places change with the first one.
  Tensor cube = tensor(std::vector<int64_t>{0, 0, 1, 0, 1, 0, 0, 0}, Dims{2, 2, 2});
  EXPECT_TENSOR(Of(unique(cube, true, 2)).values, Type(i64, {2, 2, 2}), {0, 0, 0, 1, 0, 1, 0, 0});
}

TEST(Unique, ConsecutiveOnesOnly) {
  Tensor x = tensor({1, 1, 2, 1, 1, 1});
  Parts u = Of(unique_consecutive(x));
  EXPECT_TENSOR(u.values, Type(i64, {3}), {1, 2, 1});
  EXPECT_TENSOR(u.inverse, Type(i64, {6}), {0, 0, 1, 2, 2, 2});
  EXPECT_TENSOR(u.counts, Type(i64, {3}), {2, 1, 3});
  Tensor rows = tensor({{1, 2}, {1, 2}, {1, 3}});
  EXPECT_TENSOR(Of(unique_consecutive(rows, 0)).values, Type(i64, {2, 2}), {1, 2, 1, 3});
}

TEST(Unique, OfNothing) {
  EXPECT_EQ(Of(unique(zeros({2, 0}))).values.shape(), Type(f32, {0}));
  EXPECT_EQ(Of(unique(zeros({0, 3}), true, 0)).values.shape(), Type(f32, {0, 3}));
  EXPECT_ERROR(unique(zeros({2, 0}), true, 0), ValueError, "size 0");
}

TEST(Histograms, HistcCountsInEqualParts) {
  Tensor x = Vec({0, 1, 2, 2.5, 4, kNan});
  EXPECT_TENSOR(histc(x, 4, 0, 4), Type(f32, {4}), {1, 1, 2, 1});
  EXPECT_TENSOR(histc(x, 2, 1, 2), Type(f32, {2}), {1, 1});
  EXPECT_TENSOR(histc(Vec({3, 3}), 2), Type(f32, {2}), {0, 2});
  EXPECT_TENSOR(histc(zeros({0}), 3), Type(f32, {3}), {0, 0, 0});
  EXPECT_ERROR(histc(x, 0), ValueError, "bins");
  EXPECT_ERROR(histc(Vec({1, kInf})).host(), Error, "out of bounds");  // no finite range
  EXPECT_ERROR(std::get<0>(histogram(Vec({1, kNan}), 3)).host(), Error, "out of bounds");
  EXPECT_ERROR(histc(x, 2, 3, 1), ValueError, "range");
  EXPECT_ERROR(histc(Vec({1}, i64)), TypeError, "float");
}

TEST(Histograms, WeightsEdgesAndDensity) {
  Tensor x = Vec({0, 1, 3, 4});
  auto [counts, edges] = histogram(x, 2);
  EXPECT_TENSOR(counts, Type(f32, {2}), {2, 2});
  EXPECT_TENSOR(edges, Type(f32, {3}), {0, 2, 4});
  auto [sums, same] = histogram(x, Vec({0, 1, 4}), Vec({1, 2, 4, 8}));
  EXPECT_TENSOR(sums, Type(f32, {2}), {1, 14});
  auto [density, ends] = histogram(x, 2, {0, 8}, std::nullopt, true);
  EXPECT_TENSOR(density, Type(f32, {2}), {0.1875, 0.0625});
  EXPECT_TENSOR(ends, Type(f32, {3}), {0, 4, 8});
  EXPECT_ERROR(histogram(x, 2, {}, Vec({1})), ValueError, "weight");
  Tensor points = tensor({{0.0, 0.0}, {1.0, 3.0}, {1.0, 1.0}});
  auto [grid, sides] = histogramdd(points, std::vector<int64_t>{2, 3});
  EXPECT_TENSOR(grid, Type(f32, {2, 3}), {1, 0, 0, 0, 1, 1});
  ASSERT_EQ(sides.size(), 2u);
  EXPECT_TENSOR(sides[1], Type(f32, {4}), {0, 1, 2, 3});
  EXPECT_ERROR(histogramdd(points, std::vector<int64_t>{2}), ValueError, "coordinates");
}

TEST(Statistics, CovariancesAndCorrelations) {
  Tensor x = tensor({{0.0, 1.0, 2.0}, {2.0, 1.0, 0.0}});
  EXPECT_TENSOR(cov(x), Type(f32, {2, 2}), {1, -1, -1, 1}, 1e-6);
  EXPECT_TENSOR(cov(x, 0), Type(f32, {2, 2}), {2.0 / 3, -2.0 / 3, -2.0 / 3, 2.0 / 3}, 1e-6);
  EXPECT_TENSOR(corrcoef(x), Type(f32, {2, 2}), {1, -1, -1, 1}, 1e-6);
  EXPECT_TENSOR(cov(Vec({1, 2, 4}, i64), 1, Vec({1, 1, 2}, i64)), Type(f32, {}), {2.25}, 1e-6);
  EXPECT_TENSOR(cov(Vec({0, 2}), 1, std::nullopt, Vec({1, 3})), Type(f32, {}), {2}, 1e-6);
  EXPECT_TENSOR(cov(Vec({1}), 1), Type(f32, {}), {kNan});
  EXPECT_ERROR(cov(zeros({2, 2, 2})), ValueError, "at most 2 dims");
  EXPECT_ERROR(cov(x, 1, Vec({1, 1, 1})), ValueError, "fweights");
}

TEST(Statistics, Distances) {
  Tensor a = tensor({{0.0, 0.0}, {3.0, 4.0}}), b = tensor({{3.0, 4.0}});
  EXPECT_TENSOR(cdist(a, b), Type(f32, {2, 1}), {5, 0});
  EXPECT_TENSOR(cdist(a, b, 1), Type(f32, {2, 1}), {7, 0});
  EXPECT_TENSOR(cdist(a, b, 0), Type(f32, {2, 1}), {2, 0});
  EXPECT_TENSOR(cdist(a, b, kInf), Type(f32, {2, 1}), {4, 0});
  EXPECT_TENSOR(cdist(a, b, 3), Type(f32, {2, 1}), {std::cbrt(91.0), 0}, 1e-5);
  EXPECT_TENSOR(pdist(tensor({{0.0}, {1.0}, {3.0}})), Type(f32, {3}), {1, 3, 2});
  EXPECT_EQ(pdist(zeros({1, 3})).shape(), Type(f32, {0}));
  EXPECT_ERROR(cdist(a, b, -1), ValueError, "negative");
  EXPECT_ERROR(cdist(a, zeros({2, 3})), ValueError, "length");
  Tensor long_rows = tensor({{3.0, 4.0}, {0.3, 0.4}});
  EXPECT_TENSOR(renorm(long_rows, 2, 0, 1), Type(f32, {2, 2}), {0.6, 0.8, 0.3, 0.4}, 1e-6);
  EXPECT_ERROR(renorm(Vec({1}), 2, 0, 1), ValueError, "at least 2 dims");
}

TEST(Statistics, GradientsOfEvenAndUnevenSteps) {
  Tensor squares = Vec({0, 1, 4, 9});
  std::vector<double> one;
  EXPECT_TENSOR(gradient(squares, one)[0], Type(f32, {4}), {1, 2, 4, 5});
  EXPECT_TENSOR(gradient(squares, one, {}, 2)[0], Type(f32, {4}), {0, 2, 4, 6});
  EXPECT_TENSOR(gradient(squares, std::vector<double>{2})[0], Type(f32, {4}), {0.5, 1, 2, 2.5});
  EXPECT_TENSOR(gradient(Vec({0, 1, 4, 9}, i64), one)[0], Type(f32, {4}), {1, 2, 4, 5});
  Tensor x = Vec({0, 1, 3, 4});
  EXPECT_TENSOR(gradient(x * x, std::vector<Tensor>{x}, {}, 2)[0], Type(f32, {4}), {0, 2, 6, 8},
                1e-5);
  EXPECT_EQ(gradient(zeros({3, 4}), one).size(), 2u);
  EXPECT_TRUE(gradient(tensor(1.0), one).empty());
  EXPECT_ERROR(gradient(Vec({1, 2}, u8), one), TypeError, "u8");
  EXPECT_ERROR(gradient(squares, one, {}, 3), ValueError, "edge_order");
  EXPECT_ERROR(gradient(zeros({2}), one, {}, 2), ValueError, "edge_order + 1");
}

}  // namespace
}  // namespace hammock
