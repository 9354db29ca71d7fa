#include "ops/expect.h"

namespace hammock {
namespace {

Tensor Signal(std::vector<double> values) {
  auto size = static_cast<int64_t>(values.size());
  return reshape(Vec(std::move(values)), {1, 1, size});
}

TEST(Interpolate, Nearest) {
  Tensor x = Signal({0, 1, 2, 3});
  EXPECT_TENSOR(interpolate(x, Dims{3}), Type(f32, {1, 1, 3}), {0, 1, 2});
  EXPECT_TENSOR(interpolate(x, Dims{3}, {}, "nearest-exact"), Type(f32, {1, 1, 3}), {0, 2, 3});
  // floor(i / 1.7), not floor(i * 4 / 6)
  EXPECT_TENSOR(interpolate(x, {}, {{1.7}}), Type(f32, {1, 1, 6}), {0, 0, 1, 1, 2, 2});
  EXPECT_TENSOR(interpolate(x, {}, {{1.7}}, "nearest", {}, true), Type(f32, {1, 1, 6}),
                {0, 0, 1, 2, 2, 3});
  EXPECT_TENSOR(interpolate(Signal({1, 2}).to(u8), Dims{4}), Type(u8, {1, 1, 4}), {1, 1, 2, 2});
}

TEST(Interpolate, Linear) {
  Tensor x = Signal({0, 4});
  EXPECT_TENSOR(interpolate(x, Dims{4}, {}, "linear"), Type(f32, {1, 1, 4}), {0, 1, 3, 4});
  EXPECT_TENSOR(interpolate(x, Dims{5}, {}, "linear", true), Type(f32, {1, 1, 5}), {0, 1, 2, 3, 4});
  EXPECT_TENSOR(interpolate(x, Dims{1}, {}, "linear", true), Type(f32, {1, 1, 1}), {0});
  Tensor image = reshape(Vec({0, 2, 4, 6}), {1, 1, 2, 2});
  EXPECT_TENSOR(upsample_bilinear(image, Dims{3}), Type(f32, {1, 1, 3, 3}),
                {0, 1, 2, 2, 3, 4, 4, 5, 6});
  EXPECT_TENSOR(upsample_bilinear2d(image, {1, 1}, false), Type(f32, {1, 1, 1, 1}), {3});
  EXPECT_TENSOR(interpolate(reshape(image, {1, 1, 1, 2, 2}), Dims{1, 1, 3}, {}, "trilinear", true),
                Type(f32, {1, 1, 1, 1, 3}), {0, 1, 2});
}

TEST(Interpolate, Bicubic) {
  // A kernel that reproduces straight lines inside.
  Tensor x = reshape(arange(0, 8, 1, f32), {1, 1, 1, 8});
  Tensor y = interpolate(x, Dims{1, 15}, {}, "bicubic", true);
  EXPECT_TENSOR(narrow(y, 3, 4, 3), Type(f32, {1, 1, 1, 3}), {2, 2.5, 3}, 1e-5);
}

TEST(Interpolate, AntialiasedCountsAllElements) {
  Tensor x = reshape(Vec({0, 1, 2, 3}), {1, 1, 1, 4});
  Tensor y = interpolate(x, Dims{1, 2}, {}, "bilinear", false, {}, true);
  EXPECT_TENSOR(y, Type(f32, {1, 1, 1, 2}), {1.25 / 1.75, 3 - 1.25 / 1.75}, 1e-6);
  EXPECT_TENSOR(interpolate(ones({1, 1, 4, 4}), Dims{2, 3}, {}, "bicubic", false, {}, true),
                Type(f32, {1, 1, 2, 3}), {1, 1, 1, 1, 1, 1}, 1e-6);
}

TEST(Interpolate, ChecksArguments) {
  Tensor x = Signal({0, 1});
  EXPECT_ERROR(interpolate(x, {}), ValueError, "either size or scale_factor, got none");
  EXPECT_ERROR(interpolate(x, Dims{2}, {{2.0}}), ValueError, "got both");
  EXPECT_ERROR(interpolate(x, Dims{2}, {}, "cubic"), ValueError, "mode must be");
  EXPECT_ERROR(interpolate(x, Dims{2}, {}, "bilinear"), NotSupported, "needs 2 dims");
  EXPECT_ERROR(interpolate(x, Dims{2}, {}, "nearest", true), ValueError, "align_corners goes with");
  EXPECT_ERROR(interpolate(x, Dims{2}, {}, "linear", {}, {}, true), ValueError, "antialias");
  EXPECT_ERROR(interpolate(x, Dims{0}), ValueError, "output sizes above 0");
  EXPECT_ERROR(interpolate(x, Dims{2, 2}), ValueError, "size needs one number or 1");
  EXPECT_ERROR(interpolate(x.to(i64), Dims{3}, {}, "linear"), TypeError, "floating dtype");
}

TEST(GridSample, ModesAndPaddings) {
  Tensor x = reshape(Vec({0, 1, 2, 3}), {1, 1, 2, 2});
  auto at = [](double px, double py) { return reshape(Vec({px, py}), {1, 1, 1, 2}); };
  Shape one = Type(f32, {1, 1, 1, 1});
  EXPECT_TENSOR(grid_sample(x, at(0, 0)), one, {1.5});
  EXPECT_TENSOR(grid_sample(x, at(-1, -1), "bilinear", "zeros", true), one, {0});
  EXPECT_TENSOR(grid_sample(x, at(1, 1)), one, {0.75});  // a quarter of the last element
  EXPECT_TENSOR(grid_sample(x, at(1, 1), "bilinear", "border"), one, {3});
  EXPECT_TENSOR(grid_sample(x, at(3, 1), "nearest", "zeros"), one, {0});
  // Two widths to the right of the middle lies the left half, mirrored.
  EXPECT_TENSOR(grid_sample(x, at(2.5, 0.5), "nearest", "reflection"), one, {2});
  EXPECT_TENSOR(grid_sample(ones({1, 1, 4, 4}), at(0.1, 0.2), "bicubic", "border"), one, {1}, 1e-6);
  Tensor volume = reshape(arange(0, 8, 1, f32), {1, 1, 2, 2, 2});
  EXPECT_TENSOR(grid_sample(volume, zeros({1, 1, 1, 1, 3})), Type(f32, {1, 1, 1, 1, 1}), {3.5});
  EXPECT_ERROR(grid_sample(volume, zeros({1, 1, 1, 1, 3}), "bicubic"), ValueError, "4 dims");
  EXPECT_ERROR(grid_sample(x, zeros({1, 1, 1, 3})), ValueError, "grid_sample: needs floats");
  EXPECT_ERROR(grid_sample(x, at(0, 0), "linear"), ValueError, "mode must be");
  EXPECT_ERROR(grid_sample(x, at(0, 0), "nearest", "wrap"), ValueError, "padding_mode must be");
}

TEST(AffineGrid, OfTheIdentity) {
  Tensor theta = tensor(std::vector<float>{1, 0, 0, 0, 1, 0.5}, {1, 2, 3});
  EXPECT_TENSOR(affine_grid(theta, {1, 1, 1, 3}, true), Type(f32, {1, 1, 3, 2}),
                {-1, 0.5, 0, 0.5, 1, 0.5});
  EXPECT_TENSOR(affine_grid(theta, {1, 1, 2, 1}), Type(f32, {1, 2, 1, 2}), {0, 0, 0, 1});
  EXPECT_ERROR(affine_grid(theta, {1, 1, 2}), ValueError, "affine_grid: needs theta");
}

}  // namespace
}  // namespace hammock
