// What a backend may do wrong: exceptions of any kind from any method, null and wrong results,
// names, registration. Each is an error that names the device and the method, and loses nothing.

#include <gtest/gtest.h>

#include "hammock/config.h"
#include "hammock/inspect.h"
#include "hammock/profile.h"
#include "hammock/repro.h"
#include "ir/graph_sizes.h"
#include "runtime/cache/saved_step.h"
#include "runtime/runtime.h"
#include "support/host_backend.h"

namespace hammock {
namespace {

using namespace hammock::testing;
using lazy::BackendDevice;

/// Throws from the method that the test names, or gives a wrong result of it.
class Faulty : public HostBackend {
 public:
  using HostBackend::HostBackend;

  std::string throws;  ///< a method
  std::function<void()> exception = [] { throw std::runtime_error("broken"); };
  std::string wrong;                ///< a method whose result is null or of another shape
  std::function<void()> meanwhile;  ///< run inside of methods, as a backend may use tensors
  bool sizes_vary = false;          ///< what it says of computations for all sizes
  mutable std::vector<bool> in_mark_step;

  void SetRngSeed(size_t seed) const override {
    Enter("SetRngSeed");
    HostBackend::SetRngSeed(seed);
  }
  BackendDataPtr MakeComputationDataFromTensor(const HostTensor& tensor, const Shape& shape,
                                               const BackendDevice& device) const override {
    Enter("MakeComputationDataFromTensor");
    if (wrong == "MakeComputationDataFromTensor") return nullptr;
    return HostBackend::MakeComputationDataFromTensor(tensor, shape, device);
  }
  BackendDataPtr MakeComputationDataFromScalar(const Scalar& scalar,
                                               const BackendDevice& device) const override {
    Enter("MakeComputationDataFromScalar");
    if (wrong == "MakeComputationDataFromScalar") return nullptr;
    return HostBackend::MakeComputationDataFromScalar(scalar, device);
  }
  BackendDataPtr CreateDataPlaceholder(const BackendDevice& device,
                                       const Shape& shape) const override {
    Enter("CreateDataPlaceholder");
    if (wrong == "CreateDataPlaceholder") return nullptr;
    return HostBackend::CreateDataPlaceholder(device, shape);
  }
  HostTensor MakeTensorFromComputationData(const BackendDataPtr data,
                                           std::optional<DType> type) const override {
    Enter("MakeTensorFromComputationData");
    if (wrong == "MakeTensorFromComputationData") return HostTensor::From(Scalar(1.0f));
    return HostBackend::MakeTensorFromComputationData(data, type);
  }
  std::vector<BackendDataPtr> MakeComputationDataFromTensors(
      std::span<const HostTensor> tensors, const BackendDevice& device) const override {
    Enter("MakeComputationDataFromTensors");
    auto all = HostBackend::MakeComputationDataFromTensors(tensors, device);
    if (wrong == "MakeComputationDataFromTensors") all.pop_back();
    return all;
  }
  std::vector<HostTensor> MakeTensorsFromComputationData(
      std::span<const BackendDataPtr> data) const override {
    Enter("MakeTensorsFromComputationData");
    auto all = HostBackend::MakeTensorsFromComputationData(data);
    if (wrong == "MakeTensorsFromComputationData") all.pop_back();
    return all;
  }
  BackendDataPtr GetComputationDataFromNode(const Node* node) const override {
    Enter("GetComputationDataFromNode");
    return HostBackend::GetComputationDataFromNode(node);
  }
  BackendDataPtr CopyToDevice(const BackendDataPtr& data,
                              const BackendDevice& device) const override {
    Enter("CopyToDevice");
    return HostBackend::CopyToDevice(data, device);
  }
  bool SupportsDimParams(const BackendDevice&) const override {
    Enter("SupportsDimParams");
    return sizes_vary;
  }
  bool WantsOptimisedGraphs(const BackendDevice&) const override {
    Enter("WantsOptimisedGraphs");
    return false;
  }
  lazy::ComputationPtr Instantiate(const lazy::ComputationPtr& general,
                                   std::span<const int64_t> sizes) const override {
    Enter("Instantiate");
    auto instance = HostBackend::Instantiate(general, sizes);
    graphs_at_sizes_.push_back(
        std::make_shared<Graph>(AtSizes(general->graph(), instance->sizes())));
    instance->artifact = std::make_shared<reference::Program>(*graphs_at_sizes_.back());
    return instance;
  }
  std::string EagerFallbackDeviceType() const override {
    Enter("EagerFallbackDeviceType");
    return HostBackend::EagerFallbackDeviceType();
  }
  lazy::MemoryInfo GetMemoryInfo(const BackendDevice& device) const override {
    Enter("GetMemoryInfo");
    return HostBackend::GetMemoryInfo(device);
  }
  void SetMemoryLimit(const BackendDevice&, int64_t) const override { Enter("SetMemoryLimit"); }
  void FreeCachedMemory(const BackendDevice&) const override { Enter("FreeCachedMemory"); }
  void Hurry(const BackendDevice&) const override { Enter("Hurry"); }
  std::unique_ptr<lazy::LoweringContext> CreateLoweringContext(
      const std::string& name, BackendDevice device) const override {
    Enter("CreateLoweringContext");
    if (wrong == "CreateLoweringContext") return nullptr;
    return HostBackend::CreateLoweringContext(name, device);
  }
  std::vector<std::string> GetCompilationDevices(
      const std::string& device, std::span<const std::string> devices) const override {
    Enter("GetCompilationDevices");
    return HostBackend::GetCompilationDevices(device, devices);
  }
  std::vector<lazy::ComputationPtr> Compile(
      std::vector<lazy::ComputationPtr> instances) const override {
    Enter("Compile");
    for (const auto& instance : instances) in_mark_step.push_back(instance->in_mark_step);
    if (wrong == "Compile") return {nullptr};
    return HostBackend::Compile(instances);
  }
  std::vector<BackendDataPtr> ExecuteComputation(lazy::ComputationPtr computation,
                                                 std::span<const BackendDataPtr> arguments,
                                                 const BackendDevice& device,
                                                 const lazy::RunContext& run) const override {
    Enter("ExecuteComputation");
    auto results = HostBackend::ExecuteComputation(computation, arguments, device, run);
    if (wrong == "ExecuteComputation") results[0] = nullptr;
    return results;
  }
  lazy::Capability QueryCapability(const Graph& graph, NodeId node,
                                   const BackendDevice& device) const override {
    Enter("QueryCapability");
    return HostBackend::QueryCapability(graph, node, device);
  }
  void WaitForDevice(const BackendDevice&) const override { Enter("WaitForDevice"); }
  lazy::ComputationInfo DescribeComputation(
      const lazy::ComputationPtr& computation) const override {
    Enter("DescribeComputation");
    return HostBackend::DescribeComputation(computation);
  }
  std::string GetComputationBackendText(const lazy::ComputationPtr computation) const override {
    Enter("GetComputationBackendText");
    return HostBackend::GetComputationBackendText(computation);
  }
  std::string Fingerprint(const BackendDevice& device) const override {
    Enter("Fingerprint");
    return HostBackend::Fingerprint(device);
  }
  std::string SerializeComputation(const lazy::ComputationPtr& computation) const override {
    Enter("SerializeComputation");
    return HostBackend::SerializeComputation(computation);
  }
  lazy::Compatibility CheckCompatibility(std::string_view bytes,
                                         const BackendDevice& device) const override {
    Enter("CheckCompatibility");
    return HostBackend::CheckCompatibility(bytes, device);
  }
  lazy::ComputationPtr DeserializeComputation(std::string_view bytes,
                                              const BackendDevice& device) const override {
    Enter("DeserializeComputation");
    if (wrong == "DeserializeComputation") return nullptr;
    return HostBackend::DeserializeComputation(bytes, device);
  }
  std::shared_ptr<lazy::BackendDeviceType> GetDefaultDeviceType() const override {
    Enter("GetDefaultDeviceType");
    return HostBackend::GetDefaultDeviceType();
  }
  int64_t GetDefaultDeviceOrdinal() const override {
    Enter("GetDefaultDeviceOrdinal");
    return HostBackend::GetDefaultDeviceOrdinal();
  }
  std::vector<BackendDevice> GetBackendDevices() const override {
    Enter("GetBackendDevices");
    return HostBackend::GetBackendDevices();
  }

