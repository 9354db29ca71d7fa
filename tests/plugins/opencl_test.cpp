// The OpenCL plug-in on the first device.

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <iostream>
#include <random>

#include "distributed/ranks.h"
#include "hammock/hammock.h"
#include "hammock/lazy/backend_interface.h"
#include "hammock/plugins.h"
#include "ir/expect_error.h"
#include "plugins/profile_kernels.h"
#include "runtime/runtime.h"
#include "runtime/step/exit_run.h"
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

/// In a queue of their own, so that runs before and behind it are in order.
TEST(OpenCl, KernelsAreInProfiles) {
  Tensor x = Upload(std::vector<float>(64, 2.0f)).reshape({8, 8});
  Tensor y = x * 3.0f;
  mark_step();
  const auto kernels = KernelsIn([&] {
    y = sum(matmul(y, x), {1}) + 1.0f;
    mark_step();
  });
  EXPECT_GE(kernels.size(), 2u);
  EXPECT_EQ((y * 2.0f).to_vector<float>(), std::vector<float>(8, 2 * (8 * 8 * 12.0f + 1)));
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

/// What a process of KernelsAreKeptInFiles does.
TEST(OpenClChild, DISABLED_SaysWhatItCompiles) {
  EXPECT_EQ((Upload({1, 2}) * 3.0f).to_vector<float>()[1], 6);
  std::cout << "compiled " << NumberOf("libraries_compiled") << std::endl;
}

/// What a process of KernelsAreKeptWhileAProcessRuns does.
TEST(OpenClChild, DISABLED_SaysWhatIsKept) {
  const Tensor x = Upload({1, 2});
  for (Tensor (*op)(const Tensor&) :
       {+[](const Tensor& a) { return sin(a); }, +[](const Tensor& a) { return cos(a); },
        +[](const Tensor& a) { return tan(a); }, +[](const Tensor& a) { return exp(a); },
        +[](const Tensor& a) { return log(a); }, +[](const Tensor& a) { return abs(a); },
        +[](const Tensor& a) { return sqrt(a); }, +[](const Tensor& a) { return floor(a); }}) {
    op(x).host();
  }
  using Files = std::filesystem::recursive_directory_iterator;
  const Files files(std::getenv("HAMMOCK_OPENCL_KERNEL_CACHE"));
  const auto kept = std::count_if(begin(files), end(files),
                                  [](const auto& file) { return file.is_regular_file(); });
  std::cout << "kept " << kept << std::endl;
}

std::string OutputOfChild(const char* test, const std::string& kernel_cache) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  return RunChild({"/usr/bin/env", "HAMMOCK_OPENCL_KERNEL_CACHE=" + kernel_cache, self,
                   std::string("--gtest_filter=OpenClChild.DISABLED_") + test,
                   "--gtest_also_run_disabled_tests"},
                  300)
      .output;
}

TEST(OpenCl, KernelsAreKeptInFiles) {
  TemporaryFolder folder;
  EXPECT_NE(OutputOfChild("SaysWhatItCompiles", folder.path()).find("compiled 1\n"),
            std::string::npos);
  EXPECT_NE(OutputOfChild("SaysWhatItCompiles", folder.path()).find("compiled 0\n"),
            std::string::npos);
}

/// Not at its end alone, which waits for a second of it.
TEST(OpenCl, KernelsAreKeptWhileAProcessRuns) {
  TemporaryFolder folder;
  EXPECT_NE(OutputOfChild("SaysWhatIsKept", folder.path()).find("kept 8\n"), std::string::npos);
}

TEST(OpenCl, ProcessesEndAtAnyMoment) {
  const int exits = ExitRounds(16);
  std::mt19937 random(static_cast<unsigned>(exits));
  for (int i = 0; i < exits && !::testing::Test::HasFailure(); ++i) {
    CheckExit(HAMMOCK_EXIT_CHILD, i % 4 == 3 ? "new:opencl" : "on:opencl",
              kWaysToExit[i % std::size(kWaysToExit)],
              static_cast<int>(random() % 1000 * (random() % 1000)),
              {"HAMMOCK_PLUGINS=" HAMMOCK_OPENCL_PLUGIN});
  }
}

