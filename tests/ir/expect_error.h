#pragma once
/// The message of the error that `statement` throws, or a text that says otherwise.
///   EXPECT_EQ(MessageOf<ValueError>([] { WrapDim("sum", 3, 2); }), "sum: dim 3 is out of ...");

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

}  // namespace hammock
