#include "hammock/ir/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <sstream>
#include <string>

#include "expect_error.h"

namespace hammock {
namespace {

constexpr int kSupported = 15;

TEST(DType, TableIsInEnumerationOrder) {
  for (int i = 0; i < kNumDTypes; ++i) {
    EXPECT_EQ(static_cast<int>(kDTypeTable[i].dtype), i);
    EXPECT_EQ(kDTypeTable[i].supported, i < kSupported) << kDTypeTable[i].name;
  }
}

TEST(DType, NamesAreDistinctAndFound) {
  std::set<std::string_view> names;
  for (const DTypeInfo& info : kDTypeTable) {
    EXPECT_TRUE(names.insert(info.name).second);
    EXPECT_EQ(DTypeFromName(info.name), info.dtype);
    EXPECT_EQ(DTypeFromName(info.torch_name), info.dtype);
  }
  EXPECT_EQ(DTypeFromName("float"), f32);
  EXPECT_EQ(DTypeFromName("torch.int64"), i64);
  EXPECT_EQ(DTypeFromName("long"), i64);
  EXPECT_EQ(DTypeFromName("f33"), std::nullopt);
  EXPECT_EQ(DTypeFromName(""), std::nullopt);
}

template <class T>
void ExpectLimits() {
  using Limits = std::numeric_limits<T>;
  const DTypeInfo& info = InfoOf(DTypeOf<T>);
  EXPECT_EQ(info.bits, static_cast<int>(sizeof(T)) * 8) << info.name;
  EXPECT_EQ(info.lowest, static_cast<double>(Limits::lowest())) << info.name;
  EXPECT_EQ(info.highest, static_cast<double>(Limits::max())) << info.name;
  EXPECT_EQ(info.epsilon, static_cast<double>(Limits::epsilon())) << info.name;
}

TEST(DType, LimitsAreThoseOfTheElementTypes) {
  ExpectLimits<bool>();
  ExpectLimits<uint8_t>();
  ExpectLimits<uint16_t>();
  ExpectLimits<uint32_t>();
  ExpectLimits<uint64_t>();
  ExpectLimits<int8_t>();
  ExpectLimits<int16_t>();
  ExpectLimits<int32_t>();
  ExpectLimits<int64_t>();
  ExpectLimits<float>();
  ExpectLimits<double>();
  EXPECT_EQ(InfoOf(f16).highest, static_cast<float>(Half::FromBits(0x7bff)));
  EXPECT_EQ(InfoOf(f16).epsilon, static_cast<float>(Half::FromBits(0x3c01)) - 1);
  EXPECT_EQ(InfoOf(bf16).highest, static_cast<float>(BFloat16::FromBits(0x7f7f)));
  EXPECT_EQ(InfoOf(bf16).epsilon, static_cast<float>(BFloat16::FromBits(0x3f81)) - 1);
}

TEST(DType, SubByteTypesArePacked) {
  EXPECT_EQ(BytesOf(DType::kI4, 3), 2);
  EXPECT_EQ(BytesOf(DType::kU2, 5), 2);
  EXPECT_EQ(BytesOf(f32, 3), 12);
  EXPECT_EQ(BytesOf(boolean, 3), 3);
}

// PyTorch's promote_types, and the array API's of wide unsigned types with signed ones; "-" where
// there is none.
constexpr const char* kPromotions = R"(
       bool u8   u16  u32  u64  i8   i16  i32  i64  f16  bf16 f32  f64  c64  c128
  bool bool u8   u16  u32  u64  i8   i16  i32  i64  f16  bf16 f32  f64  c64  c128
  u8   u8   u8   u16  u32  u64  i16  i16  i32  i64  f16  bf16 f32  f64  c64  c128
  u16  u16  u16  u16  u32  u64  i32  i32  i32  i64  f16  bf16 f32  f64  c64  c128
  u32  u32  u32  u32  u32  u64  i64  i64  i64  i64  f16  bf16 f32  f64  c64  c128
  u64  u64  u64  u64  u64  u64  -    -    -    -    f16  bf16 f32  f64  c64  c128
  i8   i8   i16  i32  i64  -    i8   i16  i32  i64  f16  bf16 f32  f64  c64  c128
  i16  i16  i16  i32  i64  -    i16  i16  i32  i64  f16  bf16 f32  f64  c64  c128
  i32  i32  i32  i32  i64  -    i32  i32  i32  i64  f16  bf16 f32  f64  c64  c128
  i64  i64  i64  i64  i64  -    i64  i64  i64  i64  f16  bf16 f32  f64  c64  c128
  f16  f16  f16  f16  f16  f16  f16  f16  f16  f16  f16  f32  f32  f64  c64  c128
  bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 f32  bf16 f32  f64  c64  c128
  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f64  c64  c128
  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  c128 c128
  c64  c64  c64  c64  c64  c64  c64  c64  c64  c64  c64  c64  c64  c128 c64  c128
  c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128)";

TEST(PromoteTypes, FollowsTheTable) {
  std::istringstream table(kPromotions);
  std::string word;
  std::string columns[kSupported];
  for (std::string& column : columns) table >> column;
  for (int row = 0; row < kSupported; ++row) {
    table >> word;
    DType a = DTypeFromName(word).value();
    for (const std::string& column : columns) {
      DType b = DTypeFromName(column).value();
      table >> word;
      if (word == "-") {
        EXPECT_THROW(PromoteTypes(a, b), TypeError) << NameOf(a) << " " << NameOf(b);
      } else {
        EXPECT_EQ(NameOf(PromoteTypes(a, b)), word) << NameOf(a) << " " << NameOf(b);
      }
    }
  }
  EXPECT_FALSE(table.fail());
}

TEST(PromoteTypes, NamesBothTypesWhereThereIsNone) {
  EXPECT_EQ(MessageOf<TypeError>([] { PromoteTypes(u64, i64); }),
            "promote_types: u64 and i64 have no common type; cast one of them");
  EXPECT_THROW(PromoteTypes(f32, DType::kF8E4M3), TypeError);
  EXPECT_THROW(PromoteTypes(DType::kI4, i8), TypeError);
}

}  // namespace
}  // namespace hammock
