// Devices of runtime/step/write_units_test.cpp: an asynchronous backend of the tests, and a plug-in
// that has a copy of the library of its own.

#include <gtest/gtest.h>

#include "hammock/plugins.h"
#include "support/host_backend.h"

namespace hammock {
namespace {

class Devices : public ::testing::Environment {
 public:
  void SetUp() override {
    lazy::RegisterBackend(&testing::MakeBackend("async", 1, /*asynchronous=*/true));
    plugins::Load(HAMMOCK_CPU_PLUGIN);
  }
};
[[maybe_unused]] const auto* const environment = ::testing::AddGlobalTestEnvironment(new Devices);

}  // namespace
}  // namespace hammock
