#include "hammock/error.h"
#include "hammock/ir/op_def.h"
#include "ops/expect.h"

namespace hammock {
namespace {

Any Call(const char* name, const std::vector<Any>& args) { return CallOp(name, args); }

TEST(InnerNames, NarrowReadsATensorStart) {
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

TEST(InnerNames, WhereOfOneTensorGivesCoordinates) {
  auto places = where(tensor({{0, 2}, {3, 0}}));
  ASSERT_EQ(places.size(), 2u);
  EXPECT_TENSOR(places[0], Type(i64, {2}), {0, 1});
  EXPECT_TENSOR(places[1], Type(i64, {2}), {1, 0});
  ASSERT_EQ(where(tensor(5)).size(), 1u);
  EXPECT_TENSOR(where(tensor(5))[0], Type(i64, {1}), {0});
  EXPECT_EQ(Call("where", {Any(tensor({1, 0}))}).ToList().size(), 1u);
}

TEST(InnerNames, EmptyStridedHasItsStrides) {
  Tensor x = empty_strided({2, 3}, {1, 2}, f64);
  EXPECT_EQ(x.strides(), (Dims{1, 2}));
  EXPECT_TENSOR(x, Type(f64, {2, 3}), {0, 0, 0, 0, 0, 0});
  EXPECT_EQ(empty_strided({0, 3}, {3, 1}).shape(), Type(f32, {0, 3}));
  EXPECT_THROW(empty_strided({2}, {1, 1}), ValueError);
}

TEST(InnerNames, ResizeKeepsTheFirstElements) {
  Tensor x = arange(6);
  resize_(x, {2, 2});
  EXPECT_TENSOR(x, Type(i64, {2, 2}), {0, 1, 2, 3});
  resize_(x, {5});
  EXPECT_TENSOR(x, Type(i64, {5}), {0, 1, 2, 3, 0});
  Tensor view = slice(x, 0, 1, 3);
  EXPECT_ERROR(resize_(view, {7}), NotSupported, "shares its memory");
  EXPECT_THROW(resize_(x, {-1}), ValueError);
}

TEST(InnerNames, QuestionsAboutATensor) {
  EXPECT_TRUE(Call("is_signed", {Any(Vec({1}, i8))}).ToBool());
  EXPECT_FALSE(Call("is_signed", {Any(Vec({1}, u8))}).ToBool());
  EXPECT_FALSE(Call("is_signed", {Any(Vec({1}, boolean))}).ToBool());
  EXPECT_TRUE(Call("is_floating_point", {Any(Vec({1}, bf16))}).ToBool());
  Tensor x = arange(4);
  EXPECT_TRUE(Call("is_alias_of", {Any(x), Any(view(x, {2, 2}))}).ToBool());
  EXPECT_FALSE(Call("is_alias_of", {Any(x), Any(clone(x))}).ToBool());
}

TEST(InnerNames, UnderscoreForms) {
  Tensor x = arange(6);
  Tensor matrix = Call("_unsafe_view", {Any(x), Any::Ints({2, 3})}).ToTensor();
  EXPECT_EQ(matrix.shape(), Type(i64, {2, 3}));
  EXPECT_FALSE(matrix.is_alias_of(x));
  EXPECT_TENSOR(Call("_dim_arange", {Any(matrix), Any(1)}).ToTensor(), Type(i64, {3}), {0, 1, 2});
  Call("_index_put_impl_",
       {Any(x), Any(AnyList{Any(Vec({1, 1}, i64))}), Any(Vec({5, 6}, i64)), Any(true), Any(false)});
  EXPECT_TENSOR(x, Type(i64, {6}), {0, 12, 2, 3, 4, 5});
}

TEST(InnerNames, ForwardToTheirOps) {
  EXPECT_TENSOR(_softmax(Vec({0, 0}, f16), 0, true), Type(f32, {2}), {0.5, 0.5});
  EXPECT_TENSOR(_log_softmax(Vec({0, 0}), 0, false), Type(f32, {2}), {std::log(0.5), std::log(0.5)},
                1e-6);
  EXPECT_ERROR(_softmax(Vec({0, 0}), 0, true), TypeError, "half_to_float needs f16");
  auto [value, buffer] = log_sigmoid_forward(Vec({0, 1}));
  EXPECT_TENSOR(value, Type(f32, {2}), {std::log(0.5), -std::log1p(std::exp(-1.0))}, 1e-6);
  EXPECT_TENSOR(buffer, Type(f32, {2}), {1, std::exp(-1.0)}, 1e-6);
  Tensor row = reshape(Vec({1, 2, 3}), {1, 1, 3});
  EXPECT_TENSOR(reflection_pad1d(row, {1, 2}), Type(f32, {1, 1, 6}), {2, 1, 2, 3, 2, 1});
  EXPECT_TENSOR(replication_pad2d(row, {1, 0, 0, 1}), Type(f32, {1, 2, 4}),
                {1, 1, 2, 3, 1, 1, 2, 3});
  EXPECT_ERROR(reflection_pad2d(row, {1, 1}), ValueError, "padding needs 4 numbers, got 2");
}

}  // namespace
}  // namespace hammock