 private:
  void Enter(std::string_view method) const {
    if (meanwhile) meanwhile();
    if (method == throws) exception();
  }

  mutable std::vector<std::shared_ptr<Graph>> graphs_at_sizes_;  // which programs borrow
};

Faulty& NewFaulty(const std::string& name, int devices = 1) {
  static auto& all = *new std::vector<Faulty*>;  // reachable: nothing leaks
  all.push_back(new Faulty(name, devices));
  return *all.back();
}

class BackendFaults : public Runtime {
 protected:
  static std::string TextOf(const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    } catch (...) {
      return "an exception that is no Error";
    }
    return "no error";
  }
};

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(BackendFaults, ExceptionsOfAnyKindAreErrorsWithDeviceMethodAndLine) {
  Faulty& backend = NewFaulty("thrower", 2);
  Registered registered(backend);
  const std::vector<std::function<void()>> exceptions = {
      [] { throw std::runtime_error("broken"); }, [] { throw std::bad_alloc(); }, [] { throw 42; },
      [] { throw DeviceError(ErrorCode::kDevice, "broken"); }};
  float number = 1;
  auto value = [&] {
    number += 1;
    Tensor x = tensor(std::vector<float>{1, number}, {2}, f32, "thrower");
    return (x * number + x).to_vector<float>();
  };
  auto use = [&](const std::string& method) {
    if (method == "SetRngSeed") return manual_seed(1);
    if (method == "WaitForDevice") return wait_device_ops({Device("thrower")});
    if (method == "GetMemoryInfo") return void(GetMemoryInfo(Device("thrower")));
    if (method == "SetMemoryLimit") return SetMemoryLimit(Device("thrower"), 1 << 20);
    if (method == "FreeCachedMemory") return void(FreeMemory(Device("thrower")));
    std::vector<Tensor> two = {ones({2}, f32, "thrower") * number,
                               ones({3}, f32, "thrower") * number};
    if (method == "MakeTensorsFromComputationData") return void(Lazy().GetTensors(two));
    if (method == "GetComputationBackendText") return void(Lazy().DumpTensors(two, "backend"));
    if (method == "CopyToDevice") return void(two[0].to("thrower:1"));
    if (method == "GetComputationDataFromNode") {
      Tensor x = tensor(std::vector<float>{1, number}, {2}, f32, "thrower");
      (x + 1.0f).host();  // its data is on the device then
      return SaveRepro(::testing::TempDir() + "backend_faults", {x * 2.0f});
    }
    if (method == "EagerFallbackDeviceType") {
      backend.refuse = [](const GraphNode& node) {
        return node.op->info().name == "exp" ? "no exp" : "";
      };
      Lazy().ClearComputationCache();
      two[0].exp().host();
    }
    if (method == "QueryCapability" || method == "Compile" || method == "GetCompilationDevices" ||
        method == "CreateLoweringContext" || method == "SupportsDimParams" ||
        method == "WantsOptimisedGraphs") {
      Lazy().ClearComputationCache();
    }
    config::Override none("fallback", "false");
    value();
  };
  for (const char* method : {"SetRngSeed",
                             "MakeComputationDataFromTensor",
                             "MakeComputationDataFromScalar",
                             "CreateDataPlaceholder",
                             "MakeTensorFromComputationData",
                             "CreateLoweringContext",
                             "GetCompilationDevices",
                             "Compile",
                             "ExecuteComputation",
                             "QueryCapability",
                             "WaitForDevice",
                             "GetMemoryInfo",
                             "SetMemoryLimit",
                             "MakeComputationDataFromTensors",
                             "MakeTensorsFromComputationData",
                             "GetComputationBackendText",
                             "CopyToDevice",
                             "GetComputationDataFromNode",
                             "EagerFallbackDeviceType",
                             "FreeCachedMemory",
                             "SupportsDimParams",
                             "WantsOptimisedGraphs",
                             "GetDefaultDeviceOrdinal"}) {
    for (size_t i = 0; i < exceptions.size(); ++i) {
      backend.throws = method;
      backend.exception = exceptions[i];
      std::string text = TextOf([&] { use(method); });
      backend.throws = "";
      EXPECT_HAS(text, "backend_faults_test.cpp:") << method << i;
      if (i != 3) {
        EXPECT_HAS(text, "thrower:") << method << i;
        EXPECT_HAS(text, method) << i;
      }
      backend.refuse = nullptr;
      EXPECT_EQ(value().size(), 2u);
    }
  }
}

/// Where a backend cannot serve a size, the graph is compiled for it; an error of its device is
/// one.
TEST_F(BackendFaults, InstantiateMayThrow) {
  Faulty& backend = NewFaulty("sizer");
  backend.sizes_vary = true;
  Registered registered(backend);
  auto doubled = [](int64_t n) { return (ones({n}, f32, "sizer") * 2.0f).to_vector<float>(); };
  for (int64_t n : {2, 3, 5}) EXPECT_EQ(doubled(n), std::vector<float>(n, 2));
  const int compiled = backend.compiled;
  backend.throws = "Instantiate";
  backend.exception = [] { throw DeviceError(ErrorCode::kDevice, "the device is gone"); };
  std::string text = TextOf([&] { doubled(6); });
  EXPECT_HAS(text, "the device is gone");
  EXPECT_HAS(text, "backend_faults_test.cpp:");
  EXPECT_EQ(backend.compiled, compiled);
  backend.exception = [] { throw 42; };
  EXPECT_EQ(doubled(7), std::vector<float>(7, 2));
  EXPECT_EQ(backend.compiled, compiled + 1);
  backend.throws = "";
  EXPECT_EQ(doubled(6), std::vector<float>(6, 2));
  EXPECT_EQ(backend.compiled, compiled + 1);
}

TEST_F(BackendFaults, DescriptionsMayThrow) {
  Faulty& backend = NewFaulty("describer");
  Registered registered(backend);
  Graph graph = ParseGraph("%0 = input : f32[3]\n%1 = neg %0 : f32[3]\nreturn %1");
  backend.throws = "DescribeComputation";
  EXPECT_HAS(TextOf([&] { DescribeCompiled(graph, "describer"); }),
             "DescribeComputation on describer:0");
  // A profile lacks the kernels then; the step itself is computed.
  const std::string path = ::testing::TempDir() + "backend_faults.json";
  profile::Start(path);
  std::vector<float> values;
  std::string text =
      TextOf([&] { values = (ones({3}, f32, "describer") * 5.0f).to_vector<float>(); });
  profile::Stop();
  EXPECT_EQ(text, "no error");
  EXPECT_EQ(values, std::vector<float>(3, 5));
}

TEST_F(BackendFaults, NullAndWrongResultsAreErrorsAndLoseNothing) {
  Faulty& backend = NewFaulty("wrongdoer");
  Registered registered(backend);
  for (const char* method :
       {"MakeComputationDataFromTensor", "MakeComputationDataFromTensors",
        "MakeComputationDataFromScalar", "CreateDataPlaceholder", "MakeTensorFromComputationData",
        "CreateLoweringContext", "Compile", "ExecuteComputation"}) {
    Lazy().ClearComputationCache();
    static float number = 2;
    number += 1;
    Tensor x = tensor(std::vector<float>{1, 2, 3}, {3}, f32, "wrongdoer");
    Tensor y = x * number;
    backend.wrong = method;
    config::Override none("fallback", "false");
    std::string text = TextOf([&] { y.to_vector<float>(); });
    backend.wrong = "";
    EXPECT_HAS(text, "backend_faults_test.cpp:") << method;
    EXPECT_HAS(text, "wrongdoer") << method;
    EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 2, 3})) << method;
    Lazy().ClearErrors(y);
    EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{number, 2 * number, 3 * number})) << method;
  }
}

