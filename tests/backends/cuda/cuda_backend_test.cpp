// The device as a whole, on the emulated machine, or on a GPU where there is one.
#include "backends/cuda/cuda_backend.h"

#include <gtest/gtest.h>

#include "backends/cuda/emulated.h"
#include "backends/cuda/gpu_machine.h"
#include "hammock/hammock.h"

namespace hammock {
namespace {

/// Two devices of one kind; "gpu" beside "cuda", which other tests may use.
class CudaDevice : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    static bool registered = false;
    if (std::exchange(registered, true)) return;
    std::vector<std::shared_ptr<cuda::Machine>> machines;
    bool gpu = cuda::WhyNoGpu().empty();
    for (int i = 0; i < 2; ++i) {
      machines.push_back(gpu ? cuda::MakeGpuMachine(0) : cuda::EmulatedForTests());
    }
    lazy::RegisterBackend(cuda::MakeBackend(machines, "gpu", 101).release());
  }
  Device device_{"gpu:0"};
};

Tensor On(const Device& device, std::vector<float> values, Dims sizes) {
  return tensor(values, sizes, f32, device);
}

TEST_F(CudaDevice, RunsAStepOfKernelsAndProducts) {
  Tensor x = On(device_, {1, 2, 3, 4, 5, 6}, {2, 3});
  Tensor w = On(device_, {1, 0, 0, 1, 1, 1}, {3, 2});
  Tensor y = softmax(matmul(x, w) * 0.5, 1).sum(Dims{0});
  std::vector<float> values = y.to_vector<float>();
  EXPECT_NEAR(values[0] + values[1], 2, 1e-6);
  Tensor z = matmul(x, w);
  EXPECT_EQ(z.to_vector<float>(), (std::vector<float>{4, 5, 10, 11}));
}

TEST_F(CudaDevice, CopiesBetweenDevices) {
  Tensor x = On(device_, {1, 2, 3}, {3});
  Tensor y = (x + 1).to(Device("gpu:1"));
  EXPECT_EQ((y * 2).to_vector<float>(), (std::vector<float>{4, 6, 8}));
}

TEST_F(CudaDevice, WrongOrdinalsAreErrors) { EXPECT_THROW(Device("gpu:2"), ValueError); }

TEST_F(CudaDevice, WrongIndicesAreErrorsOfTheirValues) {
  Tensor x = On(device_, {1, 2, 3}, {3});
  Tensor index = tensor(std::vector<int64_t>{0, 7}, {2}, i64, device_);
  Tensor y = index_select(x, 0, index);
  try {
    y.to_vector<float>();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(
        std::string(error.what()).find("index 7 is out of bounds for dimension 0 with size 3"),
        std::string::npos)
        << error.what();
  }
  EXPECT_EQ((x + 1).to_vector<float>(), (std::vector<float>{2, 3, 4}));
}

TEST_F(CudaDevice, WhatItLacksRunsOnTheHost) {
  Tensor x = On(device_, {3, 1, 2}, {3});
  Tensor sorted = std::get<0>(sort(x * 2, 0)) + 1;
  EXPECT_EQ(sorted.to_vector<float>(), (std::vector<float>{3, 5, 7}));
}

TEST_F(CudaDevice, LimitsMemory) {
  Tensor x = On(device_, std::vector<float>(1024, 1), {1024});
  x.to_vector<float>();
  lazy::MemoryInfo before = GetMemoryInfo(device_);
  SetMemoryLimit(device_, before.in_use + 1024);
  EXPECT_THROW((x + 1).to_vector<float>(), OutOfMemory);
  SetMemoryLimit(device_, 0);
  EXPECT_GE(before.reserved, before.in_use);
}

TEST_F(CudaDevice, TrainsAStep) {
  manual_seed(1);
  Tensor w = On(device_, {0.5f, -0.5f}, {2, 1});
  w.requires_grad_(true);
  Tensor x = On(device_, {1, 2, 3, 4}, {2, 2});
  Tensor loss = (matmul(x, w) - 1).pow(2).mean();
  loss.backward();
  // d/dw of ((-1.5)^2 + (-1.5)^2) / 2
  EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{-6, -9}));
}

}  // namespace
}  // namespace hammock
