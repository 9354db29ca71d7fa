#include "hammock/ir/op_def.h"
#include "ops/expect.h"

namespace hammock {
namespace {

Tensor Image(const Dims& size) {
  return reshape(arange(0, Shape(f32, size).numel(), 1, f32), size);
}

TEST(AdaptivePool, WindowsMayOverlap) {
  Tensor x = Image({1, 1, 5});
  // Windows [0, 2), [1, 4), [3, 5).
  EXPECT_TENSOR(adaptive_avg_pool1d(x, {3}), Type(f32, {1, 1, 3}), {0.5, 2, 3.5});
  EXPECT_TENSOR(adaptive_max_pool1d(x, {3}), Type(f32, {1, 1, 3}), {1, 3, 4});
  EXPECT_TENSOR(adaptive_avg_pool1d(x, {7}), Type(f32, {1, 1, 7}), {0, 0.5, 1.5, 2, 2.5, 3.5, 4});
  EXPECT_TENSOR(adaptive_avg_pool2d(Image({1, 4, 4}), {2, -1}), Type(f32, {1, 2, 4}),
                {2, 3, 4, 5, 10, 11, 12, 13});
  EXPECT_TENSOR(adaptive_avg_pool3d(Image({1, 2, 3, 2}), {1, 1, 1}), Type(f32, {1, 1, 1, 1}),
                {5.5});
  EXPECT_TENSOR(adaptive_avg_pool2d(zeros({0, 2, 4, 3}), {2, 2}), Type(f32, {0, 2, 2, 2}), {});
  EXPECT_ERROR(adaptive_avg_pool2d(Vec({1}), {1}), ValueError, "needs 3 or 4 dims");
  EXPECT_ERROR(adaptive_avg_pool2d(x, {1, 2, 3}), ValueError, "output_size needs one number or 2");
}

TEST(AdaptivePool, IndexOfTheFirstLargest) {
  Tensor x = tensor(std::vector<float>{1, 5, 5, 5, 2, 5, 0, 0, 9}, {1, 3, 3});
  auto [values, places] = adaptive_max_pool2d_with_indices(x, {2, 2});
  EXPECT_TENSOR(values, Type(f32, {1, 2, 2}), {5, 5, 5, 9});
  EXPECT_TENSOR(places, Type(i64, {1, 2, 2}), {1, 1, 3, 8});
  auto [one, place] = adaptive_max_pool2d_with_indices(x, {1, 1});
  EXPECT_TENSOR(one, Type(f32, {1, 1, 1}), {9});
  EXPECT_TENSOR(place, Type(i64, {1, 1, 1}), {8});
  Any called = CallOp("adaptive_max_pool2d", {x, Any(AnyList{Any(), 1})});
  EXPECT_TENSOR(called.ToTensor(), Type(f32, {1, 3, 1}), {5, 5, 9});
}

TEST(MaxUnpool, PutsValuesBack) {
  Tensor x = Image({1, 1, 4, 4});
  auto [values, places] = max_pool2d_with_indices(x, {2});
  EXPECT_TENSOR(max_unpool2d(values, places, {2}), Type(f32, {1, 1, 4, 4}),
                {0, 0, 0, 0, 0, 5, 0, 7, 0, 0, 0, 0, 0, 13, 0, 15});
  EXPECT_TENSOR(max_unpool1d(tensor({{3.0}}), tensor({{1}}), {3}, {2}, {0}, {{4}}),
                Type(f32, {1, 4}), {0, 3, 0, 0});
  EXPECT_ERROR(max_unpool2d(values, places, {2}, {}, {0}, {{7, 4}}), ValueError, "output_size");
  EXPECT_ERROR(max_unpool2d(values, Vec({0}, i64), {2}), ValueError, "i64 indices");
  EXPECT_ERROR(max_unpool1d(tensor({{3.0}}), tensor({{9}}), {2}).host(), Error, "out of bounds");
}

TEST(Columns, OfWindowsAndBack) {
  Tensor x = Image({1, 1, 2, 3});
  EXPECT_TENSOR(im2col(x, {2, 2}), Type(f32, {1, 4, 2}), {0, 1, 1, 2, 3, 4, 4, 5});
  EXPECT_TENSOR(im2col(x, {1, 2}, {1, 2}, {0, 1}, {1, 2}), Type(f32, {1, 2, 4}),
                {0, 1, 0, 4, 1, 0, 4, 0});
  // Each element comes back as often as windows hold it.
  EXPECT_TENSOR(fold(im2col(x, {2, 2}), {2, 3}, {2, 2}), Type(f32, {1, 1, 2, 3}),
                {0, 2, 2, 3, 8, 5});
  EXPECT_TENSOR(col2im(ones({4, 4}), {2, 2}, {2, 2}, {1, 1}, {1, 1}, {2, 2}), Type(f32, {1, 2, 2}),
                {1, 1, 1, 1});
  EXPECT_ERROR(im2col(x, {3, 3}), ValueError, "does not fit an image of [2,3]");
  EXPECT_ERROR(fold(ones({1, 5, 2}), {2, 3}, {2, 2}), ValueError, "needs columns");
  EXPECT_ERROR(im2col(x, {0, 1}), ValueError, "kernel_size needs");
}

TEST(Pixels, ShuffleAndBack) {
  Tensor x = Image({4, 1, 2});
  Tensor y = pixel_shuffle(x, 2);
  EXPECT_TENSOR(y, Type(f32, {1, 2, 4}), {0, 2, 1, 3, 4, 6, 5, 7});
  EXPECT_TENSOR(pixel_unshuffle(y, 2), Type(f32, {4, 1, 2}), {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_ERROR(pixel_shuffle(x, 3), ValueError, "does not divide by a factor of 3");
  EXPECT_ERROR(pixel_unshuffle(x, 0), ValueError, "factor of 0");
}

}  // namespace
}  // namespace hammock
