#include <limits>

#include "hammock/ir/op_def.h"
#include "ops/expect.h"

namespace hammock {
namespace {

Tensor Grid() { return tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}); }

TEST(Join, PromotesAndSkipsEmptyVectors) {
  EXPECT_TENSOR(cat({Vec({1, 2}), Vec({3}, i64)}), Type(f32, {3}), {1, 2, 3});
  EXPECT_TENSOR(cat({zeros({0}), Grid()}, 1), Type(f32, {2, 3}), {1, 2, 3, 4, 5, 6});
  EXPECT_TENSOR(cat({Grid(), zeros({2, 1})}, -1), Type(f32, {2, 4}), {1, 2, 3, 0, 4, 5, 6, 0});
  EXPECT_ERROR(cat({}), ValueError, "cat: expected a non-empty list of tensors");
  EXPECT_ERROR(cat({Grid(), zeros({2, 2})}), ValueError, "cat: sizes must match except in dim 0");
  EXPECT_ERROR(cat({tensor(1.0)}), ValueError, "no dims");
}

TEST(Join, AResultIsNeverItsArgument) {
  Tensor x = Vec({1, 2});
  for (Tensor y : {cat({x}), repeat(x, {1}), roll(x, {2}, {0}), flip(x, {}), pad(x, {0, 0})}) {
    y.add_(1.0);
    EXPECT_TENSOR(x, Type(f32, {2}), {1, 2});
  }
}

TEST(Join, Stacks) {
  Tensor a = Vec({1, 2}), b = Vec({3, 4});
  EXPECT_TENSOR(stack({a, b}, 1), Type(f32, {2, 2}), {1, 3, 2, 4});
  EXPECT_TENSOR(hstack({a, b}), Type(f32, {4}), {1, 2, 3, 4});
  EXPECT_TENSOR(vstack({a, b}), Type(f32, {2, 2}), {1, 2, 3, 4});
  EXPECT_TENSOR(dstack({a, b}), Type(f32, {1, 2, 2}), {1, 3, 2, 4});
  EXPECT_TENSOR(column_stack({a, b}), Type(f32, {2, 2}), {1, 3, 2, 4});
  EXPECT_TENSOR(block_diag({a, tensor(9.0)}), Type(f32, {2, 3}), {1, 2, 0, 0, 0, 9});
  EXPECT_ERROR(stack({a, Vec({1})}), ValueError, "stack: all sizes must be equal");
}

TEST(Repeat, WholeOrEach) {
  Tensor x = Vec({1, 2});
  EXPECT_TENSOR(repeat(x, {2, 2}), Type(f32, {2, 4}), {1, 2, 1, 2, 1, 2, 1, 2});
  EXPECT_TENSOR(tile(Grid(), {2}), Type(f32, {2, 6}), {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6});
  EXPECT_TENSOR(repeat_interleave(x, 2), Type(f32, {4}), {1, 1, 2, 2});
  EXPECT_TENSOR(repeat_interleave(x, Vec({3, 1}, i64)), Type(f32, {4}), {1, 1, 1, 2});
  EXPECT_TENSOR(repeat_interleave(x, Vec({0, 2}, i64), 0, 2), Type(f32, {2}), {2, 2});
  EXPECT_ERROR(repeat(Grid(), {2}), ValueError, "repeat: needs at least 2 numbers");
}

TEST(Rearrange, RollFlipTurn) {
  EXPECT_TENSOR(roll(Grid(), {1}, {1}), Type(f32, {2, 3}), {3, 1, 2, 6, 4, 5});
  EXPECT_TENSOR(roll(Grid(), {-1}), Type(f32, {2, 3}), {2, 3, 4, 5, 6, 1});
  EXPECT_TENSOR(flip(Grid(), {0, 1}), Type(f32, {2, 3}), {6, 5, 4, 3, 2, 1});
  EXPECT_TENSOR(rot90(Grid()), Type(f32, {3, 2}), {3, 6, 2, 5, 1, 4});
  EXPECT_TENSOR(rot90(Grid(), -1), Type(f32, {3, 2}), {4, 1, 5, 2, 6, 3});
  EXPECT_TENSOR(fliplr(Grid()), Type(f32, {2, 3}), {3, 2, 1, 6, 5, 4});
  EXPECT_ERROR(fliplr(Vec({1})), ValueError, "fliplr: needs at least 2 dims");
}

TEST(Pad, Modes) {
  Tensor x = tensor({{1.0, 2.0, 3.0}});
  EXPECT_TENSOR(pad(x, {1, 2}, "constant", 9), Type(f32, {1, 6}), {9, 1, 2, 3, 9, 9});
  EXPECT_TENSOR(pad(x, {-1, 1}), Type(f32, {1, 3}), {2, 3, 0});
  EXPECT_TENSOR(pad(x, {2, 1}, "reflect"), Type(f32, {1, 6}), {3, 2, 1, 2, 3, 2});
  EXPECT_TENSOR(pad(x, {2, 1}, "replicate"), Type(f32, {1, 6}), {1, 1, 1, 2, 3, 3});
  EXPECT_TENSOR(pad(x, {2, 1}, "circular"), Type(f32, {1, 6}), {2, 3, 1, 2, 3, 1});
  EXPECT_TENSOR(pad(x, {0, 0, 1, 0}), Type(f32, {2, 3}), {0, 0, 0, 1, 2, 3});
  EXPECT_ERROR(pad(x, {3, 0}, "reflect"), ValueError, "the dim is too small");
  EXPECT_ERROR(pad(x, {1}), ValueError, "pad: needs (before, after)");
  const int64_t least = std::numeric_limits<int64_t>::min();  // with itself 0
  EXPECT_ERROR(pad(x, {least, least}), ValueError, "at most");
  EXPECT_ERROR(pad(x, {1, 1}, "mirror"), ValueError, "mode");
}