TEST_F(BackendFaults, TooFewDownloadsAreAnError) {
  Faulty& backend = NewFaulty("miser");
  Registered registered(backend);
  std::vector<Tensor> two = {ones({2}, f32, "miser") + 1.0f, ones({3}, f32, "miser") + 2.0f};
  sync_multi(two);
  backend.wrong = "MakeTensorsFromComputationData";
  std::string text = TextOf([&] { Lazy().GetTensors(two); });
  backend.wrong = "";
  EXPECT_HAS(text, "MakeTensorsFromComputationData of miser:0 returned 1 values, 2 were expected");
  EXPECT_HAS(text, "backend_faults_test.cpp:");
  EXPECT_EQ(two[1].to_vector<float>(), std::vector<float>(3, 3));
}

/// Without its files a step is compiled.
TEST_F(BackendFaults, SavingAndLoadingMayFail) {
  Faulty& backend = NewFaulty("forgetful");
  Registered registered(backend);
  config::Override cache("cache_dir", ::testing::TempDir() + "backend_faults_cache");
  auto value = [](int64_t n) {
    Lazy().ClearComputationCache();
    return (ones({n}, f32, "forgetful") * 2.0f).to_vector<float>();
  };
  int64_t n = 2;
  for (const char* method :
       {"Fingerprint", "SerializeComputation", "CheckCompatibility", "DeserializeComputation"}) {
    for (int kind = 0; kind < 3; ++kind) {
      backend.exception = [kind] { kind == 0 ? throw 42 : throw std::runtime_error("broken"); };
      backend.throws = kind < 2 ? method : "";
      backend.wrong = kind < 2 ? "" : method;
      for (int i = 0; i < 2; ++i) {  // the second one could load what the first one saved
        EXPECT_EQ(value(n), std::vector<float>(n, 2)) << method << kind;
        WaitForSavedSteps();
      }
      ++n;
    }
  }
  backend.throws = backend.wrong = "";
  const int64_t hits = CounterOf("DiskCacheHits");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(value(n), std::vector<float>(n, 2));
    WaitForSavedSteps();
  }
  EXPECT_GT(CounterOf("DiskCacheHits"), hits);
}

