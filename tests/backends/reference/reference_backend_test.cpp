#include "backends/reference/reference_backend.h"

#include <thread>

#include "backends/common/fault.h"
#include "backends/run_graph.h"
#include "hammock/lazy/backend_interface.h"

namespace hammock::reference {
namespace {

using lazy::BackendImplInterface;
using lazy::ComputationPtr;

BackendImplInterface& Backend() { return *ReferenceBackend(); }
lazy::BackendDevice Device0() { return Backend().GetBackendDevice(-1); }

BackendDataPtr Upload(const HostTensor& tensor) {
  return Backend().MakeComputationDataFromTensor(tensor, tensor.shape(), Device0());
}
HostTensor Download(const BackendDataPtr& data) {
  return Backend().MakeTensorFromComputationData(data, std::nullopt);
}
ComputationPtr Compile(const char* text) {
  auto computation = std::make_shared<lazy::Computation>("test", ParseGraph(text), Device0());
  return Backend().Compile({computation}).at(0);
}
std::vector<BackendDataPtr> Execute(const ComputationPtr& computation,
                                    const std::vector<BackendDataPtr>& arguments,
                                    const std::vector<bool>& donated = {}) {
  return Backend().ExecuteComputation(computation, arguments, Device0(), {.donated = donated});
}
int64_t InUse() { return Backend().GetMemoryInfo(Device0()).in_use; }

constexpr const char* kText = R"(
    %0 = input : f32[4]
    %1 = input : f32[4]
    %2 = mul %0, %1 : f32[4]
    %3 = add %2, %0 : f32[4]  @ step.cpp:3
    return %3)";
const HostTensor kA = Make(f32, {1, 2, 3, 4});
const HostTensor kB = Make(f32, {10, 10, 10, 10});

TEST(ReferenceBackend, HasOneDevice) {
  EXPECT_EQ(Backend().GetDefaultDeviceType()->toString(), "reference");
  EXPECT_EQ(Backend().GetBackendDevices().size(), 1u);
  EXPECT_EQ(Backend().GetDefaultDeviceOrdinal(), 0);
  EXPECT_THROW(Backend().SetDefaultDeviceOrdinal(1), ValueError);
  EXPECT_THROW(Backend().SetDefaultDeviceType(77), ValueError);
  EXPECT_FALSE(Backend().IsAsynchronous());
  EXPECT_EQ(ReferenceBackend(), ReferenceBackend());
}

TEST(ReferenceBackend, CompilesAndExecutes) {
  ComputationPtr computation = Compile(kText);
  EXPECT_GT(computation->bytes(), 0);
  auto results = Execute(computation, {Upload(kA), Upload(kB)});
  EXPECT_TENSOR(Download(results[0]), Make(f32, {11, 22, 33, 44}));
  EXPECT_EQ(Backend().GetComputationBackendText(computation), ToText(computation->graph()));
}

TEST(ReferenceBackend, SharesUploadsAndCopiesDownloads) {
  HostTensor tensor = Make(f32, {1, 2, 3, 4});
  BackendDataPtr data = Upload(tensor);
  EXPECT_FALSE(tensor.unique());
  HostTensor read = Download(data);
  EXPECT_NE(read.data(), tensor.data());
  EXPECT_TRUE(read.unique());
  data.reset();
  EXPECT_TRUE(tensor.unique());
}

TEST(ReferenceBackend, ConvertsOnTheWayInAndOut) {
  BackendDataPtr data = Backend().MakeComputationDataFromTensor(kA, Shape(f16, {4}), Device0());
  EXPECT_EQ(data->shape(), Shape(f16, {4}));
  EXPECT_TENSOR(Backend().MakeTensorFromComputationData(data, i64), Make(i64, {1, 2, 3, 4}));
  BackendDataPtr scalar = Backend().MakeComputationDataFromScalar(Scalar(2.5), Device0());
  EXPECT_TENSOR(Download(scalar), Make(f64, {}, {2.5}));
  EXPECT_THROW(Backend().MakeComputationDataFromTensor(kA, Shape(f32, {5}), Device0()), ValueError);
}

TEST(ReferenceBackend, FillsPlaceholders) {
  BackendDataPtr placeholder = Backend().CreateDataPlaceholder(Device0(), Shape(f32, {4}));
  EXPECT_FALSE(placeholder->HasValue());
  EXPECT_THROW(Download(placeholder), DeviceError);
  placeholder->Assign(*Upload(kA));
  EXPECT_TRUE(placeholder->HasValue());
  EXPECT_TENSOR(Download(placeholder), kA);
}

TEST(ReferenceBackend, CountsMemory) {
  int64_t before = InUse();
  {
    BackendDataPtr a = Upload(kA);
    BackendDataPtr b = Upload(kB);
    EXPECT_EQ(InUse(), before + 32);
    auto results = Execute(Compile(kText), {a, b});
    EXPECT_EQ(InUse(), before + 48);
    EXPECT_GE(Backend().GetMemoryInfo(Device0()).peak, before + 64);
    // A second owner of the same bytes counts nothing.
    BackendDataPtr placeholder = Backend().CreateDataPlaceholder(Device0(), Shape(f32, {4}));
    placeholder->Assign(*results[0]);
    EXPECT_EQ(InUse(), before + 48);
  }
  EXPECT_EQ(InUse(), before);
}

TEST(ReferenceBackend, RefusesMoreThanItsLimit) {
  ComputationPtr computation = Compile(kText);
  std::vector<BackendDataPtr> arguments = {Upload(kA), Upload(kB)};
  int64_t in_use = InUse();
  Backend().SetMemoryLimit(Device0(), in_use + 20);
  try {
    Execute(computation, arguments);
    ADD_FAILURE() << "no error";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.message(),
              fmt::format("add: 16 bytes exceed the limit of {} bytes on reference, {} are in use",
                          in_use + 20, in_use + 16));
    EXPECT_EQ(error.where(), "step.cpp:3");
  }
  EXPECT_THROW(Upload(Make(f32, {8}, std::vector<double>(8))), OutOfMemory);
  EXPECT_EQ(InUse(), in_use);
  Backend().SetMemoryLimit(Device0(), 0);
  EXPECT_TENSOR(Download(Execute(computation, arguments)[0]), Make(f32, {11, 22, 33, 44}));
  EXPECT_THROW(Backend().SetMemoryLimit(Device0(), -1), ValueError);
}

