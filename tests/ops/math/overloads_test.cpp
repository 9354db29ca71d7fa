// Forms of calls that users type: numbers for lists of one, sizes one by one, literals, casts.

#include <cmath>
#include <limits>
#include <sstream>

#include "hammock/error.h"
#include "ops/expect.h"

namespace hammock {
namespace {

template <class T>
std::string Printed(const T& value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

TEST(Overloads, ANumberIsAListOfOne) {
  Tensor x = arange(6).reshape(2, 3).to(f32);
  EXPECT_TENSOR(x.sum(1), Type(f32, {2}), {3, 12});
  EXPECT_TENSOR(x.mean(-1, true), Type(f32, {2, 1}), {1, 4});
  EXPECT_TENSOR(sum(x, 0), Type(f32, {3}), {3, 5, 7});
  EXPECT_TENSOR(x.amax(0), Type(f32, {3}), {3, 4, 5});
  EXPECT_EQ(x.var(1).sizes(), Dims{2});
  EXPECT_EQ(x.logsumexp(1).sizes(), Dims{2});
  EXPECT_EQ(x.view(6).sizes(), Dims{6});
  EXPECT_TENSOR(x.roll(1, 1), Type(f32, {2, 3}), {2, 0, 1, 5, 3, 4});
  EXPECT_TENSOR(x.flip(0), Type(f32, {2, 3}), {3, 4, 5, 0, 1, 2});
  EXPECT_TENSOR(zeros(3), Type(f32, {3}), {0, 0, 0});
  EXPECT_TENSOR(full(2, 3), Type(i64, {2}), {3, 3});
  EXPECT_EQ(randint(5, 3).sizes(), Dims{3});
  static_assert(!std::is_convertible_v<bool, Dims>);  // x.sum(true) is a mistake
}

TEST(Overloads, SizesAndDimsOneByOne) {
  Tensor x = arange(6);
  EXPECT_EQ(x.view(2, 3).sizes(), (Dims{2, 3}));
  EXPECT_EQ(x.view(2, -1).permute(1, 0).sizes(), (Dims{3, 2}));
  EXPECT_EQ(x.reshape(1, 2, 3).sizes(), (Dims{1, 2, 3}));
  EXPECT_EQ(x.view(1, 6).expand(4, 6).sizes(), (Dims{4, 6}));
  EXPECT_EQ(x.repeat(2, 2).sizes(), (Dims{2, 12}));
  EXPECT_EQ(x.tile(2, 2).sizes(), (Dims{2, 12}));
  EXPECT_EQ(x.view_as(zeros(3, 2)).sizes(), (Dims{3, 2}));
  EXPECT_EQ(x.expand_as(zeros(4, 6)).sizes(), (Dims{4, 6}));
  EXPECT_EQ(x.unfold(0, 3, 1).sizes(), (Dims{4, 3}));
  EXPECT_TENSOR(x.view(2, 3).flip(0, 1), Type(i64, {2, 3}), {5, 4, 3, 2, 1, 0});
  for (const Tensor& made : {zeros(2, 3), ones(2, 3), empty(2, 3), rand(2, 3), randn(2, 3)}) {
    EXPECT_EQ(made.shape(), Type(f32, {2, 3}));
  }
}

TEST(Overloads, TransposesHaveTheirShortNames) {
  Tensor x = arange(24).reshape(2, 3, 4);
  EXPECT_EQ(x.T().sizes(), (Dims{4, 3, 2}));
  EXPECT_EQ(x.mT().sizes(), (Dims{2, 4, 3}));
  EXPECT_TRUE(x.mT().is_alias_of(x));
  EXPECT_ERROR(arange(3).mT(), ValueError, "mT: needs at least 2 dims");
}

TEST(Overloads, CastsAndMovesByName) {
  Tensor x = tensor({1.5, 2.5});
  EXPECT_EQ(x.half().dtype(), f16);
  EXPECT_EQ(x.bfloat16().dtype(), bf16);
  EXPECT_EQ(x.float64().dtype(), f64);
  EXPECT_EQ(x.int32().dtype(), i32);
  EXPECT_TENSOR(x.int64().float32(), Type(f32, {2}), {1, 2});
  EXPECT_EQ(x.type_as(tensor({1})).dtype(), i64);
  Tensor there = zeros({1}, f64, "reference");
  EXPECT_EQ(x.to(there).device(), Device("reference"));
  EXPECT_EQ(x.to(there).dtype(), f64);
  EXPECT_EQ(x.to("reference", f16).dtype(), f16);
  EXPECT_EQ(x.cpu().device(), Device("cpu"));
  EXPECT_FALSE(x.is_cuda());
  try {
    EXPECT_TRUE(x.cuda().is_cuda());
  } catch (const ValueError& error) {  // no GPU here
    EXPECT_EQ(error.code(), ErrorCode::kUnknownDevice);
  }
  EXPECT_TRUE(x.is_signed() && !tensor({1}, u8).is_signed());
}

TEST(Literals, NestToAnyDepth) {
  EXPECT_TENSOR(tensor({{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}}), Type(i64, {2, 2, 2}),
                {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(tensor({{{{1}}}}).sizes(), (Dims{1, 1, 1, 1}));
  EXPECT_EQ(tensor({{1.0}}).shape(), Type(f32, {1, 1}));
  EXPECT_EQ(tensor({{}, {}}).sizes(), (Dims{2, 0}));
  EXPECT_EQ(tensor({}).shape(), Type(f32, {0}));
}

TEST(Literals, OneFloatMakesAllFloats) {
  EXPECT_TENSOR(tensor({1, 2.5}), Type(f32, {2}), {1, 2.5});
  EXPECT_TENSOR(tensor({1.0, NAN}), Type(f32, {2}), {1, kNan});
  EXPECT_TENSOR(tensor({true, 2}), Type(i64, {2}), {1, 2});
  EXPECT_EQ(tensor({true, false}).dtype(), boolean);
  EXPECT_TENSOR(tensor({1, 2.5}, f64), Type(f64, {2}), {1, 2.5});
  EXPECT_TENSOR(tensor({Scalar(1), Scalar(0.5)}), Type(f32, {2}), {1, 0.5});
}

TEST(Literals, RefuseRaggedRows) {
  EXPECT_ERROR(tensor({{1, 2}, {3}}), ValueError, "differ in length or depth");
  EXPECT_ERROR(tensor({{1}, 2}), ValueError, "differ in length or depth");
  EXPECT_ERROR(tensor({1, {2}}), ValueError, "differ in length or depth");
  EXPECT_ERROR(tensor({{{1}}, {2}}), ValueError, "differ in length or depth");
}

TEST(Item, RefusesWhatDoesNotFit) {
  Tensor big = tensor(3e9);
  EXPECT_ERROR(big.item<int>(), ValueError, "item: the value 3000000000.0 does not fit i32");
  EXPECT_EQ(big.item<int64_t>(), 3000000000);
  EXPECT_EQ(big.item<unsigned>(), 3000000000u);
  EXPECT_ERROR(tensor(300).item<uint8_t>(), ValueError, "item: the value 300 does not fit u8");
  EXPECT_ERROR(tensor(-1).item<uint64_t>(), ValueError, "does not fit u64");
  EXPECT_ERROR(tensor(-1.5).item<unsigned>(), ValueError, "does not fit u32");
  EXPECT_ERROR(tensor(NAN).item<int>(), ValueError, "the value nan does not fit i32");
  EXPECT_ERROR(tensor(-INFINITY).item<int64_t>(), ValueError, "does not fit i64");
  EXPECT_ERROR(tensor(0x1p63, f64).item<int64_t>(), ValueError, "does not fit i64");
  EXPECT_ERROR(tensor(1e300, f64).item<float>(), ValueError, "does not fit f32");
  EXPECT_ERROR(tensor(1e6).item<Half>(), ValueError, "does not fit f16");
}

TEST(Item, TruncatesAndKeepsTheRest) {
  EXPECT_EQ(tensor(2.9).item<int>(), 2);
  EXPECT_EQ(tensor(-2.9).item<int>(), -2);
  EXPECT_EQ(tensor(-0.9).item<unsigned>(), 0u);
  EXPECT_EQ(tensor(255.5).item<uint8_t>(), 255);
  EXPECT_EQ(tensor(-0x1p63, f64).item<int64_t>(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(tensor(uint64_t{1} << 63, u64).item<uint64_t>(), uint64_t{1} << 63);
  EXPECT_EQ(tensor(7).item<char>(), 7);
  EXPECT_EQ(tensor(7).item<long long>(), 7);
  EXPECT_TRUE(std::isinf(tensor(INFINITY).item<float>()));
  EXPECT_TRUE(tensor(0.5).item<bool>());
}

TEST(DataPtr, HoldsTheElements) {
  Tensor x = (arange(6).reshape(2, 3) * 2).to(f32);
  const float* elements = x.data_ptr<float>();
  EXPECT_EQ(elements[5], 10);
  EXPECT_EQ(x.data_ptr<float>(), elements);  // nothing is read twice
  x[0] = 100;
  EXPECT_EQ(elements[0], 0);
  EXPECT_EQ(x.data_ptr<float>()[0], 100);
  Tensor turned = x.t();
  EXPECT_EQ(turned.data_ptr<float>()[1], 6);  // row-major
  x[1] = 1;
  EXPECT_EQ(turned.data_ptr<float>()[1], 1);
  EXPECT_ERROR(x.data_ptr<double>(), TypeError, "data_ptr: the tensor is f32[2,3], not f64");
}

TEST(Streams, TakeWhatTensorsAreAskedFor) {
  Tensor x = tensor({1.5f, 2.0f});
  EXPECT_EQ(Printed(x.sizes()), "[2]");
  EXPECT_EQ(Printed(x.shape()), "f32[2]");
  EXPECT_EQ(Printed(x.dtype()), "f32");
  EXPECT_EQ(Printed(x[0].item()), "1.5");
  EXPECT_EQ(Printed(Scalar(true)), "true");
  EXPECT_EQ(Printed(tensor(3, i32).item()), "3");
  EXPECT_EQ(Printed(Device("reference")), "reference:0");
}

TEST(SecondNames, AreTheFunctionsThemselves) {
  Tensor x = tensor({0.25, 0.5}), m = tensor({{2.0, 0.0}, {0.0, 3.0}});
  EXPECT_TENSOR(special_expit(x) - sigmoid(x), Type(f32, {2}), {0, 0});
  EXPECT_TENSOR(special_xlogy(x, 1), Type(f32, {2}), {0, 0});
  EXPECT_TENSOR(concat({x, x}), Type(f32, {4}), {0.25, 0.5, 0.25, 0.5});
  EXPECT_TENSOR(trapz(x), Type(f32, {}), {0.375});
  EXPECT_TENSOR(linalg_matrix_power(m, 2), Type(f32, {2, 2}), {4, 0, 0, 9});
  EXPECT_TENSOR(linalg_norm(m, 1), Type(f32, {}), {3});
  EXPECT_TENSOR(linalg_norm(m, 1, 1), Type(f32, {2}), {2, 3});
  EXPECT_EQ(linalg_norm(m, "nuc").item<float>(), 5);
  EXPECT_EQ(unfold(arange(5), 0, 2, 1).sizes(), (Dims{4, 2}));
  Tensor y = x.clone();
  EXPECT_TENSOR(negative_(y), Type(f32, {2}), {-0.25, -0.5});
}

}  // namespace
}  // namespace hammock
