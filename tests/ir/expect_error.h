#pragma once
/// The message of the error that `statement` throws, or a text that says otherwise.
///   EXPECT_EQ(MessageOf<ValueError>([] { WrapDim("sum", 3, 2); }), "sum: dim 3 is out of ...");

///   EXPECT_ERROR(WrapDim("sum", 3, 2), ValueError, "is out of range");  // a part of the message

#include <gtest/gtest.h>

#include <string>

#include "hammock/error.h"

namespace hammock {

template <class E, class F>
std::string MessageOf(F statement) {
  try {
    statement();
  } catch (const E& error) {
    return error.message();
  } catch (const std::exception& error) {
    return std::string("another error: ") + error.what();
  }
  return "no error";
}

inline ::testing::AssertionResult Contains(const std::string& message, const std::string& part) {
  if (message.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "message: " << message << "\nlacks:   " << part;
}

#define EXPECT_ERROR(statement, E, part) \
  EXPECT_TRUE(Contains(MessageOf<E>([&] { (void)(statement); }), part))

}  // namespace hammock