TEST(ReferenceBackend, ReleasesDonatedArguments) {
  ComputationPtr computation = Compile(kText);
  BackendDataPtr a = Upload(kA);
  BackendDataPtr b = Upload(kB);
  int64_t before = InUse();
  auto results = Execute(computation, {a, b}, {true, false});
  EXPECT_FALSE(a->HasValue());
  EXPECT_TRUE(b->HasValue());
  EXPECT_EQ(InUse(), before);
  EXPECT_TENSOR(Download(results[0]), Make(f32, {11, 22, 33, 44}));
}

TEST(ReferenceBackend, KeepsDonatedArgumentsWhenItFails) {
  ComputationPtr computation = Compile(kText);
  BackendDataPtr a = Upload(kA);
  BackendDataPtr b = Upload(kB);
  {
    ScopedFault fault([](FaultPoint point, std::string_view detail) {
      if (point == FaultPoint::kExecute && detail == "add") {
        throw DeviceError(ErrorCode::kDevice, "injected");
      }
    });
    EXPECT_THROW(Execute(computation, {a, b}, {true, true}), lazy::ExecutionError);
  }
  EXPECT_TENSOR(Download(a), kA);
  EXPECT_TENSOR(Download(Execute(computation, {a, b})[0]), Make(f32, {11, 22, 33, 44}));
}

/// Runs everything with a hook that throws at one point; returns what the hook was told there.
std::string FailAt(FaultPoint wanted) {
  std::string seen = "nothing failed";
  ScopedFault fault([&](FaultPoint point, std::string_view detail) {
    if (point != wanted) return;
    seen = detail;
    throw DeviceError(ErrorCode::kDevice, "injected");
  });
  EXPECT_THROW(
      {
        Backend().CreateLoweringContext("step", Device0());
        ComputationPtr computation = Compile(kText);
        auto results = Execute(computation, {Upload(kA), Upload(kB)});
        Download(results[0]);
      },
      DeviceError);
  return seen;
}

