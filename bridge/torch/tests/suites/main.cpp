// PyTorch's tests of lazy tensors, which start its own backend, with Hammock's in its place.

#include <gtest/gtest.h>

#include "lazy/lazy_backend.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  hammock_torch::InitLazyBackend("cpu");
  return RUN_ALL_TESTS();
}
