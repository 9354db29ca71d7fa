// The device as a whole, on the emulated machine, or on a GPU where there is one.
#include "backends/cuda/cuda_backend.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "backends/cuda/driver/gpu_machine.h"
#include "backends/cuda/emulated.h"
#include "base/log.h"
#include "hammock/config.h"
#include "hammock/hammock.h"
#include "hammock/metrics.h"

namespace hammock {
namespace {

/// Two devices of one kind, "gpu"; other tests may use "cuda".
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
  void SetUp() override {
    if (!cuda::WhyNoGpu().empty() && !cuda::WhyNotEmulated().empty()) {
      GTEST_SKIP() << cuda::WhyNotEmulated();
    }
  }
  Device device_{"gpu:0"};
};

Tensor On(const Device& device, std::vector<float> values, Dims sizes) {
  return tensor(values, sizes, f32, device);
}

TEST_F(CudaDevice, RunsAStepOfKernelsAndMatmuls) {
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

/// What a GPU updates in place is gone before the host knows that another op has failed, so it
/// does not.
TEST_F(CudaDevice, AStepThatFailsLosesNothing) {
  Tensor table = On(device_, {1, 2, 3}, {3}), w = On(device_, {10, 20}, {2});
  for (Tensor* x : {&table, &w}) *x = *x + 1;
  mark_step();
  wait_device_ops({device_});
  Tensor wrong = index_select(table, 0, tensor(std::vector<int64_t>{0, 7}, {2}, i64, device_));
  table.mul_(2);
  w.sub_(5);
  EXPECT_THROW(
      {
        mark_step();
        wait_device_ops({device_});
      },
      Error);
  EXPECT_EQ(w.to_vector<float>(), (std::vector<float>{6, 16}));
  EXPECT_EQ(table.to_vector<float>(), (std::vector<float>{4, 6, 8}));
  EXPECT_THROW(wrong.to_vector<float>(), Error);
}

TEST_F(CudaDevice, AFailedUpdateAndTheStepsBehindItAreUndone) {
  Tensor w = On(device_, {1, 2, 3}, {3}), m = On(device_, {0, 0, 0}, {3});
  for (Tensor* x : {&w, &m}) *x = *x + 0;
  mark_step();
  wait_device_ops({device_});
  Tensor behind;
  std::string text;
  try {
    for (int64_t index : {0, 7, 0, 0}) {
      step([&] {
        w.add_(index_select(w, 0, tensor(std::vector<int64_t>{index}, {1}, i64, device_)));
      });
      step([&] { m.add_(w); });  // has nothing that can fail
      behind = m * 2;
    }
    wait_device_ops({device_});
  } catch (const Error& error) {
    text = error.what();
  }
  EXPECT_NE(text.find("undone"), std::string::npos) << text;
  EXPECT_EQ(w.to_vector<float>(), (std::vector<float>{2, 3, 4}));
  EXPECT_EQ(m.to_vector<float>(), (std::vector<float>{2, 3, 4}));
  step([&] { m.add_(w); });
  EXPECT_EQ(m.to_vector<float>(), (std::vector<float>{4, 6, 8}));
}

TEST_F(CudaDevice, WhatItLacksRunsOnTheHost) {
  Tensor x = On(device_, {2, 0, 0, 8}, {2, 2});
  Tensor root = linalg_cholesky(x * 2) + 1;
  EXPECT_EQ(root.to_vector<float>(), (std::vector<float>{3, 1, 1, 5}));
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

TEST_F(CudaDevice, TimesItsSteps) {
  config::Override timed("cuda.time_kernels", "true");
  metrics::Metric& cosines = metrics::GetMetric("cuda::kernel::0_cos", metrics::Kind::kTime);
  int64_t before = cosines.Data().samples;
  cos(On(device_, {1, 2, 3}, {3})).to_vector<float>();
  ASSERT_EQ(cosines.Data().samples, before + 1);
  EXPECT_GT(cosines.Data().total, 0);
}

TEST_F(CudaDevice, TracesItsKernels) {
  std::string path = testing::TempDir() + "hammock-cuda-trace-" + std::to_string(getpid());
  {
    config::Override trace("profile_file", path);
    Tensor x = On(device_, {1, 2, 3, 4}, {2, 2});
    EXPECT_EQ((cumsum(x, 0) * 3).to_vector<float>(), (std::vector<float>{3, 6, 12, 18}));
  }
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  auto events = nlohmann::json::parse(text.str());
  std::vector<std::string> kernels;
  for (const auto& event : events) {
    if (event.value("cat", "") == "kernel") kernels.push_back(event["name"]);
  }
  EXPECT_EQ(kernels, (std::vector<std::string>{"scan", "mul"}));
  std::filesystem::remove(path);
}

TEST_F(CudaDevice, ShowsTheTextThatWasAskedFor) {
  Tensor x = On(device_, {1, 2}, {2}) + 1;
  auto text = [&] { return LazyGraphExecutor::Get()->DumpTensors(std::span(&x, 1), "backend"); };
  EXPECT_NE(text().find("__global__"), std::string::npos);
  config::Override schedule("cuda.text", "schedule");
  EXPECT_EQ(text().find("__global__"), std::string::npos);
  EXPECT_NE(text().find("arena"), std::string::npos);
  EXPECT_THROW(config::Set("cuda.text", "sass"), ValueError);
  const std::string of_schedule = text();
  config::Override warnings("log_level", "warn");
  LogCapture log;
  config::Override old("cuda.text", "steps");
  EXPECT_EQ(text(), of_schedule);
  EXPECT_NE(log.text().find("'steps' of option 'cuda.text' is now 'schedule'"), std::string::npos);
}

TEST_F(CudaDevice, SaysWhatItHas) {
  std::vector<std::string> names;
  for (const auto& fact : device_.backend().DescribeDevice(device_.backend_device())) {
    names.push_back(fact.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"gpu", "device memory", "shared", "driver", "nvrtc",
                                             "cublaslt", "cudnn", "cufft", "nccl"}));
}

/// Large copies go through pinned memory, chunk by chunk, concurrently with the work.
TEST_F(CudaDevice, LargeCopiesArriveWhole) {
  std::vector<float> values(3'000'001);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 8191);
  for (int round = 0; round < 3; ++round) {
    Tensor x = On(device_, values, {static_cast<int64_t>(values.size())});
    Tensor y = (x * 2).to(Device("gpu:1"));
    std::vector<float> doubled = y.to_vector<float>();
    for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(doubled[i], values[i] * 2) << i;
    ASSERT_EQ(x.to_vector<float>(), values);
    values[round] = 17;
  }
}

TEST_F(CudaDevice, WaitsForTheDevice) {
  Tensor x = On(device_, {1, 2, 3}, {3}) + 4;
  mark_step();
  wait_device_ops({device_});
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{5, 6, 7}));
}