TEST(ReferenceBackend, AsksTheFaultHookEverywhere) {
  EXPECT_EQ(FailAt(FaultPoint::kLower), "step");
  EXPECT_EQ(FailAt(FaultPoint::kCompile), "test");
  EXPECT_EQ(FailAt(FaultPoint::kUpload), "f32[4]");
  EXPECT_EQ(FailAt(FaultPoint::kAllocate), "upload");
  EXPECT_EQ(FailAt(FaultPoint::kExecute), "mul");
  EXPECT_EQ(FailAt(FaultPoint::kDownload), "f32[4]");
  EXPECT_FALSE(FaultHookSet());
}

TEST(ReferenceBackend, FaultHooksMayChangeWhileThreadsRun) {
  ComputationPtr computation = Compile(kText);
  std::atomic<int64_t> calls{0};
  std::atomic<bool> stop{false};
  std::thread runner([&] {
    std::vector<BackendDataPtr> arguments = {Upload(kA), Upload(kB)};
    while (!stop) {
      EXPECT_TENSOR(Download(Execute(computation, arguments)[0]), Make(f32, {11, 22, 33, 44}));
    }
  });
  for (int i = 0; calls < 200 && i < 1'000'000; ++i) {
    ScopedFault fault([&](FaultPoint, std::string_view) { ++calls; });
    std::this_thread::yield();
  }
  stop = true;
  runner.join();
  EXPECT_GE(calls, 200);
  EXPECT_FALSE(FaultHookSet());
}

void InferLikeFirst(const InferCall& call) { call.out = {*call.in[0]}; }
constinit const OpDef kForeign = {.schema = "backend_test_foreign(Tensor self) -> Tensor",
                                  .infer = InferLikeFirst};

TEST(ReferenceBackend, RefusesOpsWithoutAKernel) {
  op_registry::Register(kForeign);
  Graph graph;
  GraphValue x = graph.AddInput(Shape(f32, {}));
  NodeId node = graph.AddNode(kForeign, {x});
  graph.AddOutput({node, 0});
  lazy::Capability verdict = Backend().QueryCapability(graph, node, Device0());
  EXPECT_EQ(verdict.verdict, lazy::Capability::Verdict::kRefuse);
  EXPECT_EQ(verdict.reason, "the interpreter has no kernel for it");
  auto computation = std::make_shared<lazy::Computation>("odd", graph, Device0());
  EXPECT_THROW(Backend().Compile({computation}), CompileError);
  EXPECT_EQ(computation->artifact, nullptr);
}

TEST(ReferenceBackend, RefusesForeignData) {
  struct Other : lazy::BackendData {
    Other() : BackendData(Device0(), Shape(f32, {4})) {}
    void Assign(const BackendData&) override {}
    bool HasValue() const override { return true; }
  };
  EXPECT_THROW(Execute(Compile(kText), {std::make_shared<Other>(), Upload(kB)}), ValueError);
  EXPECT_THROW(Download(nullptr), ValueError);
}

TEST(ReferenceBackend, SavesAndLoadsComputations) {
  ComputationPtr computation = Compile(kText);
  std::string bytes = Backend().SerializeComputation(computation);
  EXPECT_EQ(Backend().CheckCompatibility(bytes, Device0()), lazy::Compatibility::kOptimal);
  EXPECT_EQ(Backend().CheckCompatibility("nonsense", Device0()), lazy::Compatibility::kUnsupported);
  ComputationPtr loaded = Backend().DeserializeComputation(bytes, Device0());
  EXPECT_EQ(loaded->graph(), computation->graph());
  EXPECT_TENSOR(Download(Execute(loaded, {Upload(kA), Upload(kB)})[0]),
                Make(f32, {11, 22, 33, 44}));
}

TEST(ReferenceBackend, ReportsWhatItDid) {
  auto before = Backend().GetMetrics();
  auto results = Execute(Compile(kText), {Upload(kA), Upload(kB)});
  Download(results[0]);
  auto after = Backend().GetMetrics();
  EXPECT_EQ(after["computations_compiled"] - before["computations_compiled"], 1);
  EXPECT_EQ(after["computations_run"] - before["computations_run"], 1);
  EXPECT_EQ(after["nodes_run"] - before["nodes_run"], 2);
  EXPECT_EQ(after["bytes_uploaded"] - before["bytes_uploaded"], 32);
  EXPECT_EQ(after["bytes_downloaded"] - before["bytes_downloaded"], 16);
  EXPECT_NE(Backend().CreateMetricReport().find("nodes_run"), std::string::npos);
}

}  // namespace
}  // namespace hammock::reference
