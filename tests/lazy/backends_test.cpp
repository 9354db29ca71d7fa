// Several backends in one process: registering, unregistering, falling back, asynchrony, donation,
// saved computations.

#include <gtest/gtest.h>

#include "base/log.h"
#include "hammock/config.h"
#include "hammock/op_builder.h"
#include "lazy/runtime.h"
#include "support/host_backend.h"

namespace hammock {
namespace {

using namespace hammock::testing;

class Backends : public Runtime {};

/// Backends are borrowed until exit.
HostBackend& Make(const std::string& name, int devices = 1, bool asynchronous = false) {
  return *new HostBackend(name, devices, asynchronous);
}

int64_t Fallbacks() {
  int64_t sum = 0;
  for (const std::string& name : metrics::CounterNames()) {
    if (name.starts_with("fallback::")) sum += CounterOf(name);
  }
  return sum;
}

std::string NameOf(const GraphNode& node) { return node.op->info().name; }

// ---- Registration

TEST_F(Backends, LiveInOneProcess) {
  HostBackend& backend = Make("beside", 2);
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
  HostBackend& backend = Make("distinct", 3);
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

TEST_F(Backends, RegistrationIsChecked) {
  HostBackend& backend = Make("checked");
  EXPECT_CODE(lazy::RegisterBackend(&backend, 77), ErrorCode::kAbiMismatch, "77");
  EXPECT_CODE(lazy::BackendRegistrar(&backend, lazy::kBackendAbiVersion + 1),
              ErrorCode::kAbiMismatch, std::to_string(lazy::kBackendAbiVersion));
  EXPECT_CODE(lazy::RegisterBackend(nullptr), ErrorCode::kValue, "null");
  EXPECT_CODE(lazy::getBackend("checked"), ErrorCode::kNotRegistered, "checked");
  EXPECT_CODE(lazy::UnregisterBackend("checked"), ErrorCode::kNotRegistered, "checked");
  Registered registered(backend);
  EXPECT_CODE(lazy::RegisterBackend(&backend), ErrorCode::kDuplicateRegistration, "checked");
  EXPECT_CODE(lazy::RegisterBackend(&Make("Checked")), ErrorCode::kDuplicateRegistration);
  EXPECT_TRUE(lazy::hasBackend());
  EXPECT_EQ(backend.initialized, 1);
}

TEST_F(Backends, MayBeTheDefault) {
  HostBackend& backend = Make("standard", 2);
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
  HostBackend& backend = Make("leaving");
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
  HostBackend& backend = Make("forced");
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
  HostBackend& backend = Make("returning");
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
  HostBackend& backend = Make("cached");
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
  HostBackend& backend = Make("drained");
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
  HostBackend& backend = Make("seeded");
  Registered registered(backend);
  manual_seed(1234);
  EXPECT_EQ(backend.seed, 1234u);
  for (const std::string& name : lazy::BackendNames()) lazy::getBackend(name)->SetRngSeed(7);
}

TEST_F(Backends, GiveTheSameRandomNumbers) {
  HostBackend& backend = Make("dice");
  Registered registered(backend);
  auto draw = [](const char* device) {
    manual_seed(99);
    return std::vector{rand({7}, f32, device), randint(1000, {7}, i64, device),
                       randperm(7, i64, device)};
  };
  auto a = draw("dice"), b = draw("reference");
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TENSOR_EQ(a[i].host(), b[i].host());
}

// ---- Fallback

TEST_F(Backends, WhatABackendRefusesRunsOnTheFallbackDevice) {
  HostBackend& backend = Make("noexp");
  backend.refuse = [](const GraphNode& node) {
    return NameOf(node) == "exp" ? std::string("it has no exponentials") : std::string();
  };
  Registered registered(backend);
  LogCapture log;
  Tensor x = tensor(std::vector<float>{0, 1, 2}, std::nullopt, "noexp");
  int64_t before = CounterOf("fallback::exp");
  int line = 0;
  for (int i = 0; i < 3; ++i) {
    Tensor y = ((x * 2.0f).exp() + 1.0f) * 0.5f;
    line = __LINE__ - 1;
    Tensor z = x - 1.0f;
    mark_step();
    EXPECT_TENSOR_NEAR(y, {1, (std::exp(2.0) + 1) / 2, (std::exp(4.0) + 1) / 2}, {3});
    EXPECT_TENSOR_EQ(z, {-1, 0, 1}, {3});
    EXPECT_EQ(y.device().to_string(), "noexp:0");
  }
  EXPECT_EQ(CounterOf("fallback::exp"), before + 3) << "counted each time";
  std::string text = log.text();
  size_t first = text.find("it has no exponentials");
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_EQ(text.find("it has no exponentials", first + 1), std::string::npos) << "one warning";
  EXPECT_NE(text.find("exp"), std::string::npos) << text;
  EXPECT_NE(text.find(Line(line)), std::string::npos) << text;
  for (const std::string& graph : backend.graphs()) {
    EXPECT_EQ(graph.find("exp"), std::string::npos) << graph;
  }
}

TEST_F(Backends, WithoutFallbackARefusalIsAnError) {
  HostBackend& backend = Make("strict");
  backend.refuse = [](const GraphNode& node) {
    return NameOf(node) == "exp" ? std::string("no exponentials here") : std::string();
  };
  Registered registered(backend);
  Tensor x = ones({2}, f32, "strict");
  Tensor y = x.exp();
  int line = __LINE__ - 1;
  {
    config::Override strict("fallback", "false");
    Raised raised = ErrorOf([&] { y.host(); });
    EXPECT_EQ(raised.code, ErrorCode::kNotSupported);
    EXPECT_NE(raised.what.find("no exponentials here"), std::string::npos) << raised.what;
    EXPECT_NE(raised.what.find(Line(line)), std::string::npos) << raised.what;
    EXPECT_TENSOR_EQ(x + 1.0f, {2, 2}, {2});
  }
  EXPECT_TENSOR_NEAR(y, {M_E, M_E}, {2});
}

TEST_F(Backends, AForcedFallbackChangesNoOtherResult) {
  auto program = [](const char* device) {
    Tensor x = arange(0, 24, 1, f32, device).view({4, 6}) * 0.37f;
    Tensor y = softmax(x.sin(), 1);
    Tensor z = matmul(y, x.t());
    Tensor w = z.exp() - z;
    return std::vector{x, y, z, w, w.sum()};
  };
  HostBackend& backend = Make("whole");
  Registered registered(backend);
  auto plain = program("whole");
  sync_multi(plain);
  std::vector<HostTensor> expected;
  for (const Tensor& each : plain) expected.push_back(each.host());
  for (const char* op : {"exp", "dot_general", "softmax", "sin", "sin,dot_general"}) {
    config::Override forced("force_fallback", op);
    auto values = program("whole");
    int64_t before = Fallbacks();
    mark_step();
    EXPECT_GT(Fallbacks(), before) << op;
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_TRUE(values[i].host().SameBits(expected[i])) << op << " changes value " << i;
    }
  }
}

TEST_F(Backends, AForcedFallbackNeedsAnOpThatIsRecorded) {
  Tensor x = OnDevice({1, 2});
  {
    config::Override forced("force_fallback", "matmul");  // records a dot_general
    EXPECT_CODE((x + 1.0f).host(), ErrorCode::kUnknownName, "matmul");
  }
  {
    config::Override forced("force_fallback", "mull");
    EXPECT_CODE((x + 1.0f).host(), ErrorCode::kUnknownName, "mul");
  }
  EXPECT_TENSOR_EQ(x + 1.0f, {2, 3}, {2});
}

TEST_F(Backends, AFailureInAFallbackSegmentIsRolledBack) {
  HostBackend& backend = Make("segments");
  backend.refuse = [](const GraphNode& node) {
    return NameOf(node) == "exp" ? std::string("no exp") : std::string();
  };
  Registered registered(backend);
  Tensor x = tensor(std::vector<float>{0, 1}, std::nullopt, "segments");
  Tensor y = (x + 1.0f).exp() * 2.0f;
  Tensor z = x + 3.0f;
  {
    FailAt fault(FaultPoint::kExecute, "exp");
    EXPECT_CODE(mark_step(), ErrorCode::kDevice, "injected");
    EXPECT_CODE(y.host(), ErrorCode::kDevice, "injected");
  }
  EXPECT_TENSOR_EQ(z, {3, 4}, {2});
  Lazy().ClearErrors(y);
  EXPECT_TENSOR_NEAR(y, {2 * M_E, 2 * M_E * M_E}, {2});
}

TEST_F(Backends, AGraphThatDoesNotCompileRunsOnTheFallbackDevice) {
  HostBackend& backend = Make("nocompile");
  backend.before_compile = [](const lazy::Computation&) {
    throw CompileError(ErrorCode::kCompile, "the compiler is on holiday");
  };
  Registered registered(backend);
  Tensor x = tensor(std::vector<float>{1, 2}, std::nullopt, "nocompile");
  int64_t before = CounterOf("fallback::compile");
  EXPECT_TENSOR_EQ(x * 2.0f, {2, 4}, {2});
  EXPECT_EQ(CounterOf("fallback::compile"), before + 1);
  config::Override strict("fallback", "false");
  Tensor y = x * 3.0f + 1.0f;
  EXPECT_CODE(y.host(), ErrorCode::kCompile, "on holiday");
  EXPECT_TENSOR_EQ(x, {1, 2}, {2});
}

// ---- Asynchronous backends

TEST_F(Backends, AsynchronousResultsBecomeReadyLater) {
  HostBackend& backend = Make("later", 1, true);
  Registered registered(backend);
  Tensor x = tensor(std::vector<float>{1, 2}, std::nullopt, "later");
  backend.Hold();
  Tensor y = x + 1.0f;
  mark_step();  // returns at once
  Tensor z = y * 2.0f;
  mark_step();  // needs a result that is not ready
  EXPECT_EQ(backend.executed, 2);
  EXPECT_FALSE(z.is_pending());
  std::jthread releaser([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    backend.Release();
  });
  EXPECT_TENSOR_EQ(z, {4, 6}, {2});
  EXPECT_TENSOR_EQ(y, {2, 3}, {2});
}

TEST_F(Backends, BarriersWaitForAsynchronousResults) {
  HostBackend& backend = Make("awaited", 1, true);
  Registered registered(backend);
  std::atomic<bool> ran{false};
  backend.before_execute = [&](const lazy::Computation&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ran = true;
  };
  Tensor y = ones({2}, f32, "awaited") + 1.0f;
  mark_step();
  wait_device_ops({Device("awaited")});
  EXPECT_TRUE(ran);
  ran = false;
  Tensor z = y + 1.0f;
  mark_step();
  Lazy().DeviceBarrier("awaited");
  EXPECT_TRUE(ran);
  ran = false;
  Tensor w = z + 1.0f;
  mark_step(true);
  EXPECT_TRUE(ran);
  EXPECT_TENSOR_EQ(w, {4, 4}, {2});
}

TEST_F(Backends, AsynchronousErrorsBelongToTheirValues) {
  HostBackend& backend = Make("failing", 1, true);
  Registered registered(backend);
  Tensor x = tensor(std::vector<float>{0, 1, 2, 3}, std::nullopt, "failing");
  Tensor i = tensor(std::vector<int64_t>{9}, std::nullopt, "failing");
  backend.Hold();
  Tensor bad = gather(x, 0, i);
  int line = __LINE__ - 1;
  Tensor good = x + 1.0f;
  mark_step();
  Tensor behind_bad = bad * 2.0f;
  Tensor behind_good = good * 2.0f;
  mark_step();
  backend.Release();
  EXPECT_CODE(wait_device_ops(), ErrorCode::kIndexOutOfRange, "gather");
  wait_device_ops();
  EXPECT_TENSOR_EQ(behind_good, {2, 4, 6, 8}, {4});
  EXPECT_TENSOR_EQ(good, {1, 2, 3, 4}, {4});
  EXPECT_CODE(bad.host(), ErrorCode::kIndexOutOfRange, Line(line));
  int executed = backend.executed;
  EXPECT_CODE(bad.host(), ErrorCode::kIndexOutOfRange, Line(line));
  EXPECT_CODE(behind_bad.host(), ErrorCode::kIndexOutOfRange, Line(line));
  EXPECT_EQ(backend.executed, executed) << "not run again";
  wait_device_ops();
}

TEST_F(Backends, AnErrorWithoutANodeIsFoundByTryingAlone) {
  HostBackend& backend = Make("vague");
  backend.before_execute = [](const lazy::Computation& computation) {
    if (computation.to_string().find("exp") == std::string::npos) return;
    throw DeviceError(ErrorCode::kDevice, "something is wrong");
  };
  Registered registered(backend);
  Tensor x = tensor(std::vector<float>{0, 1}, std::nullopt, "vague");
  Tensor bad = x.exp();
  Tensor good = x + 1.0f;
  EXPECT_CODE(mark_step(), ErrorCode::kDevice, "something is wrong");
  EXPECT_TENSOR_EQ(good, {1, 2}, {2});
  EXPECT_CODE(bad.host(), ErrorCode::kDevice, "something is wrong");
  int executed = backend.executed;
  EXPECT_CODE(bad.host(), ErrorCode::kDevice, "something is wrong");
  EXPECT_EQ(backend.executed, executed) << "alone, it is known to fail";
  wait_device_ops();
}

// ---- Donation

/// The masks of the executions that `fn` causes.
template <class F>
std::vector<std::vector<bool>> MasksOf(HostBackend& backend, F fn) {
  size_t before = backend.donations().size();
  fn();
  wait_device_ops();
  auto all = backend.donations();
  return {all.begin() + static_cast<long>(before), all.end()};
}

int Donated(const std::vector<std::vector<bool>>& masks) {
  int count = 0;
  for (const auto& mask : masks) count += static_cast<int>(std::count(mask.begin(), mask.end(), 1));
  return count;
}

class Donation : public Runtime {
 protected:
  static void SetUpTestSuite() {
    backend = &Make("donor");
    lazy::RegisterBackend(backend);
  }
  static void TearDownTestSuite() { lazy::UnregisterBackend("donor", true); }
  static Tensor Ready(std::initializer_list<float> values) {
    Tensor result = tensor(std::vector<float>(values), std::nullopt, "donor") + 0.0f;
    sync_multi({result});
    return result;
  }
  static HostBackend* backend;
};
HostBackend* Donation::backend = nullptr;

TEST_F(Donation, OfInputsThatDieWithTheStep) {
  Tensor w = Ready({1, 2});
  auto masks = MasksOf(*backend, [&] {
    w = w + 1.0f;
    mark_step();
  });
  EXPECT_EQ(Donated(masks), 1);
  EXPECT_TENSOR_EQ(w, {2, 3}, {2});
}

TEST_F(Donation, NeverOfInputsThatSomebodyHolds) {
  Tensor w = Ready({1, 2});
  Tensor old = w;
  Tensor u = Ready({3, 4});
  Tensor uses_u = u * 5.0f;  // pending on another thread's list: not part of the step
  auto masks = MasksOf(*backend, [&] {
    w = w + 1.0f;
    mark_step();
  });
  EXPECT_EQ(Donated(masks), 0);
  EXPECT_TENSOR_EQ(old, {1, 2}, {2});
}

TEST_F(Donation, NeverOfWhatAPendingOpStillNeeds) {
  Tensor w = Ready({1, 2});
  Tensor later;
  std::thread([&] { later = w * 3.0f; }).join();  // another thread's
  auto masks = MasksOf(*backend, [&] {
    w = w + 1.0f;
    mark_step();
  });
  EXPECT_EQ(Donated(masks), 0);
  EXPECT_TENSOR_EQ(later, {3, 6}, {2});
  EXPECT_TENSOR_EQ(w, {2, 3}, {2});
}

TEST_F(Donation, OnlyAtFullSteps) {
  Tensor w = Ready({1, 2});
  auto masks = MasksOf(*backend, [&] {
    w = w + 1.0f;
    w.host();
    w = w + 1.0f;
    sync_multi({w});
    Lazy().SyncLiveTensorsGraph(nullptr, {}, true);
  });
  EXPECT_EQ(Donated(masks), 0);
}

TEST_F(Donation, NeverOfAliasedData) {
  Tensor base = Ready({1, 2, 3, 4});
  Tensor view = base.slice(0, 1, 3);
  auto masks = MasksOf(*backend, [&] {
    base = base + 1.0f;  // the handle moves on, the view stays
    mark_step();
  });
  EXPECT_EQ(Donated(masks), 0);
  EXPECT_TENSOR_EQ(view, {2, 3}, {2});
}

TEST_F(Donation, OfTheOldValueOfAWrittenGroup) {
  Tensor base = Ready({1, 2, 3, 4});
  Tensor view = base.slice(0, 1, 3);
  mark_step();
  auto masks = MasksOf(*backend, [&] {
    view.add_(1.0f);
    mark_step();
  });
  EXPECT_TENSOR_EQ(base, {1, 3, 4, 4}, {4});
  EXPECT_TENSOR_EQ(view, {3, 4}, {2});
}

TEST_F(Donation, NeverOfScalars) {
  Tensor w = Ready({1, 2});
  for (int i = 0; i < 3; ++i) {
    auto masks = MasksOf(*backend, [&] {
      w = w * 0.5f + 0.5f;  // equal scalars share their data
      mark_step();
    });
    EXPECT_EQ(Donated(masks), 1);
  }
  EXPECT_TENSOR_NEAR(w, {1, 1.125}, {2});
}

TEST_F(Donation, IsSwitchedOffByConfig) {
  config::Override off("param_aliasing", "false");
  Tensor w = Ready({1, 2});
  auto masks = MasksOf(*backend, [&] {
    w = w + 1.0f;
    mark_step();
  });
  EXPECT_EQ(Donated(masks), 0);
}

TEST_F(Donation, ByNameGivesTheMemoryToTheLastOpThatNeedsIt) {
  Tensor w = Ready({1, 2});
  Tensor y = w + 1.0f;
  donate(w);
  auto masks = MasksOf(*backend, [&] { EXPECT_TENSOR_EQ(y, {2, 3}, {2}); });
  EXPECT_EQ(Donated(masks), 1);
}

TEST_F(Donation, ByNameWaitsForAllOpsThatNeedIt) {
  for (bool handle_dies : {false, true}) {
    Tensor w = Ready({1, 2});
    Tensor y = w + 1.0f;
    Tensor z = w + 2.0f;
    donate(w);
    if (handle_dies) w = Tensor();
    auto first = MasksOf(*backend, [&] { EXPECT_TENSOR_EQ(y, {2, 3}, {2}); });
    EXPECT_EQ(Donated(first), 0);
    auto second = MasksOf(*backend, [&] { EXPECT_TENSOR_EQ(z, {3, 4}, {2}); });
    EXPECT_EQ(Donated(second), 1);
  }
}

TEST_F(Donation, ByNameOfHostDataAndOfPendingValues) {
  Tensor host = tensor(std::vector<float>{1, 2}, std::nullopt, "donor");
  Tensor y = host + 1.0f;
  donate(host);
  EXPECT_TENSOR_EQ(y, {2, 3}, {2});
  Tensor pending = y * 2.0f;
  Tensor z = pending + 1.0f;
  donate(pending);
  EXPECT_TENSOR_EQ(z, {5, 7}, {2});
}

TEST_F(Donation, UseAfterDonateIsAnError) {
  Tensor w = Ready({1, 2});
  Tensor same = w;
  donate(w);
  EXPECT_CODE(w + 1.0f, ErrorCode::kUseAfterDonate, "donated");
  EXPECT_CODE(w.host(), ErrorCode::kUseAfterDonate, "f32[2]");
  EXPECT_CODE(same.host(), ErrorCode::kUseAfterDonate);
  EXPECT_CODE(w.view({1, 2}), ErrorCode::kUseAfterDonate);
  EXPECT_CODE(w.add_(1.0f), ErrorCode::kUseAfterDonate);
  EXPECT_CODE(donate(w), ErrorCode::kUseAfterDonate);
  EXPECT_NE(w.summary().find("donated"), std::string::npos);
  EXPECT_EQ(w.sizes(), Dims({2}));
  mark_step();
  w = Ready({5});
  EXPECT_TENSOR_EQ(w, {5}, {1});
}

TEST_F(Donation, ByNameOfAliasesIsRefused) {
  Tensor w = Ready({1, 2});
  Tensor v = w.view({2, 1});
  EXPECT_CODE(donate(w), ErrorCode::kValue, "views");
  EXPECT_CODE(donate(v), ErrorCode::kValue, "views");
  EXPECT_TENSOR_EQ(v, {1, 2}, {2, 1});
  Tensor none;
  EXPECT_CODE(donate(none), ErrorCode::kUninitializedTensor);
}

TEST_F(Donation, IsUndoneByAFailure) {
  Tensor w = Ready({1, 2});
  bool fail = true;
  backend->before_execute = [&](const lazy::Computation&) {
    if (fail) throw DeviceError(ErrorCode::kDevice, "not now");
  };
  w = w + 1.0f;
  EXPECT_CODE(mark_step(), ErrorCode::kDevice, "not now");
  fail = false;
  Lazy().ClearErrors(w);
  EXPECT_TENSOR_EQ(w, {2, 3}, {2});
  backend->before_execute = nullptr;
}

// ---- Transfers

TEST_F(Backends, UploadsAreBatched) {
  HostBackend& backend = Make("batched");
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

  HostBackend& other = Make("loader");
  EXPECT_EQ(other.CheckCompatibility(bytes, other.GetBackendDevice(0)),
            lazy::Compatibility::kRecompile)
      << "made by another backend, but its graph can be compiled";
  EXPECT_EQ(other.DeserializeComputation(bytes, other.GetBackendDevice(0))->graph(), graph);
  for (size_t cut : {size_t{0}, size_t{3}, bytes.size() / 2, bytes.size() - 1}) {
    std::string damaged = bytes.substr(0, cut);
    EXPECT_EQ(backend->CheckCompatibility(damaged, device), lazy::Compatibility::kUnsupported);
    EXPECT_CODE(backend->DeserializeComputation(damaged, device), ErrorCode::kParse);
  }
  for (size_t i = 0; i < bytes.size(); i += 7) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x55);
    try {
      backend->DeserializeComputation(damaged, device);  // the fingerprint is not the graph
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kParse) << error.what();
    }
  }
  EXPECT_CODE(backend->SerializeComputation(nullptr), ErrorCode::kValue, "null");
}

TEST_F(Backends, DataOfOthersIsRefused) {
  HostBackend& backend = Make("foreign");
  Registered registered(backend);
  HostTensor host = HostTensor::From(std::vector<float>{1}, {1});
  auto data =
      backend.MakeComputationDataFromTensor(host, host.shape(), backend.GetBackendDevice(0));
  EXPECT_CODE(lazy::getBackend("reference")->MakeTensorFromComputationData(data, std::nullopt),
              ErrorCode::kForeignTensor, "foreign");
}

TEST_F(Backends, LiftedScalarsGoWithAnyDevice) {
  HostBackend& backend = Make("lifter");
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