TEST(Triangle, AndDiagonals) {
  EXPECT_TENSOR(tril(Grid()), Type(f32, {2, 3}), {1, 0, 0, 4, 5, 0});
  EXPECT_TENSOR(triu(Grid(), 1), Type(f32, {2, 3}), {0, 2, 3, 0, 0, 6});
  EXPECT_TENSOR(tril(ones({2, 2}, boolean), -1), Type(boolean, {2, 2}), {0, 0, 1, 0});
  EXPECT_TENSOR(diag(Vec({1, 2}), 1), Type(f32, {3, 3}), {0, 1, 0, 0, 0, 2, 0, 0, 0});
  EXPECT_TENSOR(diag(Grid(), 1), Type(f32, {2}), {2, 6});
  EXPECT_TENSOR(diag_embed(Grid(), 0, 0, 2).index({1, Slice(), 1}), Type(f32, {2}), {2, 5});
  EXPECT_TENSOR(diagflat(Vec({1, 2}), -1), Type(f32, {3, 3}), {0, 0, 0, 1, 0, 0, 0, 2, 0});
}

TEST(Split, PartsAreViews) {
  Tensor x = arange(7.0);
  auto parts = tensor_split(x, 3);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_TENSOR(parts[0], Type(f32, {3}), {0, 1, 2});
  EXPECT_TENSOR(parts[2], Type(f32, {2}), {5, 6});
  parts[1].add_(10.0);
  EXPECT_TENSOR(x, Type(f32, {7}), {0, 1, 2, 13, 14, 5, 6});
  auto at = tensor_split(x, {2, 2, 9});
  ASSERT_EQ(at.size(), 4u);
  EXPECT_TENSOR(at[1], Type(f32, {0}), {});
  EXPECT_TENSOR(hsplit(Grid(), 3)[1], Type(f32, {2, 1}), {2, 5});
  EXPECT_ERROR(hsplit(Grid(), 2), ValueError, "does not divide into 2 equal parts");
}

TEST(Split, CopiesWithAPartReplaced) {
  Tensor x = Grid();
  EXPECT_TENSOR(select_scatter(x, zeros({2}), 1, 0), Type(f32, {2, 3}), {0, 2, 3, 0, 5, 6});
  EXPECT_TENSOR(slice_scatter(x, zeros({2, 2}), 1, 0, 3, 2), Type(f32, {2, 3}), {0, 2, 0, 0, 5, 0});
  EXPECT_TENSOR(diagonal_scatter(x, zeros({2})), Type(f32, {2, 3}), {0, 2, 3, 4, 0, 6});
  EXPECT_TENSOR(x, Type(f32, {2, 3}), {1, 2, 3, 4, 5, 6});
  EXPECT_ERROR(select_scatter(x, zeros({3}), 1, 0), ValueError, "src f32[3]");
}

TEST(Grids, MeshProductsCombinations) {
  auto grids = meshgrid({Vec({1, 2}), Vec({3, 4, 5})}, "xy");
  EXPECT_TENSOR(grids[0], Type(f32, {3, 2}), {1, 2, 1, 2, 1, 2});
  EXPECT_TENSOR(cartesian_prod({Vec({1, 2}), Vec({3, 4})}), Type(f32, {4, 2}),
                {1, 3, 1, 4, 2, 3, 2, 4});
  EXPECT_TENSOR(combinations(Vec({1, 2, 3})), Type(f32, {3, 2}), {1, 2, 1, 3, 2, 3});
  EXPECT_TENSOR(combinations(Vec({1, 2}), 2, true), Type(f32, {3, 2}), {1, 1, 1, 2, 2, 2});
  EXPECT_TENSOR(combinations(Vec({1}), 2), Type(f32, {0, 2}), {});
  EXPECT_EQ(broadcast_shapes({{2, 1}, {3}}), Dims({2, 3}));
}

TEST(Along, DifferencesAreasSums) {
  EXPECT_TENSOR(diff(Vec({1, 4, 9}), 2), Type(f32, {1}), {2});
  EXPECT_TENSOR(diff(Vec({1, 4}), 1, -1, Vec({0})), Type(f32, {2}), {1, 3});
  EXPECT_TENSOR(diff(Vec({1, 0, 0}, boolean)), Type(boolean, {2}), {1, 0});
  EXPECT_TENSOR(trapezoid(Vec({1, 3, 5}), 2.0), Type(f32, {}), {12});
  EXPECT_TENSOR(cumulative_trapezoid(Vec({1, 3, 5}), Vec({0, 1, 3})), Type(f32, {2}), {2, 10});
  EXPECT_TENSOR(sum_to_size(Grid(), {1, 3}), Type(f32, {1, 3}), {5, 7, 9});
  EXPECT_TENSOR(cross(Vec({1, 0, 0}), Vec({0, 1, 0})), Type(f32, {3}), {0, 0, 1});
  EXPECT_ERROR(sum_to_size(Grid(), {2}), ValueError, "does not broadcast");
}

TEST(Concat, JoinsAlongTheFirstDimByDefault) {
  Any tensors = AnyList{Vec({1, 2}), Vec({3})};
  for (const char* op : {"cat", "concat"}) {
    EXPECT_TENSOR(CallOp(op, {tensors}).ToTensor(), Type(f32, {3}), {1, 2, 3});
  }
}

}  // namespace
}  // namespace hammock