TEST(CudaCard, ReadsWaitForTheirOwnValueOnly) {
  if (!cuda::WhyNoGpu().empty()) GTEST_SKIP() << cuda::WhyNoGpu();
  Device device("cuda");
  Tensor early = On(device, {1, 2}, {2}) + 1;
  Tensor slow = full({8192, 8192}, 1e-3, f32, device);
  mark_step();
  for (int i = 0; i < 20; ++i) {
    slow = matmul(slow, slow) * 0.1;
    mark_step();
  }
  std::atomic<bool> done{false};
  std::thread other([&] {
    slow.sum().item<float>();
    done = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(early.to_vector<float>(), (std::vector<float>{2, 3}));
  EXPECT_FALSE(done) << "nothing was slow";
  other.join();
}

/// What FrailMachine plays, on a card. Nothing of this process can use the card afterwards.
TEST(CudaCard, CanBeLost) {
  if (!cuda::WhyNoGpu().empty()) GTEST_SKIP() << cuda::WhyNoGpu();
  if (!std::getenv("LOSE_THE_GPU")) GTEST_SKIP() << "LOSE_THE_GPU is not set";
  auto machine = cuda::MakeGpuMachine(0);
  lazy::RegisterBackend(cuda::MakeBackend({machine}, "doomed", 100).release());
  Device device("doomed:0");
  Tensor x = On(device, {1, 2, 3}, {3});
  Tensor fine = x * 3;
  EXPECT_EQ(fine.to_vector<float>(), (std::vector<float>{3, 6, 9}));
  auto sines = [&x] { return sin(x); };
  int line = __LINE__ - 1;
  sines().to_vector<float>();
  const int stream = machine->Stream();
  EXPECT_EQ(machine->Passed(stream), machine->Asked(stream));
  uint64_t before = machine->Passed(stream);
  cuda::KernelSource wild = {
      "wild", "extern \"C\" __global__ void wild(unsigned long long at) { *(int*)at = 1; }"};
  auto functions = machine->Load(std::span(&wild, 1));
  cuda::Grid grid;
  grid.x = grid.y = grid.block_x = grid.block_y = 1;
  uint64_t nowhere = 64;
  machine->Launch(*functions[0], grid, std::span(&nowhere, 1));
  Tensor bad = sines();
  mark_step();
  try {
    wait_device_ops({device});
    FAIL() << "no error";
  } catch (const DeviceError& error) {
    std::string text = error.what();
    EXPECT_NE(text.find("ILLEGAL_ADDRESS"), std::string::npos) << text;
    EXPECT_NE(text.find("sin at cuda_backend_test.cpp:" + std::to_string(line)), std::string::npos)
        << text;
  }
  EXPECT_EQ(machine->Passed(stream), before);
  wait_device_ops({device});
  EXPECT_THROW(fine.to_vector<float>(), DeviceError);
  Tensor on_host = tensor(std::vector<float>{1, 2}, {2}, f32, Device("reference")) * 2;
  EXPECT_EQ(on_host.to_vector<float>(), (std::vector<float>{2, 4}));
}

TEST(Cuda, SaysWhyThereIsNoDevice) {
  if (CudaBackend()) GTEST_SKIP() << "there is one";
  try {
    Device("cuda");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(cuda::WhyNoGpu()), std::string::npos) << error.what();
  }
}

/// A bias that is added to a matmul of 16-bit floats, large enough for the library.
TEST_F(CudaDevice, BiasesAreAddedToMatmuls) {
  auto run = [](const Device& device) {
    std::vector<float> x, w, b;
    for (int i = 0; i < 64 * 48; ++i) x.push_back(static_cast<float>(i % 17) / 8 - 1);
    for (int i = 0; i < 32 * 48; ++i) w.push_back(static_cast<float>(i % 13) / 8 - 0.75f);
    for (int i = 0; i < 32; ++i) b.push_back(static_cast<float>(i));
    Tensor y = linear(tensor(x, {64, 48}, bf16, device), tensor(w, {32, 48}, bf16, device),
                      tensor(b, {32}, bf16, device));
    return y.to(f32).to_vector<float>();
  };
  EXPECT_EQ(run(device_), run(Device("reference")));
}

TEST_F(CudaDevice, NewSizesAreNeitherLoweredNorScheduled) {
  auto run = [&](int64_t rows) {
    std::vector<float> values(static_cast<size_t>(rows * 4));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7 % 13) / 4;
    Tensor x = On(device_, values, {rows, 4});
    Tensor w = On(device_, {1, 0, 2, 1, 1, -1, 0.5, 3}, {4, 2});
    return (softmax(matmul(x, w) - x.mean(Dims{0}).sum(), 1) * 3.0).host();
  };
  auto lowerings = [] {
    return metrics::GetMetric("LowerTime", metrics::Kind::kTime).Data().samples;
  };
  auto scheduled = [] { return metrics::CounterValue("cuda::SizesScheduled").value_or(0); };
  LazyGraphExecutor::Get()->ClearComputationCache();
  for (int64_t rows : {6, 9}) run(rows);
  int64_t lowered = lowerings(), alone = scheduled();
  std::vector<HostTensor> general;
  for (int64_t rows : {7, 12, 17, 7}) general.push_back(run(rows));
  EXPECT_EQ(lowerings(), lowered);
  EXPECT_EQ(scheduled(), alone);
  LazyGraphExecutor::Get()->ClearComputationCache();
  config::Override off("generalise", "false");
  size_t next = 0;
  for (int64_t rows : {7, 12, 17, 7}) EXPECT_TRUE(run(rows).SameBits(general[next++])) << rows;
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

TEST_F(CudaDevice, GradientsOfConvolutionsAndEmbeddingsAgreeWithTheReference) {
  auto run = [](const Device& device) {
    auto values = [&](int64_t count, Dims sizes, int step) {
      std::vector<float> list;
      for (int64_t i = 0; i < count; ++i) list.push_back(static_cast<float>(i * step % 17) / 8 - 1);
      return tensor(list, sizes, f32, device).requires_grad_(true);
    };
    std::vector<int64_t> words;
    for (int64_t i = 0; i < 60; ++i) words.push_back(i * i % 7);
    std::vector<Tensor> leaves = {values(9 * 4, {9, 4}, 5), values(6 * 4 * 3, {6, 4, 3}, 7)};
    Tensor embedded = embedding(tensor(words, {3, 20}, i64, device), leaves[0]);
    Tensor y = conv1d(embedded.transpose(1, 2), leaves[1], std::nullopt, {1}, {1});
    (y * y).sum().backward();
    std::vector<float> all = y.to_vector<float>();
    for (Tensor& leaf : leaves) {
      for (float value : leaf.grad().to_vector<float>()) all.push_back(value);
    }
    return all;
  };
  std::vector<float> ours = run(device_), expected = run(Device("reference"));
  ASSERT_EQ(ours.size(), expected.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    ASSERT_NEAR(ours[i], expected[i], 1e-5 + 1e-5 * std::abs(expected[i])) << i;
  }
}

/// Whatever the sizes: kernels of our own do small ones, libraries the others.
TEST_F(CudaDevice, WideSumsAreThoseOfDoubles) {
  manual_seed(3);
  for (int64_t n : {3, 20}) {
    Tensor image = (randn({4, 8, n, n}) * 100).to(device_),
           weight = randn({6, 8, 3, 3}).to(device_);
    auto expect_sums_of_doubles = [&](auto compute) {
      config::Override wide("wide_sums", "true");
      EXPECT_EQ(compute(image, weight).template to_vector<float>(),
                compute(image.to(f64), weight.to(f64)).to(f32).template to_vector<float>());
    };
    expect_sums_of_doubles([](const Tensor& a, const Tensor& b) { return conv2d(a, b); });
    expect_sums_of_doubles([](const Tensor& a, const Tensor& b) {
      Tensor x = a.detach().requires_grad_(), w = b.detach().requires_grad_();
      conv2d(x, w).sum().backward();
      return cat({flatten(x.grad()), flatten(w.grad())});
    });
    expect_sums_of_doubles([&](const Tensor& a, const Tensor& b) {
      return relu(matmul(reshape(a, {-1, 8 * n}), reshape(b, {8, -1}).repeat({n, 1})));
    });
  }
}

TEST_F(CudaDevice, TransposesByTiles) {
  struct Case {
    DType dtype;
    Dims sizes, order;
  };
  for (const Case& c :
       {Case{f32, {70, 130}, {1, 0}}, Case{bf16, {3, 40, 70}, {0, 2, 1}},
        Case{f64, {20, 3, 2, 33}, {3, 1, 2, 0}}, Case{i8, {2, 64, 5, 64}, {2, 3, 0, 1}},
        Case{i32, {40, 1, 50}, {2, 1, 0}}}) {
    auto run = [&](const Device& device) {
      int64_t count = 1;
      for (int64_t size : c.sizes) count *= size;
      Tensor x = arange(count, i64, device).remainder(101).to(c.dtype).reshape(c.sizes);
      x.host();  // in memory, so that a copy is made of it
      return x.permute(c.order).contiguous().to(f64).to_vector<double>();
    };
    EXPECT_EQ(run(device_), run(Device("reference"))) << ToString(c.sizes);
  }
}

double RelativeError(const std::vector<float>& ours, const std::vector<float>& expected) {
  double error = 0, size = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    error += std::pow(ours[i] - expected[i], 2);
    size += std::pow(expected[i], 2);
  }
  return std::sqrt(error / size);
}

