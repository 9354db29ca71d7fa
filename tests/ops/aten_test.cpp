#include "hammock/error.h"
#include "ops/expect.h"

namespace hammock {
namespace {

Any Call(const char* name, const std::vector<Any>& args) { return CallOp(name, args); }

TEST(Aten, NarrowReadsATensorStart) {
  Tensor x = arange(10);
  Tensor part = Call("narrow", {Any(x), Any(0), Any(tensor(-3)), Any(2)}).ToTensor();
  EXPECT_TENSOR(part, Type(i64, {2}), {7, 8});
  EXPECT_TRUE(part.is_alias_of(x));
  EXPECT_ERROR(Call("narrow", {Any(x), Any(0), Any(tensor(1.0)), Any(2)}), TypeError, "start");
  Tensor copy = narrow_copy(x, 0, 2, 3);
  EXPECT_TENSOR(copy, Type(i64, {3}), {2, 3, 4});
  EXPECT_FALSE(copy.is_alias_of(x));
  EXPECT_THROW(narrow_copy(x, 0, 8, 3), ValueError);
}

TEST(Aten, WhereOfOneTensorGivesCoordinates) {
  auto places = where(tensor({{0, 2}, {3, 0}}));
  ASSERT_EQ(places.size(), 2u);
  EXPECT_TENSOR(places[0], Type(i64, {2}), {0, 1});
  EXPECT_TENSOR(places[1], Type(i64, {2}), {1, 0});
  ASSERT_EQ(where(tensor(5)).size(), 1u);
  EXPECT_TENSOR(where(tensor(5))[0], Type(i64, {1}), {0});
  EXPECT_EQ(Call("where", {Any(tensor({1, 0}))}).ToList().size(), 1u);
}

TEST(Aten, EmptyStridedHasItsStrides) {
  Tensor x = empty_strided({2, 3}, {1, 2}, f64);
  EXPECT_EQ(x.strides(), (Dims{1, 2}));
  EXPECT_TENSOR(x, Type(f64, {2, 3}), {0, 0, 0, 0, 0, 0});
  EXPECT_EQ(empty_strided({0, 3}, {3, 1}).shape(), Type(f32, {0, 3}));
  EXPECT_THROW(empty_strided({2}, {1, 1}), ValueError);
}

TEST(Aten, ResizeKeepsTheFirstElements) {
  Tensor x = arange(6);
  resize_(x, {2, 2});
  EXPECT_TENSOR(x, Type(i64, {2, 2}), {0, 1, 2, 3});
  resize_(x, {5});
  EXPECT_TENSOR(x, Type(i64, {5}), {0, 1, 2, 3, 0});
  Tensor view = slice(x, 0, 1, 3);
  EXPECT_ERROR(resize_(view, {7}), NotSupported, "shares its memory");
  EXPECT_THROW(resize_(x, {-1}), ValueError);
}

TEST(Aten, QuestionsAboutATensor) {
  EXPECT_TRUE(Call("is_signed", {Any(Vec({1}, i8))}).ToBool());
  EXPECT_FALSE(Call("is_signed", {Any(Vec({1}, u8))}).ToBool());
  EXPECT_FALSE(Call("is_signed", {Any(Vec({1}, boolean))}).ToBool());
  EXPECT_TRUE(Call("is_floating_point", {Any(Vec({1}, bf16))}).ToBool());
  Tensor x = arange(4);
  EXPECT_TRUE(Call("is_alias_of", {Any(x), Any(view(x, {2, 2}))}).ToBool());
  EXPECT_FALSE(Call("is_alias_of", {Any(x), Any(clone(x))}).ToBool());
}

TEST(Aten, UnderscoreForms) {
  Tensor x = arange(6);
  Tensor matrix = Call("_unsafe_view", {Any(x), Any::Ints({2, 3})}).ToTensor();
  EXPECT_EQ(matrix.shape(), Type(i64, {2, 3}));
  EXPECT_FALSE(matrix.is_alias_of(x));
  EXPECT_TENSOR(Call("_dim_arange", {Any(matrix), Any(1)}).ToTensor(), Type(i64, {3}), {0, 1, 2});
  Call("_index_put_impl_",
       {Any(x), Any(AnyList{Any(Vec({1, 1}, i64))}), Any(Vec({5, 6}, i64)), Any(true), Any(false)});
  EXPECT_TENSOR(x, Type(i64, {6}), {0, 12, 2, 3, 4, 5});
}

TEST(Aten, LossScaling) {
  Tensor a = Vec({2, 4}), b = Vec({kInf, 1}, f16), found = Vec({0});
  Call("_amp_foreach_non_finite_check_and_unscale_",
       {Any(AnyList{Any(a)}), Any(found), Any(Vec({0.5}))});
  EXPECT_TENSOR(a, Type(f32, {2}), {1, 2});
  EXPECT_TENSOR(found, Type(f32, {1}), {0});
  Call("_amp_foreach_non_finite_check_and_unscale_",
       {Any(AnyList{Any(a), Any(b)}), Any(found), Any(Vec({0.5}))});
  EXPECT_TENSOR(b, Type(f16, {2}), {kInf, 0.5});
  EXPECT_TENSOR(found, Type(f32, {1}), {1});

  auto update = [](Tensor& scale, Tensor& tracker, double bad) {
    Call("_amp_update_scale_",
         {Any(scale), Any(tracker), Any(Vec({bad})), Any(2.0), Any(0.5), Any(2)});
  };
  Tensor scale = Vec({8}), tracker = Vec({0}, i32);
  update(scale, tracker, 0);
  EXPECT_TENSOR(scale, Type(f32, {1}), {8});
  EXPECT_TENSOR(tracker, Type(i32, {1}), {1});
  update(scale, tracker, 0);
  EXPECT_TENSOR(scale, Type(f32, {1}), {16});
  EXPECT_TENSOR(tracker, Type(i32, {1}), {0});
  update(scale, tracker, 1);
  EXPECT_TENSOR(scale, Type(f32, {1}), {8});
  // Growth to infinity is no growth.
  Tensor large = Vec({3e38}), one = Vec({1}, i32);
  update(large, one, 0);
  EXPECT_TENSOR(large, Type(f32, {1}), {3e38f});
  EXPECT_TENSOR(one, Type(i32, {1}), {0});
}

}  // namespace
}  // namespace hammock
