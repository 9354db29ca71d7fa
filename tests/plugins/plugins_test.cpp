// Plug-ins as devices: loading, results, options, metrics, memory, saved computations.

#include "hammock/plugins.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <future>
#include <thread>

#include "distributed/ranks.h"
#include "hammock/distributed.h"
#include "hammock/hammock.h"
#include "hammock/jit/to_backend.h"
#include "hammock/lazy/plugin_adaptor.h"
#include "plugins/hostile_plugin.h"
#include "plugins/profile_kernels.h"
#include "plugins/status.h"
#include "runtime/runtime.h"
#include "runtime/step/exit_run.h"

namespace hammock {
namespace {

using namespace hammock::testing;

/// Loads a plug-in for the time of a test.
class Loaded {
 public:
  explicit Loaded(const std::string& path) : plugin_(plugins::Load(path)) {}
  Loaded(const HammockPlugin* (*entry)(const HammockHost*), const char* source)
      : plugin_(plugins::Register(entry, source)) {}
  ~Loaded() { lazy::UnregisterBackend(plugin_.name, true); }
  const plugins::Plugin& operator*() const { return plugin_; }

 private:
  plugins::Plugin plugin_;
};

double NumberOf(const std::string& backend, const std::string& name) {
  return lazy::getBackend(backend)->GetMetrics().at(name);
}

TEST(CPlugin, RunsWhatItCanAndLeavesTheRest) {
  Loaded plugin(HAMMOCK_C_PLUGIN);
  EXPECT_EQ((*plugin).name, "cdev");
  EXPECT_EQ((*plugin).version, "1.0");
  {
    Tensor x = tensor(std::vector<float>{1, -2, 3}, std::nullopt, "cdev");
    Tensor y = maximum(x * 2.0f + 1.0f, -x);
    EXPECT_TENSOR_EQ(y, {3, 2, 7}, {3});
    EXPECT_TENSOR_EQ(exp(x * 0.0f) + sum(x), {3, 3, 3}, {3});  // exp and sum fall back
    EXPECT_GT(CounterOf("cdev::Runs"), 1);
    EXPECT_GT(NumberOf("cdev", "live_values"), 0);
  }
  wait_device_ops();
}

TEST(CPlugin, GetsEachHandleBackOnce) {
  Loaded plugin(HAMMOCK_C_PLUGIN);
  const double before = NumberOf("cdev", "live_values");
  {
    Tensor x = tensor(std::vector<float>{1, 2}, std::nullopt, "cdev");
    for (int i = 0; i < 20; ++i) {
      x = x * 3.0f + x;
      mark_step();
    }
    EXPECT_TENSOR_EQ(x * 0.0f, {0, 0}, {2});
  }
  wait_device_ops();
  EXPECT_LE(NumberOf("cdev", "live_values"), before + 3);  // scalars that are kept
}

TEST(CPlugin, ItsOptionChangesCode) {
  Loaded plugin(HAMMOCK_C_PLUGIN);
  Tensor x = tensor(std::vector<float>{2, 5}, std::nullopt, "cdev");
  EXPECT_TENSOR_EQ(x * x, {4, 25}, {2});
  const int64_t fallbacks = CounterOf("fallback::mul");
  {
    config::Override refuse("cdev.refuse_mul", "true");
    EXPECT_TENSOR_EQ(x * x, {4, 25}, {2});
  }
  EXPECT_EQ(CounterOf("fallback::mul"), fallbacks + 1);
  EXPECT_TENSOR_EQ(x * x, {4, 25}, {2});
  EXPECT_EQ(CounterOf("fallback::mul"), fallbacks + 1);
}

TEST(CPlugin, ItsErrorsNameTheOpAndTheLine) {
  Loaded plugin(HAMMOCK_C_PLUGIN);
  Tensor x = zeros({1000}, f32, "cdev");
  mark_step(true);
  Device device("cdev");
  SetMemoryLimit(device, GetMemoryInfo(device).in_use + 1000);
  Tensor big = x * x;
  int line = __LINE__ - 1;
  EXPECT_CODE(big.host(), ErrorCode::kOutOfMemory, Line(line));
  SetMemoryLimit(device, 0);
  LazyGraphExecutor::Get()->ClearErrors(big);
  EXPECT_EQ(big.to_vector<float>()[5], 0.0f);
}

TEST(CPlugin, SavesItsGraphs) {
  Loaded plugin(HAMMOCK_C_PLUGIN);
  auto& backend = *lazy::getBackend("cdev");
  lazy::BackendDevice device = backend.GetBackendDevice(0);
  auto computation = std::make_shared<lazy::Computation>(
      "negate", ParseGraph("%0 = input : f32[3]\n%1 = neg %0 : f32[3]\nreturn %1"), device);
  std::string bytes = backend.SerializeComputation(backend.Compile({computation})[0]);
  EXPECT_EQ(backend.CheckCompatibility(bytes, device), lazy::Compatibility::kOptimal);
  lazy::ComputationPtr loaded = backend.DeserializeComputation(bytes, device);
  EXPECT_EQ(backend.GetComputationBackendText(loaded), "r1 = - r0 r-1\n");
  EXPECT_EQ(backend.DescribeDevice(device).at(2).name, "matmul");
  EXPECT_TRUE(backend.DescribeDevice(device).at(2).missing);
}

// ---- Profiles

TEST(CPlugin, ItsKernelsAreInProfiles) {
  Loaded plugin(HAMMOCK_C_PLUGIN);
  const auto kernels = KernelsIn([] {
    Tensor x = tensor(std::vector<float>{1, 2, 3}, std::nullopt, "cdev");
    maximum(x * x, -x).host();
  });
  ASSERT_TRUE(kernels.contains("c_mul") && kernels.contains("c_neg"));
  EXPECT_TRUE(kernels.contains("c_maximum"));
  EXPECT_NE(kernels.at("c_mul"), kernels.at("c_neg"));
}

void RunOnCpu(const char* device) {
  Tensor x = from_host(HostTensor(Shape(f32, {40, 40})), device);
  sum(matmul(x, x) * 2.0f + x, {1}).host();
}

const HammockPlugin* AdaptCpu(const HammockHost* host) {
  return plugins::Adapt(
      "adapted-cpu", "1.0", [] { return lazy::getBackend("cpu"); }, host);
}

TEST(Adaptor, KernelsAreInProfiles) {
  Loaded plugin(AdaptCpu, "test");
  const auto direct = KernelsIn([] { RunOnCpu("cpu"); });
  EXPECT_FALSE(direct.empty());
  EXPECT_EQ(KernelsIn([] { RunOnCpu("adapted-cpu"); }), direct);
}

/// Its copy of the library writes no profile.
TEST(Adaptor, KernelsOfAnotherCopyOfTheLibraryAreInProfiles) {
  Loaded plugin(HAMMOCK_CPU_PLUGIN);
  const auto direct = KernelsIn([] { RunOnCpu("cpu"); });
  EXPECT_EQ(KernelsIn([] { RunOnCpu("cpu-plugin"); }), direct);
}

struct Doubled : Module {
  Doubled() : Module("Doubled") {
    weight = register_parameter("weight", tensor(std::vector<float>{1, 2, 3}));
    define("forward(Tensor x) -> Tensor", &Doubled::forward);
    define("sorted(Tensor x) -> Tensor", &Doubled::sorted);
  }
  Tensor forward(const Tensor& x) { return maximum(x * weight, x + x); }
  Tensor sorted(const Tensor& x) { return std::get<0>(sort(x, 0)); }
  Tensor weight;
};

TEST(CPlugin, IsADelegate) {
  Loaded plugin(HAMMOCK_C_PLUGIN);
  Doubled module;
  Tensor x = tensor(std::vector<float>{-1, 1, 2});
  module.trace("forward", {x});
  module.trace("sorted", {x});
  ModulePtr lowered = jit::to_backend("cdev", module, {{"forward", AnyDict()}});
  const int64_t runs = CounterOf("cdev::Runs");
  EXPECT_TENSOR_EQ((*lowered)(x), {-1, 2, 6}, {3});
  EXPECT_EQ(CounterOf("cdev::Runs"), runs + 1);
  EXPECT_CODE(jit::to_backend("cdev", module, {{"sorted", AnyDict()}}), ErrorCode::kExecute,
              "sort is not supported");
}

TEST(CPlugin, NamesThatAreTakenAreRefused) {
  Loaded plugin(HAMMOCK_C_PLUGIN);
  EXPECT_CODE(plugins::Load(HAMMOCK_C_PLUGIN), ErrorCode::kDuplicateRegistration, "cdev");
}

// ---- A plug-in in C whose runs return before they are done

TEST(AsynchronousCPlugin, ResultsComeInOrder) {
  Loaded plugin(HAMMOCK_ASYNC_PLUGIN);
  {
    Tensor x = tensor(std::vector<float>{1, 2}, std::nullopt, "cqueue");
    Tensor y = x;
    for (int i = 0; i < 20; ++i) {
      y = y * 2.0f + x;
      mark_step();
    }
    const float last = 2 * (1 << 20) - 1;
    EXPECT_TENSOR_EQ(y, {last, 2 * last}, {2});
  }
  wait_device_ops();
  EXPECT_LE(NumberOf("cqueue", "live_values"), 3);  // scalars that are kept
}

TEST(AsynchronousCPlugin, ALackOfMemoryKeepsItsClassAndReachesWhatDependsOnIt) {
  Loaded plugin(HAMMOCK_ASYNC_PLUGIN);
  Device device("cqueue");
  Tensor x = tensor(std::vector<float>(1000, 1.0f), std::nullopt, device);
  Tensor few = tensor(std::vector<float>{1}, std::nullopt, device);
  mark_step(true);
  SetMemoryLimit(device, GetMemoryInfo(device).in_use + 1000);
  Tensor big = x * x;
  EXPECT_THROW(big.host(), OutOfMemory);
  Tensor after = big + x;
  EXPECT_THROW(after.host(), Error);
  EXPECT_TENSOR_EQ(few + few, {2}, {1});
  SetMemoryLimit(device, 0);
}

TEST(Plugins, AreRefusedByPath) {
  EXPECT_CODE(plugins::Load("/no/such.so"), ErrorCode::kValue, "/no/such.so");
  EXPECT_CODE(plugins::Load("libm.so.6"), ErrorCode::kValue, "exports no function");
}

// ---- C++ backends as plug-ins

const HammockPlugin* AdaptReference(const HammockHost* host) {
  return plugins::Adapt(
      "adapted", "1.0", [] { return lazy::getBackend("reference"); }, host);
}

TEST(Adaptor, GivesTheBitsOfTheBackend) {
  Loaded plugin(AdaptReference, "test");
  auto program = [](const char* device) {
    Tensor x = arange(24, f32, device).reshape({4, 6}) / 7.0f - 1.5f;
    Tensor w = randn({6, 5}, f32, device);
    Tensor y = softmax(matmul(x, w), 1);
    auto [values, indices] = sort(y, 1);
    return std::vector<HostTensor>{y.host(), values.host(), indices.host(), cumsum(x, 0).host(),
                                   (x > 0.0f).host()};
  };
  manual_seed(3);
  std::vector<HostTensor> direct = program("reference");
  manual_seed(3);
  std::vector<HostTensor> crossed = program("adapted");
  for (size_t i = 0; i < direct.size(); ++i) EXPECT_TRUE(crossed[i].SameBits(direct[i])) << i;
}

TEST(Adaptor, ErrorsKeepTheirCodeNodeAndLine) {
  Loaded plugin(AdaptReference, "test");
  Tensor x = tensor(std::vector<float>{0, 1, 2}, std::nullopt, "adapted");
  Tensor at = tensor(std::vector<int64_t>{9}, std::nullopt, "adapted");
  Tensor good = x + 1.0f;
  Tensor bad = gather(x, 0, at);
  int line = __LINE__ - 1;
  mark_step();
  EXPECT_TENSOR_EQ(good, {1, 2, 3}, {3});
  EXPECT_CODE(bad.host(), ErrorCode::kIndexOutOfRange, Line(line));
}

TEST(Adaptor, GeneralComputationsServeOtherSizes) {
  Loaded plugin(AdaptReference, "test");
  EXPECT_TRUE(lazy::getBackend("adapted")->SupportsDimParams(
      lazy::getBackend("adapted")->GetBackendDevice(0)));
  for (int n : {4, 5, 6, 7, 8, 9}) {
    Tensor x = ones({n, 3}, f32, "adapted");
    EXPECT_EQ(sum(x * 2.0f).item<float>(), 6.0f * static_cast<float>(n));
  }
}

TEST(Adaptor, AStepThatTakesLongIsCancelledAtExit) {
  for (const char* work : {"long", "long_read"}) {
    // Without LLVM the plug-in warns that it interprets kernels.
    CheckExit(HAMMOCK_EXIT_CHILD, work, "return", 1000000,
              {"HAMMOCK_PLUGINS=" HAMMOCK_CPU_PLUGIN, "HAMMOCK_DEVICE=cpu-plugin",
               "HAMMOCK_LOG_LEVEL=error"});
  }
}

TEST(Adaptor, DescribesItself) {
  Loaded plugin(AdaptReference, "test");
  auto& backend = *lazy::getBackend("adapted");
  EXPECT_EQ(backend.DescribeDevice(backend.GetBackendDevice(0))[0].name, "plug-in");
  EXPECT_TRUE(backend.GetMetrics().contains("nodes_run"));
  EXPECT_NE(metrics::Report().find("Memory of adapted0"), std::string::npos);
}

HostBackend* later = nullptr;
const HammockPlugin* AdaptLater(const HammockHost* host) {
  return plugins::Adapt(
      "later-plug", "1.0", []() -> lazy::BackendImplInterface* { return later; }, host);
}

void RunOnRanks(const std::vector<std::string>& program, const std::string& says = "",
                const std::string& plugin = HAMMOCK_REFERENCE_PLUGIN,
                const std::string& device = "plain") {
  if (std::string why = WhyNoEngine(); !why.empty()) GTEST_SKIP() << why;
  std::vector<std::string> command = {"/usr/bin/env", "HAMMOCK_PLUGINS=" + plugin,
                                      "HAMMOCK_DEVICE=" + device};
  command.insert(command.end(), program.begin(), program.end());
  for (const ChildResult& result : RunRanks(2, command, 60000)) {
    EXPECT_TRUE(Succeeded(result));
    EXPECT_NE(result.output.find(says), std::string::npos) << result.output;
  }
}

TEST(Adaptor, RunsCollectives) { RunOnRanks({HAMMOCK_DISTRIBUTED_CHILD, "collectives"}); }
TEST(Adaptor, OtherRanksHearOfAFailedRun) { RunOnRanks({HAMMOCK_DISTRIBUTED_CHILD, "throws"}); }

/// They go through the host, in the order of the step.
TEST(CPlugin, CollectivesThatItRefusesRunOnTheFallbackDevice) {
  for (const char* scenario :
       {"collectives", "gradients", "order", "loops", "training", "throws"}) {
    SCOPED_TRACE(scenario);
    RunOnRanks({HAMMOCK_DISTRIBUTED_CHILD, scenario}, "runs on reference:0 instead of cdev:0",
               HAMMOCK_C_PLUGIN, "cdev");
  }
}

/// This program has the library in itself: the plug-in brings a copy, which knows of no ranks.
void RunThisOnRanks(const char* test) {
  RunOnRanks({std::filesystem::read_symlink("/proc/self/exe"), "--gtest_also_run_disabled_tests",
              std::string("--gtest_filter=Rank.DISABLED_") + test},
             "[ RUN      ]");
}

TEST(Adaptor, CollectivesGoThroughTheProgram) { RunThisOnRanks("ExchangesData"); }
TEST(Rank, DISABLED_ExchangesData) {
  const distributed::Group world = distributed::init();
  const auto own = static_cast<float>(world.rank() + 1);
  EXPECT_TENSOR_EQ(distributed::all_reduce(full({2}, own)), {3, 3}, {2});
  EXPECT_TENSOR_EQ(distributed::all_gather(full({1}, own)), {1, 2}, {2});
}

TEST(Adaptor, ErrorsOfCollectivesKeepTheirClass) { RunThisOnRanks("HearsOfAFailedRun"); }
TEST(Rank, DISABLED_HearsOfAFailedRun) {
  const distributed::Group world = distributed::init();
  const bool fails = world.rank() == 1;
  Tensor x = index_select(ones({4}), 0, full({1}, Scalar(int64_t{fails ? 9 : 1}), i64));
  Tensor sum = distributed::all_reduce(x);
  if (fails) {
    EXPECT_CODE(sum.host(), ErrorCode::kIndexOutOfRange, "index_select");
  } else {
    EXPECT_THROW(sum.host(), distributed::RankError);
  }
  std::_Exit(::testing::Test::HasFailure());  // no rank waits for the other one
}

/// Other ranks would not know of it.
TEST(Host, RefusesCollectivesOfOtherThreads) { RunThisOnRanks("CallsOnAnotherThread"); }
TEST(Rank, DISABLED_CallsOnAnotherThread) {
  distributed::init();
  Loaded plugin(Adapted, "rogue.so");
  const int64_t sizes[] = {1};
  const float in = 1;
  float out = 0;
  const HammockCollective call = {
      sizeof(call), 0,   "all_reduce", "world", 2, "sum", 0, 0, nullptr, {HAMMOCK_F32, 1, sizes},
      &in,          &out};
  std::thread([&] {
    plugins::ErrorText error;
    EXPECT_NE(host->collective(host->context, &call, error.c()), HAMMOCK_OK);
    EXPECT_NE(error.text().find("outside of the steps"), std::string::npos) << error.text();
  }).join();
  EXPECT_EQ(out, 0.0f);
  EXPECT_TENSOR_EQ(distributed::all_reduce(ones({2})), {2, 2}, {2});
}

/// An asynchronous backend; never destroyed, as adapted ones live for ever.
HostBackend& NewLater() { return *(later = new HostBackend("later", 1, true)); }

TEST(AsynchronousPlugin, ResultsBecomeReadyLater) {
  HostBackend& backend = NewLater();
  Loaded plugin(AdaptLater, "test");
  Tensor x = tensor(std::vector<float>{1, 2}, std::nullopt, "later-plug");
  backend.Hold();
  Tensor y = x + 1.0f;
  mark_step();  // returns at once
  Tensor z = y * 2.0f;
  mark_step();
  EXPECT_EQ(backend.executed, 2);
  std::jthread releaser([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    backend.Release();
  });
  EXPECT_TENSOR_EQ(z, {4, 6}, {2});
  EXPECT_TENSOR_EQ(y, {2, 3}, {2});
}

TEST(AsynchronousPlugin, ErrorsBelongToTheirValues) {
  HostBackend& backend = NewLater();
  Loaded plugin(AdaptLater, "test");
  Tensor x = tensor(std::vector<float>{0, 1, 2, 3}, std::nullopt, "later-plug");
  Tensor i = tensor(std::vector<int64_t>{9}, std::nullopt, "later-plug");
  backend.Hold();
  Tensor bad = gather(x, 0, i);
  int line = __LINE__ - 1;
  Tensor good = x + 1.0f;
  mark_step();
  backend.Release();
  EXPECT_CODE(wait_device_ops(), ErrorCode::kIndexOutOfRange, "gather");
  EXPECT_TENSOR_EQ(good, {1, 2, 3, 4}, {4});
  EXPECT_CODE(bad.host(), ErrorCode::kIndexOutOfRange, Line(line));
}

TEST(AsynchronousPlugin, DonationIsPassedOn) {
  HostBackend& backend = NewLater();
  Loaded plugin(AdaptLater, "test");
  Tensor x = ones({64}, f32, "later-plug") + 1.0f;
  mark_step(true);
  for (int i = 0; i < 3; ++i) {
    x += 1.0f;
    mark_step(true);
  }
  EXPECT_EQ(x.to_vector<float>()[7], 5.0f);
  bool any = false;
  for (const std::vector<bool>& mask : backend.donations()) {
    any |= std::ranges::count(mask, true) > 0;
  }
  EXPECT_TRUE(any);
}

// ---- Compilation behind the caller's back

/// The table of AdaptReference, whose code is compiled by a thread that begins when it is run.
struct BackgroundCompiler {
  static inline HammockPlugin original, table;