TEST_F(BackendFaults, MethodsMayUseTensors) {
  Faulty& backend = NewFaulty("reentrant");
  Registered registered(backend);
  bool inside = false;
  backend.meanwhile = [&] {
    if (std::exchange(inside, true)) return;
    EXPECT_EQ((ones({2}, f32, "reference") + 1.0f).to_vector<float>()[0], 2);
    inside = false;
  };
  Tensor x = tensor(std::vector<float>{1, 2}, {2}, f32, "reentrant");
  EXPECT_EQ((x * 3.5f + 0.25f).to_vector<float>(), (std::vector<float>{3.75, 7.25}));
  backend.meanwhile = nullptr;
}

TEST_F(BackendFaults, ReadOnlyDataIsNotDonated) {
  Faulty& backend = NewFaulty("keeper");
  Registered registered(backend);
  for (bool read_only : {false, true}) {
    Tensor x = tensor(std::vector<float>{1, 2}, {2}, f32, "keeper") + 0.0f;
    sync_multi({x});
    using Info = lazy::BackendData::DeviceDataInfo;
    x.value().node->slots()[0].data->SetInfo(std::make_shared<Info>(1, read_only));
    Tensor y = x + 1.0f;
    x = Tensor();
    mark_step(true);
    const std::vector<bool> donated = backend.donations().back();
    EXPECT_EQ(std::count(donated.begin(), donated.end(), true), read_only ? 0 : 1);
    EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{2, 3}));
  }
}

