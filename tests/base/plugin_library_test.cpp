#include "base/plugin_library.h"

#include <gtest/gtest.h>

namespace hammock {
namespace {

TEST(PluginLibrary, SaysWhyThereIsNone) {
  PluginLibrary plugin({.file = "libhammock-none.so",
                        .entry = "Entry",
                        .abi = 1,
                        .without = "nothing works without it"});
  const PluginLibrary::Opened& opened = plugin.Open("");
  EXPECT_EQ(opened.table, nullptr);
  EXPECT_EQ(opened.reason.find("nothing works without it: libhammock-none.so"), 0) << opened.reason;
  EXPECT_EQ(&plugin.Open(""), &opened);  // tried once
  EXPECT_NE(plugin.Open("/no/such/file.so").reason.find("/no/such/file.so"), std::string::npos);
}

TEST(PluginLibrary, NeedsItsEntry) {
  PluginLibrary plugin(
      {.file = "libc.so.6", .entry = "HammockHasNoSuchEntry", .abi = 1, .without = "nothing"});
  EXPECT_EQ(plugin.Open("").reason, "nothing: libc.so.6 has no HammockHasNoSuchEntry");
}

}  // namespace
}  // namespace hammock
