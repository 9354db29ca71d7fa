#include "hammock/error.h"

#include <gtest/gtest.h>

#include <type_traits>

#include "base/throw.h"

namespace hammock {
namespace {

TEST(Error, CodesHaveStableTexts) {
  EXPECT_EQ(ErrorCodeName(ErrorCode::kValue), "HM0001");
  EXPECT_EQ(ErrorCodeName(ErrorCode::kShapeMismatch), "HM0002");
  EXPECT_EQ(ErrorCodeName(ErrorCode::kForeignTensor), "HM0010");
  EXPECT_EQ(ErrorCodeName(ErrorCode::kInternal), "HM0031");
  EXPECT_EQ(ErrorCodeName(static_cast<ErrorCode>(999)), "HM0000");
}

TEST(Error, TextHasMessageAndCode) {
  ValueError error(ErrorCode::kShapeMismatch, "add: shapes differ");
  EXPECT_STREQ(error.what(), "add: shapes differ (HM0002)");
  EXPECT_EQ(error.message(), "add: shapes differ");
  EXPECT_EQ(error.where(), "");
}

TEST(Error, TextNamesLocationOnceItIsKnown) {
  ValueError error(ErrorCode::kShapeMismatch, "add: shapes differ");
  ValueError before = error;
  error.SetWhere("main.cpp:12");
  EXPECT_STREQ(error.what(), "add: shapes differ [at main.cpp:12] (HM0002)");
  EXPECT_EQ(error.where(), "main.cpp:12");
  EXPECT_EQ(error.message(), "add: shapes differ");
  EXPECT_STREQ(before.what(), "add: shapes differ (HM0002)") << "a copy must not change";
}

template <class E>
void ExpectRaisesItself() {
  std::shared_ptr<Error> stored = E(ErrorCode::kExecute, "failed").Clone();
  stored->SetWhere("a.cpp:1");
  for (int i = 0; i < 2; ++i) {
    try {
      stored->Clone()->Raise();
    } catch (const E& error) {
      EXPECT_STREQ(error.what(), "failed [at a.cpp:1] (HM0022)");
      EXPECT_EQ(error.code(), ErrorCode::kExecute);
      EXPECT_EQ(typeid(error), typeid(E));
    }
  }
}

TEST(Error, StoredErrorIsRaisedWithItsDynamicType) {
  ExpectRaisesItself<Error>();
  ExpectRaisesItself<ValueError>();
  ExpectRaisesItself<TypeError>();
  ExpectRaisesItself<NotSupported>();
  ExpectRaisesItself<CompileError>();
  ExpectRaisesItself<OutOfMemory>();
  ExpectRaisesItself<DeviceError>();
  ExpectRaisesItself<InternalError>();
}

TEST(Error, CopyNeverThrows) {
  static_assert(std::is_nothrow_copy_constructible_v<Error>);
  static_assert(std::is_nothrow_copy_constructible_v<OutOfMemory>);
  ValueError error(ErrorCode::kValue, "x");
  ValueError moved = std::move(error);
  EXPECT_STREQ(error.what(), "x (HM0001)") << "a moved-from error still has its text";
  EXPECT_STREQ(moved.what(), "x (HM0001)");
}

TEST(Throw, FormatsTheMessage) {
  try {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "cast: {} to {}", "f32", 7);
    FAIL();
  } catch (const TypeError& error) {
    EXPECT_STREQ(error.what(), "cast: f32 to 7 (HM0003)");
  }
  EXPECT_THROW(Throw(ErrorCode::kValue, "plain"), ValueError);
}

TEST(Check, NamesConditionPlaceAndValues) {
  int size = 3;
  HAMMOCK_CHECK(size == 3);
  HAMMOCK_CHECK(size == 3, "never formatted {}", size);
  try {
    HAMMOCK_CHECK(size < 2, "size {}", size);
    FAIL();
  } catch (const InternalError& error) {
    std::string text = error.what();
    EXPECT_EQ(text.find("tests/base/error_test.cpp:"), 0u) << text;
    EXPECT_NE(text.find("check failed: size < 2: size 3"), std::string::npos) << text;
    EXPECT_EQ(error.code(), ErrorCode::kInternal);
  }
  EXPECT_THROW(HAMMOCK_CHECK(size % 2 == 0), InternalError);
}

}  // namespace
}  // namespace hammock