TEST_F(BackendFaults, ReductionsOfNumbersNameNoDims) {
  Faulty& backend = NewFaulty("zero_d");
  Registered registered(backend);
  Tensor x = tensor(2.0, f32, "zero_d");
  EXPECT_EQ(x.sum({0}).item<float>(), 2);
  EXPECT_EQ(x.mean({-1}).item<float>(), 2);
  EXPECT_EQ(prod(x, {0}).item<float>(), 2);
  EXPECT_EQ(logsumexp(x, {0}).item<float>(), 2);
  for (const std::string& graph : backend.graphs()) {
    EXPECT_EQ(graph.find("dims=[0]"), std::string::npos) << graph;
  }
}

TEST_F(BackendFaults, ComputationsKnowWhetherTheyBelongToAStep) {
  Faulty& backend = NewFaulty("teller");
  Registered registered(backend);
  Tensor x = tensor(std::vector<float>{1, 2}, {2}, f32, "teller");
  sync_multi({x});
  Tensor y = x * 2.0f;
  mark_step(true);
  EXPECT_TRUE(backend.in_mark_step.back());
  (x * x).to_vector<float>();
  EXPECT_FALSE(backend.in_mark_step.back());
  std::vector<Tensor> z = {exp(x) * x};
  Lazy().DumpTensors(z, "backend");
  EXPECT_FALSE(backend.in_mark_step.back());
  DescribeCompiled(ParseGraph("%0 = input : f32[3]\n%1 = neg %0 : f32[3]\nreturn %1"), "teller");
  EXPECT_FALSE(backend.in_mark_step.back());
}