/// Interleaved heads of one projection are read in place, and gradients have the same layout.
TEST_F(CudaDevice, AttentionOfPartsOfOneTensorAgreesWithTheReference) {
  auto run = [&](const Device& device, bool selects) {
    constexpr int64_t kBatch = 2, kLength = 20, kHeads = 3, kWidth = 16;
    std::vector<float> values;
    for (int64_t k = 0; k < kBatch * kLength * 3 * kHeads * kWidth; ++k) {
      values.push_back(static_cast<float>((k * 37 + k / 64 * 5) % 64) / 32 - 1);
    }
    Tensor x = tensor(values, {kBatch, kLength, 3 * kHeads * kWidth}, bf16, device);
    x.requires_grad_(true);
    Tensor joint = (x * 2).view({kBatch, kLength, 3, kHeads, kWidth});
    std::vector<Tensor> qkv = joint.permute({2, 0, 3, 1, 4}).unbind(0);
    for (int64_t i = 0; selects && i < 3; ++i) {
      qkv[static_cast<size_t>(i)] = joint.select(2, i).transpose(1, 2);
    }
    Tensor out = scaled_dot_product_attention(qkv[0], qkv[1], qkv[2])
                     .permute({0, 2, 1, 3})
                     .reshape({kBatch, kLength, kHeads * kWidth});
    (out * out).sum().backward();
    if (selects && device == device_) {
      Tensor grad = x.grad();
      std::string text = LazyGraphExecutor::Get()->DumpTensors(std::span(&grad, 1), "backend");
      EXPECT_NE(text.find("call _attention_packed_backward"), std::string::npos) << text;
    }
    std::vector<float> all = out.to(f32).to_vector<float>();
    for (float value : x.grad().to(f32).to_vector<float>()) all.push_back(value);
    return all;
  };
  for (bool selects : {false, true}) {
    std::vector<float> ours = run(device_, selects), expected = run(Device("reference"), selects);
    ASSERT_EQ(ours.size(), expected.size());
    EXPECT_LT(RelativeError(ours, expected), 0.01);
  }
}

