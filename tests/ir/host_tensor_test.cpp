#include "hammock/host_tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "expect_error.h"

namespace hammock {
namespace {

#if !defined(__SANITIZE_ADDRESS__)
TEST(HostTensor, LargeOnesBeginAtHugePages) {
  for (int64_t megabytes : {4, 5, 16}) {
    HostTensor tensor(Shape(DType::kU8, {megabytes << 20}));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data()) % (2 << 20), 0u) << megabytes;
  }
}
#endif

TEST(HostTensor, IsAlignedAndDefinedEvenWhenEmpty) {
  HostTensor tensor(Shape(f32, {3, 5}));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data()) % 64, 0u);
  EXPECT_TRUE(HostTensor(Shape(f32, {0})).defined());
  EXPECT_FALSE(HostTensor().defined());
}

TEST(HostTensor, RefusesBadSizes) {
  EXPECT_THROW(HostTensor(Shape(f32, {-1})), ValueError);
  EXPECT_THROW(HostTensor(Shape(f32, {int64_t{1} << 60, 8})), ValueError);
  EXPECT_THROW(HostTensor(Shape(f32, {int64_t{1} << 50})), OutOfMemory);
}

TEST(HostTensor, ReadsAndWritesElementsOfEveryDType) {
  for (int i = 0; i <= static_cast<int>(f64); ++i) {
    auto dtype = static_cast<DType>(i);
    HostTensor tensor(Shape(dtype, {2}));
    tensor.set(0, Scalar(0));
    tensor.set(1, Scalar(1.0));
    EXPECT_EQ(tensor.at(0), Scalar(0).To(dtype));
    EXPECT_EQ(tensor.at(1), Scalar(1).To(dtype));
  }
}

TEST(HostTensor, ChecksIndicesAndTypes) {
  HostTensor tensor = HostTensor::From<float>({1, 2}, {2});
  EXPECT_EQ(MessageOf<ValueError>([&] { tensor.at(2); }),
            "host tensor: index 2 is out of range for f32[2]");
  EXPECT_EQ(MessageOf<TypeError>([&] { tensor.values<double>(); }),
            "host tensor: read as f64, but it is f32[2]");
  EXPECT_EQ(MessageOf<ValueError>([] {
              HostTensor::From<float>({1, 2}, {3});
            }),
            "host tensor: 2 values given for f32[3]");
  EXPECT_THROW(HostTensor().at(0), ValueError);
  EXPECT_THROW(HostTensor().values<float>(), ValueError);
  EXPECT_THROW(HostTensor::Copy(Shape(f32, {1}), nullptr), ValueError);
}

TEST(HostTensor, CastsBetweenAllPairs) {
  for (int from = 0; from <= static_cast<int>(f64); ++from) {
    for (int to = 0; to <= static_cast<int>(f64); ++to) {
      HostTensor tensor(Shape(static_cast<DType>(from), {3}));
      for (int i = 0; i < 3; ++i) tensor.set(i, Scalar(i));
      HostTensor cast = tensor.To(static_cast<DType>(to));
      ASSERT_EQ(cast.shape(), Shape(static_cast<DType>(to), {3}));
      for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(cast.at(i), tensor.at(i).To(static_cast<DType>(to)));
      }
    }
  }
}

TEST(HostTensor, CastsOutOfRangeFloatsAsScalarsDo) {
  HostTensor tensor = HostTensor::From<float>({NAN, 1e30f, -2.7f, 300.0f}, {4});
  HostTensor bytes = tensor.To(u8);
  HostTensor longs = tensor.To(i64);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(bytes.at(i), tensor.at(i).To(u8));
    EXPECT_EQ(longs.at(i), tensor.at(i).To(i64));
  }
}

TEST(HostTensor, BorrowsAndReleases) {
  float data[2] = {1, 2};
  int released = 0;
  {
    HostTensor tensor = HostTensor::Borrow(Shape(f32, {2}), data, [&] { ++released; });
    HostTensor copy = tensor;
    EXPECT_EQ(copy.data(), data);
    EXPECT_FALSE(copy.unique());
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
}

TEST(HostTensor, KeepsMemoryThatItRefusesToTheCaller) {
  int released = 0;
  EXPECT_THROW(HostTensor::Borrow(Shape(f32, {2}), nullptr, [&] { ++released; }), ValueError);
  EXPECT_EQ(released, 0);
}

TEST(HostTensor, ComparesBits) {
  HostTensor a = HostTensor::From<float>({0.0f, NAN}, {2});
  EXPECT_TRUE(a.SameBits(HostTensor::Copy(a.shape(), a.data())));
  EXPECT_FALSE(a.SameBits(HostTensor::From<float>({-0.0f, NAN}, {2})));
  EXPECT_FALSE(a.SameBits(HostTensor::From<float>({0.0f, NAN}, {2, 1})));
  EXPECT_TRUE(HostTensor::From(Scalar(2.5)).SameBits(HostTensor::From<double>({2.5}, {})));
}

TEST(HostTensor, ReadsOddBytesOfBoolAsTrue) {
  unsigned char bytes[3] = {0, 1, 2};
  HostTensor tensor = HostTensor::Copy(Shape(boolean, {3}), bytes);
  HostTensor ints = tensor.To(i32);
  EXPECT_EQ(ints.at(2), Scalar(1).To(i32));
}

}  // namespace
}  // namespace hammock
