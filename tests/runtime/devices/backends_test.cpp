// Several backends in one process: registering, unregistering, transfers, saved computations.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "base/log.h"
#include "hammock/config.h"
#include "hammock/op_builder.h"
#include "runtime/devices/backend_registry.h"
#include "runtime/runtime.h"
#include "support/host_backend.h"

namespace hammock {
namespace {

using namespace hammock::testing;

class Backends : public Runtime {};

// ---- Registration

TEST_F(Backends, LiveInOneProcess) {
  HostBackend& backend = MakeBackend("beside", 2);
  Registered registered(backend);
  EXPECT_EQ(backend.initialized, 1);
  EXPECT_EQ(lazy::getBackend("beside"), &backend);
  Tensor a = ones({2}, f32, "beside") + 1.0f;
  Tensor b = ones({2}, f32, "beside:1") * 3.0f;
  Tensor c = ones({2}, f32, "reference") - 1.0f;
  mark_step();
  EXPECT_TENSOR_EQ(a, {2, 2}, {2});
  EXPECT_TENSOR_EQ(b, {3, 3}, {2});
  EXPECT_TENSOR_EQ(c, {0, 0}, {2});
  EXPECT_EQ(a.device().to_string(), "beside:0");
  EXPECT_EQ(b.device().to_string(), "beside:1");
  EXPECT_EQ(b.device().ordinal(), 1);
  EXPECT_GE(backend.executed, 2);
  EXPECT_CODE(a + b, ErrorCode::kDeviceMismatch, "beside:0 and beside:1");
  EXPECT_CODE(a + c, ErrorCode::kDeviceMismatch, "reference:0");
  EXPECT_TENSOR_EQ(a.to(Device("beside:1")) + b, {5, 5}, {2});
  EXPECT_TENSOR_EQ(b.to(Device("reference")) + c, {3, 3}, {2});
  EXPECT_NE(metrics::Report().find("toy report of beside"), std::string::npos);
}

TEST_F(Backends, DevicesAreTheDistinctOnesThatExist) {
  HostBackend& backend = MakeBackend("distinct", 3);
  Registered registered(backend);
  std::vector<std::string> names;
  for (const Device& device : Devices()) names.push_back(device.to_string());
  for (const char* name : {"distinct:0", "distinct:1", "distinct:2", "reference:0", "null:0"}) {
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
  }
  for (const std::string& name : lazy::BackendNames()) {
    auto devices = lazy::getBackend(name)->GetBackendDevices();
    for (size_t i = 0; i < devices.size(); ++i) {
      for (size_t j = 0; j < i; ++j) EXPECT_NE(devices[i], devices[j]) << name;
      EXPECT_EQ(lazy::getBackend(name)->GetBackendDevice(devices[i].ordinal()), devices[i]);
    }
    EXPECT_CODE(lazy::getBackend(name)->GetBackendDevice(77), ErrorCode::kBadOrdinal, "77");
    EXPECT_EQ(lazy::getBackend(name)->GetBackendDevice(-1).ordinal(),
              lazy::getBackend(name)->GetDefaultDeviceOrdinal());
  }
  EXPECT_CODE(Device("distinct:3"), ErrorCode::kBadOrdinal, "distinct:0, distinct:1, distinct:2");
  EXPECT_CODE(Device("distinct:-1"), ErrorCode::kBadOrdinal, "-1");
  EXPECT_CODE(Device("distinct:"), ErrorCode::kBadOrdinal);
  EXPECT_CODE(Device("distinct:1x"), ErrorCode::kBadOrdinal);
  EXPECT_CODE(Device("distinct:99999999999999999999"), ErrorCode::kBadOrdinal);
  EXPECT_CODE(Device("distant"), ErrorCode::kUnknownDevice, "reference");
  EXPECT_CODE(Device(""), ErrorCode::kUnknownDevice);
  backend.SetDefaultDeviceOrdinal(2);
  EXPECT_EQ(Device("distinct").ordinal(), 2);
  EXPECT_CODE(backend.SetDefaultDeviceOrdinal(3), ErrorCode::kBadOrdinal);
  EXPECT_CODE(lazy::getBackend("reference")->SetDefaultDeviceOrdinal(3), ErrorCode::kBadOrdinal);
}

/// Libraries of a GPU's vendor take long to open, and much memory.
TEST(BackendsDeathTest, ThatOpenLibrariesAreThereOnceOneIsNamed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // in a process that has opened nothing
  auto run = [] {
    config::Set("cuda.emulate", "g++");
    auto is_there = [] {
      return std::ranges::any_of(AllDevices(), [](auto* entry) { return entry->type == "cuda"; });
    };
    ones(Dims{2}).host();
    const bool before = is_there();
    Device("cuda");
    std::exit(!before && is_there() ? 0 : 1);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0), "");
}

TEST_F(Backends, RegistrationIsChecked) {
  HostBackend& backend = MakeBackend("checked");
  EXPECT_CODE(lazy::RegisterBackend(&backend, 77), ErrorCode::kAbiMismatch, "77");
  EXPECT_CODE(lazy::BackendRegistrar(&backend, lazy::kBackendAbiVersion + 1),
              ErrorCode::kAbiMismatch, std::to_string(lazy::kBackendAbiVersion));
  EXPECT_CODE(lazy::RegisterBackend(nullptr), ErrorCode::kValue, "null");
  EXPECT_CODE(lazy::getBackend("checked"), ErrorCode::kNotRegistered, "checked");
  EXPECT_CODE(lazy::UnregisterBackend("checked"), ErrorCode::kNotRegistered, "checked");
  Registered registered(backend);
  EXPECT_CODE(lazy::RegisterBackend(&backend), ErrorCode::kDuplicateRegistration, "checked");
  EXPECT_CODE(lazy::RegisterBackend(&MakeBackend("Checked")), ErrorCode::kDuplicateRegistration);
  EXPECT_TRUE(lazy::hasBackend());
  EXPECT_EQ(backend.initialized, 1);
}

TEST_F(Backends, MayBeTheDefault) {
  HostBackend& backend = MakeBackend("standard", 2);
  Device before;
  {
    Registered registered(backend);
    SetDefaultDevice("standard:1");
    EXPECT_EQ(lazy::getBackend(), &backend);
    EXPECT_EQ(ones({2}).device().to_string(), "standard:1");
    EXPECT_EQ(tensor({1.0, 2.0}).device().to_string(), "standard:1");
    EXPECT_EQ(lazy::getIrBuilder(), backend.GetIrBuilder());
  }
  EXPECT_EQ(Device(), before) << "gone with its backend";
  EXPECT_NE(lazy::getBackend(), &backend);
}

TEST_F(Backends, UnregisteringIsRefusedWhileDataIsLive) {
  HostBackend& backend = MakeBackend("leaving");
  lazy::RegisterBackend(&backend);
  Tensor a = ones({2, 3}, f32, "leaving") + 1.0f;
  mark_step();
  Raised raised = ErrorOf([] { lazy::UnregisterBackend("leaving"); });
  EXPECT_NE(raised.what.find("leaving"), std::string::npos) << raised.what;
  EXPECT_NE(raised.what.find("f32[2,3]"), std::string::npos) << raised.what;
  EXPECT_NE(raised.what.find("1 live tensor"), std::string::npos) << raised.what;
  EXPECT_TENSOR_EQ(a + 1.0f, {3, 3, 3, 3, 3, 3}, {2, 3});
  a = Tensor();
  lazy::UnregisterBackend("leaving");
  EXPECT_EQ(backend.exited, 1);
  EXPECT_CODE(Device("leaving"), ErrorCode::kUnknownDevice);
  EXPECT_CODE(lazy::getBackend("leaving"), ErrorCode::kNotRegistered);
}

TEST_F(Backends, ForcedUnregisteringKeepsTheValuesReadable) {
  HostBackend& backend = MakeBackend("forced");
  lazy::RegisterBackend(&backend);
  Tensor host = tensor(std::vector<float>{1, 2}, std::nullopt, "forced");
  Tensor ready = ones({2, 2}, f32, "forced") + 1.0f;
  sync_multi({ready});
  Tensor pending = ready * 2.0f;
  Tensor base = arange(6, f32, "forced");
  Tensor part = base.slice(0, 2, 5);
  Tensor grid = base.view({2, 3}).t();
  part.add_(10.0f);
  Tensor bad = gather(ready, 0, full({1, 2}, 9, i64, "forced"));
  Tensor given = ready + 5.0f;
  donate(given);
  lazy::UnregisterBackend("forced", true);
  EXPECT_EQ(backend.exited, 1);
  int downloads = backend.downloads;
  EXPECT_TENSOR_EQ(host, {1, 2}, {2});
  EXPECT_TENSOR_EQ(ready, {2, 2, 2, 2}, {2, 2});
  EXPECT_TENSOR_EQ(pending, {4, 4, 4, 4}, {2, 2});
  EXPECT_TENSOR_EQ(base, {0, 1, 12, 13, 14, 5}, {6});
  EXPECT_TENSOR_EQ(part, {12, 13, 14}, {3});
  EXPECT_TENSOR_EQ(grid, {0, 13, 1, 14, 12, 5}, {3, 2});
  EXPECT_EQ(backend.downloads, downloads) << "the backend is not asked any more";
  // They are still on a device, which is gone: computing with them needs another one.
  EXPECT_CODE((ready + 1.0f).host(), ErrorCode::kNotRegistered, "forced");
  EXPECT_TENSOR_EQ(ready.to(Device("reference")) + 1.0f, {3, 3, 3, 3}, {2, 2});
  EXPECT_TENSOR_EQ(part.to(Device("reference")) + 1.0f, {13, 14, 15}, {3});
  EXPECT_THROW(bad.host(), Error);
}

TEST_F(Backends, AReturningBackendFindsItsTensors) {
  HostBackend& backend = MakeBackend("returning");
  lazy::RegisterBackend(&backend);
  Tensor x = ones({2}, f32, "returning") + 1.0f;
  Tensor v = x.view({1, 2});
  lazy::UnregisterBackend("returning", true);
  EXPECT_CODE((x + 1.0f).host(), ErrorCode::kNotRegistered);
  Registered registered(backend);
  EXPECT_EQ(backend.initialized, 2);
  EXPECT_TENSOR_EQ(x + 1.0f, {3, 3}, {2});
  v.mul_(10.0f);
  EXPECT_TENSOR_EQ(x, {20, 20}, {2});
}

TEST_F(Backends, UnregisteringDropsCachedGraphs) {
  HostBackend& backend = MakeBackend("cached");
  lazy::RegisterBackend(&backend);
  (ones({2}, f32, "cached") + 1.0f).host();
  (ones({2}, f32, "reference") + 1.0f).host();
  int64_t entries = Lazy().GetCacheStats().entries;
  lazy::UnregisterBackend("cached");
  EXPECT_LT(Lazy().GetCacheStats().entries, entries);
  EXPECT_GT(Lazy().GetCacheStats().entries, 0) << "others keep theirs";
  EXPECT_CODE(Device("cached"), ErrorCode::kUnknownDevice, "registered devices are");
}

TEST_F(Backends, UnregisteringDrainsTheQueue) {
  HostBackend& backend = MakeBackend("drained");
  lazy::RegisterBackend(&backend);
  {
    Tensor x = ones({300, 300}, f32, "drained") + 1.0f;
    mark_step();
  }
  lazy::UnregisterBackend("drained");
  EXPECT_EQ(backend.executed, 1);
  EXPECT_EQ(backend.exited, 1);
}

TEST_F(Backends, ReceiveTheSeed) {
  HostBackend& backend = MakeBackend("seeded");
  Registered registered(backend);
  manual_seed(1234);
  EXPECT_EQ(backend.seed, 1234u);
  for (const std::string& name : lazy::BackendNames()) lazy::getBackend(name)->SetRngSeed(7);
}

TEST_F(Backends, GiveTheSameRandomNumbers) {
  HostBackend& backend = MakeBackend("dice");
  Registered registered(backend);
  auto draw = [](const char* device) {
    manual_seed(99);
    return std::vector{rand({7}, f32, device), randint(1000, {7}, i64, device),
                       randperm(7, i64, device)};
  };
  auto a = draw("dice"), b = draw("reference");
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TENSOR_EQ(a[i].host(), b[i].host());
}

// ---- Transfers

TEST_F(Backends, UploadsAreBatched) {
  HostBackend& backend = MakeBackend("batched");
  Registered registered(backend);
  std::vector<Tensor> leaves;
  for (int i = 0; i < 5; ++i) {
    leaves.push_back(tensor(std::vector<float>{static_cast<float>(i)}, std::nullopt, "batched"));
  }
  Tensor sum = leaves[0] + leaves[1] + leaves[2] + leaves[3] + leaves[4];
  EXPECT_EQ(backend.uploads, 0) << "not before a step needs them";
  EXPECT_TENSOR_EQ(sum, {10}, {1});
  EXPECT_EQ(backend.uploads, 5);
  EXPECT_EQ(backend.upload_calls, 1);
}

TEST_F(Backends, TheTypeHintIsHonoured) {
  for (const char* name : {"reference", "null"}) {
    lazy::BackendImplInterface* backend = lazy::getBackend(name);
    HostTensor host = HostTensor::From(std::vector<float>{0, 0}, {2});
    auto data =
        backend->MakeComputationDataFromTensor(host, host.shape(), backend->GetBackendDevice(0));
    EXPECT_EQ(backend->MakeTensorFromComputationData(data, DType::kF64).dtype(), DType::kF64);
    EXPECT_EQ(backend->MakeTensorFromComputationData(data, std::nullopt).dtype(), DType::kF32);
  }
}

TEST_F(Backends, HaveContentInReportsAndMemoryInfo) {
  lazy::BackendImplInterface* backend = lazy::getBackend("reference");
  Device device("reference");
  int64_t before = backend->GetMemoryInfo(device.backend_device()).in_use;
  Tensor x = ones({1000}, f32, device) + 1.0f;
  sync_multi({x});
  lazy::MemoryInfo info = backend->GetMemoryInfo(device.backend_device());
  EXPECT_GE(info.in_use, before + 4000);
  EXPECT_GE(info.peak, info.in_use);
  x = Tensor();
  mark_step();
  EXPECT_LT(backend->GetMemoryInfo(device.backend_device()).in_use, before + 4000);
  EXPECT_FALSE(backend->CreateMetricReport().empty());
  EXPECT_FALSE(backend->GetMetrics().empty());
}

TEST_F(Backends, GiveAddressesOfElementsInHostMemory) {
  HostBackend& backend = MakeBackend("hosted");
  Registered registered(backend);
  Tensor x = ones({2}, f32, "hosted") + 1.0f;
  EXPECT_EQ(x.data_ptr<float>()[1], 2);
  // Its MemoryInfo says that it has memory of its own.
  EXPECT_CODE(ones({2}, f32, "null").data_ptr<float>(), ErrorCode::kNotSupported,
              "the tensor is on null:0, not in host memory; call cpu() first");
}

// ---- Saved computations

TEST_F(Backends, ComputationsAreSavedAndLoaded) {
  lazy::BackendImplInterface* backend = lazy::getBackend("reference");
  lazy::BackendDevice device = backend->GetBackendDevice(0);
  Graph graph = ParseGraph(R"(
    %0 = input : f32[2,3]
    %1 = input : f32[2,3]
    %2 = add %0, %1 : f32[2,3]
    %3 = exp %2 : f32[2,3]
    return %3, %2)");
  auto computation = std::make_shared<lazy::Computation>("saved", graph, device);
  EXPECT_EQ(computation->parameters_size(), 2);
  EXPECT_EQ(computation->parameter_names(), (std::vector<std::string>{"p0", "p1"}));
  EXPECT_EQ(computation->parameter_shapes()[1].to_string(), "f32[2,3]");
  EXPECT_EQ(computation->results_size(), 2);
  EXPECT_EQ(computation->result_shape(0).to_string(), "f32[2,3]");
  EXPECT_THROW(computation->result_shape(2), std::exception);
  auto compiled = backend->Compile({computation}).at(0);
  std::string bytes = backend->SerializeComputation(compiled);
  EXPECT_EQ(backend->CheckCompatibility(bytes, device), lazy::Compatibility::kOptimal);
  auto loaded = backend->DeserializeComputation(bytes, device);
  HostTensor one = HostTensor::From(std::vector<float>(6, 1.0f), {2, 3});
  std::vector<BackendDataPtr> arguments(
      2, backend->MakeComputationDataFromTensor(one, one.shape(), device));
  auto results = backend->ExecuteComputation(loaded, arguments, device, {});
  ASSERT_EQ(results.size(), 2u);
  HostTensor sum = backend->MakeTensorFromComputationData(results[1], std::nullopt);
  EXPECT_EQ(sum.at(5).ToDouble(), 2);

  HostBackend& other = MakeBackend("loader");
  EXPECT_EQ(other.CheckCompatibility(bytes, other.GetBackendDevice(0)),
            lazy::Compatibility::kRecompile)
      << "made by another backend, but its graph can be compiled";
  EXPECT_EQ(other.DeserializeComputation(bytes, other.GetBackendDevice(0))->graph(), graph);
  for (size_t cut : {size_t{0}, size_t{3}, bytes.size() / 2, bytes.size() - 1}) {
    std::string damaged = bytes.substr(0, cut);
    EXPECT_EQ(backend->CheckCompatibility(damaged, device), lazy::Compatibility::kUnsupported);
    EXPECT_CODE(backend->DeserializeComputation(damaged, device), ErrorCode::kParse);
  }
  int refused = 0;
  for (size_t i = 0; i < bytes.size(); i += 7) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x55);
    try {
      backend->DeserializeComputation(damaged, device);  // the fingerprint is not the graph
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kParse) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_CODE(backend->SerializeComputation(nullptr), ErrorCode::kValue, "null");
}

TEST_F(Backends, DataOfOthersIsRefused) {
  HostBackend& backend = MakeBackend("foreign");
  Registered registered(backend);
  HostTensor host = HostTensor::From(std::vector<float>{1}, {1});
  auto data =
      backend.MakeComputationDataFromTensor(host, host.shape(), backend.GetBackendDevice(0));
  EXPECT_CODE(lazy::getBackend("reference")->MakeTensorFromComputationData(data, std::nullopt),
              ErrorCode::kForeignTensor, "foreign");
}

TEST_F(Backends, LiftedScalarsGoWithAnyDevice) {
  HostBackend& backend = MakeBackend("lifter");
  Registered registered(backend);
  Tensor two = Lift(2.0, f32);
  Tensor a = ones({2}, f32, "reference") * two;
  Tensor b = ones({2}, f32, "lifter") * two;
  EXPECT_TENSOR_EQ(a, {2, 2}, {2});
  EXPECT_TENSOR_EQ(b, {2, 2}, {2});
  EXPECT_TENSOR_EQ(ones({1}, f32, "reference") + two, {3}, {1});
}

}  // namespace
}  // namespace hammock
