#include "hammock/callback.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <type_traits>

namespace hammock {
namespace {

using Twice = Callback<std::string(const std::string&)>;

std::string Doubled(const std::string& text) { return text + text; }

TEST(Callback, CallsLambdasFunctionsAndStdFunctions) {
  std::string last = "!";
  EXPECT_EQ(Twice(Doubled)("a"), "aa");
  EXPECT_EQ(Twice([](const std::string& text) { return text; })("a"), "a");
  EXPECT_EQ(Twice([&](const std::string& text) { return text + last; })("a"), "a!");
  EXPECT_EQ(Twice(std::function<std::string(std::string)>(Doubled))("a"), "aa");
}

TEST(Callback, IsEmptyAsWhatItWasMadeOf) {
  EXPECT_FALSE(Twice());
  EXPECT_FALSE(Twice(nullptr));
  EXPECT_FALSE(Twice(std::function<std::string(const std::string&)>()));
  EXPECT_FALSE(Twice(static_cast<std::string (*)(const std::string&)>(nullptr)));
  EXPECT_TRUE(Twice(Doubled));
}

TEST(Callback, DropsResultsThatNobodyWants) {
  int calls = 0;
  Callback<void()> count = [&] { return ++calls; };
  count();
  EXPECT_EQ(calls, 1);
}

TEST(Callback, SharesWhatItCapturedAmongCopies) {
  auto held = std::make_shared<int>(0);
  {
    Callback<int()> next = [held] { return ++*held; };
    Callback<int()> copy = next;
    EXPECT_EQ(held.use_count(), 2);
    EXPECT_EQ(next() + copy(), 3);
  }
  EXPECT_EQ(held.use_count(), 1);
}

TEST(Callback, TakesOnlyWhatCanBeCalled) {
  EXPECT_FALSE((std::is_constructible_v<Callback<void()>, int>));
  EXPECT_FALSE((std::is_constructible_v<Callback<int()>, void (*)()>));
}

}  // namespace
}  // namespace hammock