/// What takes part, or what is added, for each query and key or for some of the dims alone.
TEST_F(CudaDevice, MaskedAttentionAgreesWithTheReference) {
  struct Case {
    DType dtype;
    Dims sizes;
  };
  constexpr int64_t kQueries = 20, kKeys = 70, kWidth = 16;
  for (const Case& c : {Case{boolean, {kQueries, kKeys}}, Case{bf16, {2, 1, kQueries, kKeys}},
                        Case{f32, {3, 1, kKeys}}, Case{boolean, {2, 1, 1, kKeys}}}) {
    auto run = [&](const Device& device) {
      auto values = [&](const Dims& sizes, int seed, DType dtype) {
        std::vector<float> list;
        int64_t count = 1;
        for (int64_t size : sizes) count *= size;
        for (int64_t k = 0; k < count; ++k) {
          list.push_back(static_cast<float>((k * 37 + k / 64 * 5 + seed) % 64) / 32 - 1);
        }
        return tensor(list, sizes, dtype, device);
      };
      std::vector<Tensor> leaves;
      for (int i = 0; i < 3; ++i) {
        leaves.push_back(values({2, 3, i == 0 ? kQueries : kKeys, kWidth}, i * 11, bf16));
        leaves.back().requires_grad_(true);
      }
      Tensor mask = values(c.sizes, 7, f32);
      mask = c.dtype == boolean ? gt(mask, -0.5) : mask.to(c.dtype);
      Tensor out = scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], mask);
      (out * out).sum().backward();
      std::vector<float> all = out.to(f32).to_vector<float>();
      for (Tensor& leaf : leaves) {
        for (float value : leaf.grad().to(f32).to_vector<float>()) all.push_back(value);
      }
      return all;
    };
    std::vector<float> ours = run(device_), expected = run(Device("reference"));
    ASSERT_EQ(ours.size(), expected.size());
    EXPECT_LT(RelativeError(ours, expected), 0.01) << ToString(c.sizes);
  }
}