  struct Code {
    std::string graph, name;
    HammockCompilation request;
    std::promise<void> wanted;
    std::future<HammockCompiled> compiled;
  };

  static HammockStatus Compile(void* self, const HammockCompilation* request,
                               HammockCompiled* compiled, HammockError*) {
    auto* code = new Code{};
    code->graph.assign(static_cast<const char*>(request->graph.bytes), request->graph.size);
    code->name = request->name;
    code->request = *request;
    code->request.graph.bytes = code->graph.data();
    code->request.name = code->name.c_str();
    code->request.alias_count = code->request.derived_size_count = 0;
    code->compiled = std::async(std::launch::async, [self, code] {
      code->wanted.get_future().wait();
      HammockCompiled made = {};
      made.struct_size = sizeof(made);
      plugins::ErrorText error;
      original.compile(self, &code->request, &made, error.c());
      return made;
    });
    compiled->executable = reinterpret_cast<uintptr_t>(code);
    return HAMMOCK_OK;
  }
  static HammockStatus Execute(void* self, const HammockExecution* call, HammockError* error) {
    auto* code = reinterpret_cast<Code*>(call->executable);
    code->wanted.set_value();
    HammockExecution run = *call;
    run.executable = code->compiled.get().executable;
    return original.execute(self, &run, error);
  }

  static const HammockPlugin* Table(const HammockHost* host) {
    original = table = *AdaptReference(host);
    table.properties &= ~uint32_t{HAMMOCK_DIM_PARAMS};
    table.compile = Compile;
    table.execute = Execute;
    table.release_executable = [](void*, HammockExecutable) {};
    return &table;
  }
};

TEST(AsynchronousPlugin, CompilationsMayEndLater) {
  Loaded plugin(BackgroundCompiler::Table, "test");
  Tensor x = tensor(std::vector<float>{1, 2}, std::nullopt, "adapted");
  EXPECT_TENSOR_EQ(x * 3.0f, {3, 6}, {2});
}

}  // namespace
}  // namespace hammock
