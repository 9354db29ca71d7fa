#include "backends/cpu/saved_artifact.h"

#include <gtest/gtest.h>

#include "backends/cpu/code/llvm_compiler.h"
#include "hammock/config.h"
#include "hammock/host_tensor.h"
#include "hammock/lazy/backend_interface.h"
#include "hammock/lazy/saved_computation.h"
#include "hammock/metrics.h"

namespace hammock::cpu {
namespace {

using lazy::ComputationPtr;

class SavedArtifactTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!LlvmCompiler::WhyAbsent().empty()) GTEST_SKIP() << LlvmCompiler::WhyAbsent();
  }

  ComputationPtr Compile(const Graph& graph) const {
    auto computation = std::make_shared<lazy::Computation>("saved", graph, device_);
    return backend_->Compile({computation}).at(0);
  }
  std::vector<HostTensor> Run(const ComputationPtr& computation) const {
    std::vector<BackendDataPtr> arguments;
    for (const Shape& shape : computation->parameter_shapes()) {
      std::vector<float> values;
      for (int64_t i = 0; i < shape.numel(); ++i) values.push_back(0.25f * float(i % 31) - 3);
      HostTensor tensor = HostTensor::From(values, shape.sizes());
      arguments.push_back(backend_->MakeComputationDataFromTensor(tensor, shape, device_));
    }
    std::vector<HostTensor> results;
    for (const BackendDataPtr& data :
         backend_->ExecuteComputation(computation, arguments, device_, {})) {
      results.push_back(backend_->MakeTensorFromComputationData(data, std::nullopt));
    }
    return results;
  }
  static void ExpectSame(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(a[i].shape(), b[i].shape());
      EXPECT_EQ(std::memcmp(a[i].data(), b[i].data(), static_cast<size_t>(a[i].bytes())), 0) << i;
    }
  }

  lazy::BackendImplInterface* const backend_ = lazy::getBackend("cpu");
  const lazy::BackendDevice device_ = backend_->GetBackendDevice(0);
};

constexpr char kLoop[] = R"(
  %0 = input : f32[6,8]
  %1 = input : f32[8,8]
  %2 = dot_general %0, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[6,8]
  %3 = exp %2 : f32[6,8]
  %4 = reduce_sum %3 {dims=[1], keepdim=false} : f32[6]
  %5:2 = loop %4, %0 {body=graph {
    %0 = input : i64[]
    %1 = input : f32[6]
    %2 = input : f32[8]
    %3 = sin %1 : f32[6]
    return %3, %2
  }, count=6, num_carried=1, num_stacked_in=1} : f32[6], f32[6,8]
  return %3, %5.0, %5.1, %0)";

TEST_F(SavedArtifactTest, RunsAsItWasCompiledWithoutACompiler) {
  std::string bytes;
  std::vector<HostTensor> expected;
  {
    ComputationPtr compiled = Compile(ParseGraph(kLoop));
    bytes = backend_->SerializeComputation(compiled);
    expected = Run(compiled);
  }
  config::Override hidden("cpu.llvm_plugin", "/there/is/no/llvm.so");
  auto compiled_code = [] { return metrics::CounterValue("cpu::CodeCompiled").value_or(0); };
  auto interpreted = [] { return metrics::CounterValue("cpu::KernelRunsInterpreted").value_or(0); };
  auto scheduled = [] { return metrics::CounterValue("cpu::SchedulesMade").value_or(0); };
  const int64_t before = compiled_code(), slow = interpreted(), schedules = scheduled();
  ComputationPtr loaded = backend_->DeserializeComputation(bytes, device_);
  ExpectSame(Run(loaded), expected);
  EXPECT_EQ(compiled_code(), before);
  EXPECT_EQ(interpreted(), slow) << "the code of the loop's body is saved too";
  EXPECT_EQ(scheduled(), schedules) << "so is its schedule";
  EXPECT_EQ(backend_->SerializeComputation(loaded), bytes) << "what was loaded can be saved again";
}

TEST_F(SavedArtifactTest, GeneralComputationsServeOtherSizes) {
  Graph graph = ParseGraph(R"(graph(n=100)
    %0 = input : f32[n,16]
    %1 = exp %0 : f32[n,16]
    %2 = reduce_sum %1 {dims=[1], keepdim=false} : f32[n]
    return %1, %2)");
  ComputationPtr compiled = Compile(graph);
  ComputationPtr loaded =
      backend_->DeserializeComputation(backend_->SerializeComputation(compiled), device_);
  auto scheduled = [] { return metrics::CounterValue("cpu::SizesScheduled").value_or(0); };
  const int64_t before = scheduled();
  for (int64_t n : {100, 101, 77, 300}) {
    ExpectSame(Run(backend_->Instantiate(loaded, std::vector<int64_t>{n})),
               Run(backend_->Instantiate(compiled, std::vector<int64_t>{n})));
  }
  EXPECT_EQ(scheduled(), before);
}

TEST_F(SavedArtifactTest, TheNumberOfThreadsMayChange) {
  ComputationPtr compiled = Compile(ParseGraph(kLoop));
  std::string bytes = backend_->SerializeComputation(compiled);
  std::vector<HostTensor> expected = Run(compiled);
  for (const char* threads : {"1", "2", "3"}) {
    config::Override other("cpu.threads", threads);
    ExpectSame(Run(backend_->DeserializeComputation(bytes, device_)), expected);
  }
}

TEST_F(SavedArtifactTest, DamageIsFound) {
  std::string bytes = backend_->SerializeComputation(Compile(ParseGraph(kLoop)));
  for (size_t i = 0; i < bytes.size(); i += 97) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x55);
    EXPECT_EQ(backend_->CheckCompatibility(damaged, device_), lazy::Compatibility::kUnsupported);
    EXPECT_THROW(backend_->DeserializeComputation(damaged, device_), ValueError);
  }
}

TEST_F(SavedArtifactTest, CodeThatIsAbsentIsNotSaved) {
  config::Override hidden("cpu.llvm_plugin", "/there/is/no/llvm.so");
  ComputationPtr compiled =
      Compile(ParseGraph("%0 = input : f32[3]\n"
                         "%1 = sin %0 : f32[3]\n"
                         "%2 = cos %1 : f32[3]\n"
                         "%3 = atan %2 : f32[3]\n"
                         "return %3"));
  EXPECT_THROW(backend_->SerializeComputation(compiled), NotSupported);
}

}  // namespace
}  // namespace hammock::cpu