TEST(OpenCl, AnErrorOfARunThatHasReturnedBelongsToItsValues) {
  Tensor x = Upload({1, 2, 3, 4});
  Tensor bad = gather(x, 0, tensor(std::vector<int64_t>{7}, std::nullopt, OpenCl()));
  mark_step();
  Tensor after = bad + 1.0f, good = x + 1.0f;
  // The error is raised once by itself, where it is first known to have happened.
  auto go_on = [] {
    mark_step();
    wait_device_ops({OpenCl()});
  };
  EXPECT_CODE(go_on(), ErrorCode::kIndexOutOfRange, "gather");
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

/// Runs `program` on both devices, without a fallback, and compares its results.
void ExpectAsReference(const std::function<std::vector<Tensor>(const Device&)>& program,
                       double tolerance) {
  config::Override no_fallback("fallback", "false");
  const std::vector<Tensor> got = program(OpenCl()), wanted = program("reference");
  for (size_t i = 0; i < wanted.size(); ++i) {
    const HostTensor a = got.at(i).host(), b = wanted[i].host();
    ASSERT_EQ(a.shape(), b.shape()) << i;
    for (int64_t k = 0; k < a.numel(); ++k) {
      const double x = a.at(k).ToDouble(), y = b.at(k).ToDouble();
      if (std::isnan(x) && std::isnan(y)) continue;
      if (x == y) continue;  // infinities
      ASSERT_LE(std::abs(x - y), tolerance * (1 + std::abs(y))) << "result " << i << " at " << k;
    }
  }
}

/// Numbers of some size, the same on each device.
Tensor Numbers(const Dims& sizes, DType dtype, const Device& device) {
  HostTensor host(Shape(dtype, sizes));
  for (int64_t i = 0; i < host.numel(); ++i) {
    host.set(i, Scalar(static_cast<double>((i * 37 + 11) % 23) / 7 - 1.5).To(dtype));
  }
  return from_host(host, device);
}

TEST(OpenCl, HasSpecialFunctions) {
  for (DType dtype : {f32, f64}) {
    ExpectAsReference(
        [dtype](const Device& device) {
          Tensor x = Numbers({23}, dtype, device), p = abs(x) + 0.25f, q = abs(flip(x, {0})) + 0.5f;
          return std::vector<Tensor>{
              erfinv(x / 2.0f), digamma(x),   lgamma(x),     erfcx(x),          i0e(x),
              i1e(x),           igamma(p, q), igammac(p, q), zeta(p + 1.0f, q), nextafter(x, q)};
        },
        dtype == f32 ? 1e-6 : 1e-13);
  }
}

TEST(OpenCl, StepsToTheNextNumberOfEachDType) {
  for (DType dtype : {f16, bf16}) {
    ExpectAsReference(
        [dtype](const Device& device) {
          Tensor x = Numbers({23}, dtype, device);
          return std::vector<Tensor>{nextafter(x, flip(x, {0})), nextafter(zeros_like(x), x)};
        },
        0);
  }
}

TEST(OpenCl, TransformsLinesOfAnyLength) {
  for (int64_t n : {1, 2, 6, 7, 16, 30, 97}) {
    ExpectAsReference(
        [n](const Device& device) {
          Tensor x = Numbers({3, n, 2}, f32, device), z = fft_rfft(x, std::nullopt, 1);
          Tensor whole = fft_fft2(x, std::nullopt, {0, 1}, "ortho");
          return std::vector<Tensor>{
              real(z),     imag(z),     fft_irfft(z, n, 1),
              real(whole), imag(whole), real(fft_ifft(whole, std::nullopt, 1))};
        },
        1e-5);
  }
}

TEST(OpenCl, FactorsMatrices) {
  for (const Dims& sizes : {Dims{2, 4, 4}, Dims{5, 3}, Dims{3, 5}}) {
    ExpectAsReference(
        [&](const Device& device) {
          Tensor a = Numbers(sizes, f64, device);
          auto [q, r] = linalg_qr(a);
          auto [u, s, vh] = linalg_svd(a, false);
          auto [full_u, full_s, full_vh] = linalg_svd(a, true);
          Tensor square = matmul(a, transpose(a, -1, -2));
          Tensor more = square + eye(square.size(-1), f64, device);
          auto [values, vectors] = linalg_eigh(square);
          Tensor columns = Numbers(a.sizes(), f64, device);
          return std::vector<Tensor>{
              q,
              r,
              s,
              matmul(u * unsqueeze(s, -2), vh),
              matmul(transpose(full_u, -1, -2), full_u),
              matmul(full_vh, transpose(full_vh, -1, -2)),
              linalg_cholesky(more),
              values,
              matmul(vectors * unsqueeze(values, -2), transpose(vectors, -1, -2)),
              linalg_solve(more, columns),
              linalg_det(more)};
        },
        1e-10);
  }
}

TEST(OpenCl, SingularValuesMayBeOfAnyMagnitude) {
  Tensor a = Numbers({5, 3}, f64, OpenCl());
  const std::vector<double> wanted = std::get<1>(linalg_svd(a, false)).to_vector<double>();
  for (double scale : {1e-200, 1e200}) {
    Tensor values = std::get<1>(linalg_svd(a * scale, false)) / scale;
    const std::vector<double> got = values.to_vector<double>();
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-10) << scale;
  }
}

TEST(OpenCl, NamesTheMatrixThatHasNoFactors) {
  HostTensor host = HostTensor::From(std::vector<float>{1, 0, 0, 1, 1, 2, 2, 1}, {2, 2, 2});
  EXPECT_CODE(linalg_cholesky(from_host(host, OpenCl())).host(), ErrorCode::kValue,
              "(batch element 1) the factorization could not be completed because the input is not "
              "positive-definite (the leading minor of order 2");
  HostTensor singular = HostTensor::From(std::vector<float>{1, 2, 2, 4}, {2, 2});
  EXPECT_CODE(linalg_inv(from_host(singular, OpenCl())).host(), ErrorCode::kValue,
              "the input matrix is singular (the diagonal element 2 of its factor U is zero)");
}

void RunOnRanks(const char* scenario) {
  if (std::string why = WhyNoEngine(); !why.empty()) GTEST_SKIP() << why;
  const std::vector<std::string> command = {"/usr/bin/env",
                                            std::string("HAMMOCK_PLUGINS=") + HAMMOCK_OPENCL_PLUGIN,
                                            "HAMMOCK_DEVICE=opencl",
                                            "HAMMOCK_FALLBACK=false",
                                            HAMMOCK_DISTRIBUTED_CHILD,
                                            scenario};
  for (const ChildResult& result : RunRanks(2, command, 60000)) EXPECT_TRUE(Succeeded(result));
}

TEST(OpenCl, RanksExchangeData) { RunOnRanks("collectives"); }

/// A wrong index is known when the kernels have run: other ranks must not get their results.
TEST(OpenCl, OtherRanksHearOfAWrongIndex) { RunOnRanks("throws"); }

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