// ---- Registration

TEST_F(BackendFaults, RegistrationIsWholeOrNothing) {
  Faulty& backend = NewFaulty("halfway");
  backend.throws = "GetBackendDevices";
  EXPECT_HAS(TextOf([&] { lazy::RegisterBackend(&backend); }), "GetBackendDevices on halfway");
  std::vector<std::string> names = lazy::BackendNames();
  EXPECT_EQ(std::count(names.begin(), names.end(), "halfway"), 0);
  backend.throws = "GetDefaultDeviceType";
  EXPECT_HAS(TextOf([&] { lazy::RegisterBackend(&backend); }),
             "GetDefaultDeviceType on a new backend");
  backend.throws = "";
  Registered registered(backend);
  EXPECT_EQ(ones({2}, f32, "halfway").sum().item<float>(), 2);
}

TEST_F(BackendFaults, RegistrationHoldsNoLock) {
  Faulty& backend = NewFaulty("asker");
  backend.meanwhile = [] { lazy::getBackend("reference"); };
  Registered registered(backend);
  EXPECT_EQ(ones({2}, f32, "asker").sum().item<float>(), 2);
  backend.meanwhile = nullptr;
}

TEST_F(BackendFaults, NamesOfDeviceTypesAreChecked) {
  for (const char* name : {"", "a:b", "a b"}) {
    EXPECT_HAS(TextOf([&] { lazy::RegisterBackend(&NewFaulty(name)); }),
               "is no name of a device type");
  }
}

TEST_F(BackendFaults, AnotherBackendOfTheSameNameIsAnotherDevice) {
  Tensor old;
  {
    Registered registered(NewFaulty("twice"));
    old = ones({2}, f32, "twice");
  }
  Registered registered(NewFaulty("twice"));
  std::string text = TextOf([&] { old + ones({2}, f32, "twice"); });
  EXPECT_HAS(text, "whose backend is no longer registered");
}

TEST_F(BackendFaults, AMissingFallbackDeviceNamesTheOp) {
  Faulty& backend = NewFaulty("helpless");
  backend.refuse = [](const GraphNode& node) {
    return node.op->info().name == "exp" ? "no exp" : "";
  };
  Registered registered(backend);
  config::Override other("fallback_device", "nowhere");
  std::string text = TextOf([] { exp(ones({2}, f32, "helpless")).to_vector<float>(); });
  EXPECT_HAS(text, "exp [at");
  EXPECT_HAS(text, "nowhere");
}

}  // namespace
}  // namespace hammock
