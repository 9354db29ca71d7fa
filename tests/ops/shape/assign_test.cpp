// Assignment to handles: a name is bound to another tensor, what has no name is written to.

#include <type_traits>
#include <utility>

#include "hammock/autograd.h"
#include "hammock/error.h"
#include "ops/expect.h"

namespace hammock {
namespace {

TEST(Assign, WritesThroughAnIndex) {
  Tensor w = zeros({2, 3});
  w[0] = tensor({1.0, 2.0, 3.0});
  w[1] = 4;
  EXPECT_TENSOR(w, Type(f32, {2, 3}), {1, 2, 3, 4, 4, 4});
  w[1][2] = 5.5;
  EXPECT_TENSOR(w, Type(f32, {2, 3}), {1, 2, 3, 4, 4, 5.5});
}

TEST(Assign, WritesThroughViewsOfViews) {
  Tensor w = zeros({3, 4});
  Tensor left = w.narrow(1, 0, 2);
  left[1] = 7;
  w.t()[3] = tensor({1.0, 2.0, 3.0});
  w.index({Slice(0, 1), Slice(2, 3)}) = 9;
  EXPECT_TENSOR(w, Type(f32, {3, 4}), {0, 0, 9, 1, 7, 7, 0, 2, 0, 0, 0, 3});
  EXPECT_TENSOR(left, Type(f32, {3, 2}), {0, 0, 7, 7, 0, 0});
}

TEST(Assign, CastsAndBroadcastsAsCopyDoes) {
  Tensor w = zeros({2, 2}, i64);
  w[0] = tensor({1.7, -1.7});
  w[1] = tensor({8});
  EXPECT_TENSOR(w, Type(i64, {2, 2}), {1, -1, 8, 8});
  EXPECT_ERROR((w[0] = tensor({1, 2, 3})), ValueError, "copy_");
}

TEST(Assign, BindsANameToAnotherTensor) {
  Tensor w = zeros({2, 2}), x = ones({2});
  auto row = w[0];
  row = x;
  EXPECT_TRUE(row.is_same(x));
  Tensor other = w[1];
  row = std::move(other);
  EXPECT_TENSOR(w, Type(f32, {2, 2}), {0, 0, 0, 0});
}

TEST(Assign, ContainersAndSwapsBindAsWell) {
  Tensor a = ones({1}), b = zeros({1});
  std::swap(a, b);
  EXPECT_TENSOR(a, Type(f32, {1}), {0});
  std::vector<Tensor> list{a, b};
  list.insert(list.begin(), b);
  list.erase(list.begin() + 1);
  EXPECT_TRUE(list[0].is_same(b) && list[1].is_same(b));
  list[0] = a;
  std::optional<Tensor> maybe = b;
  maybe = a;
  std::tie(a, b) = std::tuple(b, a);
  EXPECT_TRUE(maybe->is_same(b));
  EXPECT_TENSOR(a, Type(f32, {1}), {1});
}

TEST(Assign, RefusesToWriteWhereNobodyWouldSeeIt) {
  Tensor x = arange(4), y = ones({4});
  EXPECT_ERROR((x + 1 = 5), ValueError, "the value would be lost");
  EXPECT_ERROR((x.index({x > 1}) = 5), ValueError, "index_put_");
  EXPECT_ERROR((Tensor() = y), ValueError, "assignment");
  // Of two handles the other one sees it.
  auto same = [&] { return y; };
  same() = 3;
  Tensor copy = y;
  std::move(copy) = 2;
  EXPECT_TENSOR(y, Type(f32, {4}), {2, 2, 2, 2});
}

TEST(Assign, NumbersHaveNoNameToBind) {
  static_assert(std::is_assignable_v<Tensor, int> && !std::is_assignable_v<Tensor&, int>);
  static_assert(std::is_assignable_v<Tensor, Tensor> && std::is_nothrow_move_assignable_v<Tensor>);
}

TEST(Assign, GradientsFollowTheWrite) {
  Tensor x = ones({2}).requires_grad_();
  Tensor w = zeros({2, 2});
  w[1] = x * 3;
  w[0] = 1;
  (w * w).sum().backward();
  EXPECT_TENSOR(x.grad(), Type(f32, {2}), {18, 18});
}

TEST(Assign, WritesAfterAStepAndFromOtherDevices) {
  Tensor w = zeros({2, 2}, f32, "cpu");
  w += 1;
  w.host();
  w[0] = full({2}, 6, f32, "reference");
  EXPECT_TENSOR(w, Type(f32, {2, 2}), {6, 6, 1, 1});
}

TEST(Rows, AreViewsOneAfterAnother) {
  Tensor x = arange(6).reshape(3, 2);
  int64_t sum = 0;
  for (Tensor row : x) {
    sum += row[0].item<int64_t>();
    row[1] = 0;
  }
  EXPECT_EQ(sum, 6);
  EXPECT_TENSOR(x, Type(i64, {3, 2}), {0, 0, 2, 0, 4, 0});
  for ([[maybe_unused]] Tensor row : zeros({0, 2})) ADD_FAILURE() << "there is no row";
  EXPECT_ERROR(for ([[maybe_unused]] Tensor row : tensor(1)){}, ValueError, "no rows");
}

}  // namespace
}  // namespace hammock