/// Attention of 16-bit floats is made of matmuls of them; kernels have widths that are multiples
/// of 16.
TEST_F(CudaDevice, AttentionAndItsGradientAgreeWithTheReference) {
  struct Sizes {
    bool is_causal;
    int64_t queries, keys, width;
    DType dtype = bf16;
  };
  for (auto [is_causal, queries, keys, width, dtype] :
       {Sizes{false, 5, 5, 8}, Sizes{true, 5, 5, 8}, Sizes{false, 70, 70, 64},
        Sizes{true, 140, 140, 16}, Sizes{false, 9, 130, 64, f16}, Sizes{true, 130, 40, 32, f16},
        Sizes{true, 40, 130, 16}, Sizes{false, 33, 40, 128}, Sizes{true, 40, 40, 128},
        Sizes{true, 200, 200, 64}, Sizes{false, 70, 210, 64}, Sizes{true, 200, 70, 64}}) {
    SCOPED_TRACE(fmt::format("{} queries, {} keys of {}", queries, keys, width));
    auto run = [&](const Device& device) {
      std::vector<Tensor> leaves;
      for (int i = 0; i < 3; ++i) {
        int64_t length = i == 0 ? queries : keys;
        std::vector<float> values;
        for (int64_t k = 0; k < 2 * length * width; ++k) {
          values.push_back(static_cast<float>((k * 37 + k / 64 * 5 + i * 11) % 64) / 32 - 1);
        }
        leaves.push_back(tensor(values, {1, 2, length, width}, dtype, device));
        leaves.back().requires_grad_(true);
      }
      Tensor out = scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], std::nullopt, 0.0,
                                                is_causal);
      (out * out).sum().backward();
      std::vector<float> all = out.to(f32).to_vector<float>();
      for (Tensor& leaf : leaves) {
        for (float value : leaf.grad().to(f32).to_vector<float>()) all.push_back(value);
      }
      return all;
    };
    std::vector<float> ours = run(device_), expected = run(Device("reference"));
    ASSERT_EQ(ours.size(), expected.size());
    for (size_t i = 0; i < ours.size(); ++i) {
      ASSERT_NEAR(ours[i], expected[i], 0.03 + 0.02 * std::abs(expected[i])) << i;
    }
  }
}

}  // namespace
}  // namespace hammock
