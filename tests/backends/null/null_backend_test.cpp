#include "backends/null/null_backend.h"

#include "backends/run_graph.h"
#include "hammock/lazy/backend_interface.h"

namespace hammock {
namespace {

lazy::BackendImplInterface& Backend() { return *NullBackend(); }
lazy::BackendDevice Device0() { return Backend().GetBackendDevice(-1); }

TEST(NullBackend, GivesZerosOfTheRightTypes) {
  auto computation = std::make_shared<lazy::Computation>("test", ParseGraph(R"(
    %0 = input : f32[2,2]
    %1:2 = sort %0 {dim=1, descending=false, stable=true} : f32[2,2], i64[2,2]
    return %1.0, %1.1)"),
                                                         Device0());
  Backend().Compile({computation});
  HostTensor input = Make(f32, {2, 2}, {4, 3, 2, 1});
  BackendDataPtr argument =
      Backend().MakeComputationDataFromTensor(input, input.shape(), Device0());
  auto results = Backend().ExecuteComputation(computation, std::vector{argument}, Device0(), {});
  ASSERT_EQ(results.size(), 2u);
  EXPECT_TENSOR(Backend().MakeTensorFromComputationData(results[0], std::nullopt),
                Make(f32, {2, 2}, {0, 0, 0, 0}));
  EXPECT_TENSOR(Backend().MakeTensorFromComputationData(results[1], f64),
                Make(f64, {2, 2}, {0, 0, 0, 0}));
  EXPECT_NE(results[0]->GetHandle(), results[1]->GetHandle());
  EXPECT_EQ(results[0]->bytes(), 0);
}

TEST(NullBackend, FillsPlaceholders) {
  BackendDataPtr placeholder = Backend().CreateDataPlaceholder(Device0(), Shape(f32, {4}));
  EXPECT_FALSE(placeholder->HasValue());
  placeholder->Assign(*Backend().MakeComputationDataFromScalar(Scalar(1.0), Device0()));
  EXPECT_TRUE(placeholder->HasValue());
}

TEST(NullBackend, HasOneDeviceAndRunsEverything) {
  EXPECT_EQ(Backend().GetDefaultDeviceType()->toString(), "null");
  EXPECT_EQ(Backend().GetBackendDevices().size(), 1u);
  EXPECT_THROW(Backend().SetDefaultDeviceOrdinal(3), ValueError);
  EXPECT_EQ(Backend().QueryCapability(Graph(), NodeId(0), Device0()).verdict,
            lazy::Capability::Verdict::kRun);
  EXPECT_EQ(Backend().GetMemoryInfo(Device0()).in_use, 0);
  EXPECT_NE(Backend().CreateMetricReport().find("computations_run"), std::string::npos);
}

}  // namespace
}  // namespace hammock
