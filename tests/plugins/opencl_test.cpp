// The OpenCL plug-in on the first device.

#include <gtest/gtest.h>

#include "hammock/hammock.h"
#include "hammock/lazy/backend_interface.h"
#include "hammock/plugins.h"
#include "support/tensor_matchers.h"

namespace hammock {
namespace {

using namespace hammock::testing;

const Device& OpenCl() {
  static const auto* const device = new Device(plugins::Load(HAMMOCK_OPENCL_PLUGIN).name);
  return *device;
}

double NumberOf(const std::string& name) {
  return lazy::getBackend("opencl")->GetMetrics().at(name);
}

Tensor Upload(const std::vector<float>& values) { return tensor(values, std::nullopt, OpenCl()); }

TEST(OpenCl, ManyBuffersOfOneKernelGoThroughOne) {
  // 90 sums that share an operand are one kernel, with more pointers than drivers let it have.
  constexpr int kSums = 90;
  std::string text = "%0 = input : f32[3]\n", results;
  for (int i = 1; i <= kSums; ++i) text += "%" + std::to_string(i) + " = input : f32[3]\n";
  for (int i = 1; i <= kSums; ++i) {
    const std::string sum = "%" + std::to_string(kSums + i);
    text += sum + " = add %0, %" + std::to_string(i) + " : f32[3]\n";
    results += (i == 1 ? "return " : ", ") + sum;
  }
  lazy::BackendImplInterface& backend = OpenCl().backend();
  const lazy::BackendDevice& where = OpenCl().backend_device();
  auto computation = std::make_shared<lazy::Computation>("many", ParseGraph(text + results), where);
  backend.Compile({computation});
  const std::string kernels = backend.GetComputationBackendText(computation);
  EXPECT_NE(kernels.find("m0 + all_numbers[own_first + 130]"), std::string::npos) << kernels;

  std::vector<BackendDataPtr> arguments;
  for (int i = 0; i <= kSums; ++i) {
    const auto first = static_cast<float>(i);
    HostTensor host = HostTensor::From(std::vector<float>{first, 1, 2}, {3});
    arguments.push_back(backend.MakeComputationDataFromTensor(host, host.shape(), where));
  }
  auto sums = backend.ExecuteComputation(computation, arguments, where, {});
  ASSERT_EQ(sums.size(), static_cast<size_t>(kSums));
  for (int i = 1; i <= kSums; ++i) {
    sums[i - 1]->WaitReady();
    const HostTensor got = backend.MakeTensorFromComputationData(sums[i - 1], std::nullopt);
    EXPECT_EQ(got.at(0).ToDouble(), i);
    EXPECT_EQ(got.at(2).ToDouble(), 4);
  }
}

TEST(OpenCl, CompilesAKernelOnceForAllSizesAndNumbers) {
  auto run = [](int64_t size, float number) {
    return (ones({size}, f32, OpenCl()) * number + 1.0f).to_vector<float>().at(0);
  };
  EXPECT_EQ(run(10, 2), 3);
  const double before = NumberOf("libraries_compiled");
  EXPECT_EQ(run(20, 5), 6);
  EXPECT_EQ(run(30, 7), 8);
  EXPECT_EQ(NumberOf("libraries_compiled"), before);
}

TEST(OpenCl, AnErrorOfARunThatHasReturnedBelongsToItsValues) {
  Tensor x = Upload({1, 2, 3, 4});
  Tensor bad = gather(x, 0, tensor(std::vector<int64_t>{7}, std::nullopt, OpenCl()));
  mark_step();
  Tensor after = bad + 1.0f, good = x + 1.0f;
  mark_step();
  for (int i = 0; i < 2; ++i) {
    try {
      after.host();
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_NE(
          std::string(error.what()).find("index 7 is out of bounds for dimension 0 with size 4"),
          std::string::npos)
          << error.what();
    }
  }
  EXPECT_TENSOR_EQ(good, {2, 3, 4, 5}, {4});
}

TEST(OpenCl, SavedComputationsBringTheirKernels) {
  lazy::BackendImplInterface& backend = OpenCl().backend();
  const lazy::BackendDevice& where = OpenCl().backend_device();
  Graph graph =
      ParseGraph("%0 = input : f32[3]\n%1 = cosh %0 : f32[3]\n%2 = mul %1, %0 : f32[3]\nreturn %2");
  auto computation = std::make_shared<lazy::Computation>("saved", std::move(graph), where);
  const std::string bytes = backend.SerializeComputation(backend.Compile({computation}).at(0));
  EXPECT_GT(bytes.size(), 1000u);  // the driver's binary
  const double before = NumberOf("libraries_compiled");
  lazy::ComputationPtr loaded = backend.DeserializeComputation(bytes, where);
  EXPECT_EQ(NumberOf("libraries_compiled"), before);
  HostTensor host = HostTensor::From(std::vector<float>{0, 1, -1}, {3});
  auto argument = backend.MakeComputationDataFromTensor(host, host.shape(), where);
  auto results = backend.ExecuteComputation(loaded, std::span(&argument, 1), where, {});
  results.at(0)->WaitReady();
  HostTensor got = backend.MakeTensorFromComputationData(results[0], std::nullopt);
  EXPECT_NEAR(got.at(1).ToDouble(), 1.5430806, 1e-6);
  EXPECT_EQ(got.at(1).ToDouble(), -got.at(2).ToDouble());
}

TEST(OpenCl, UpdatesDonatedMemoryInPlace) {
  Tensor x = zeros({1 << 16}, f32, OpenCl());
  x += 1.0f;
  mark_step(true);
  wait_device_ops({OpenCl()});
  const int64_t before = GetMemoryInfo(OpenCl()).in_use;
  for (int i = 0; i < 20; ++i) {
    x += 1.0f;
    mark_step();
  }
  wait_device_ops({OpenCl()});
  EXPECT_LE(GetMemoryInfo(OpenCl()).in_use, before + 4096);
  EXPECT_EQ(x.to_vector<float>()[77], 21);
}

TEST(OpenCl, TrainsAsTheReferenceDoes) {
  auto train = [](const Device& device) {
    manual_seed(3);
    Tensor w = from_host(randn({16, 4}, f32, "reference").host(), device).requires_grad_();
    Tensor x = from_host(randn({32, 16}, f32, "reference").host(), device);
    std::vector<double> losses;
    for (int i = 0; i < 5; ++i) {
      Tensor difference = matmul(x, w) - 1.0f;
      Tensor loss = mean(difference * difference);
      loss.backward();
      w = (w - w.grad() * 0.1f).detach().requires_grad_();
      losses.push_back(loss.item().ToDouble());
    }
    return losses;
  };
  const auto got = train(OpenCl()), wanted = train("reference");
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-5 * wanted[i]);
  EXPECT_LT(got.back(), got.front());
}

}  // namespace
}  // namespace hammock
