// Plug-ins that break the rules: clear errors, and nothing is lost on other devices.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>
#include <new>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "hammock/hammock.h"
#include "hammock/jit/backend.h"
#include "hammock/lazy/plugin_adaptor.h"
#include "hammock/plugins.h"
#include "plugins/hostile_plugin.h"
#include "plugins/plugin_calls.h"
#include "plugins/status.h"
#include "runtime/runtime.h"
#include "support/sanitizers.h"

namespace hammock {
namespace {

using namespace hammock::testing;

TEST_F(HostilePlugin, TheUnspoiltTableWorks) {
  Register();
  EXPECT_EQ(sum(ones({3}, f32, "rogue") * 2.0f).item<float>(), 6.0f);
}

TEST_F(HostilePlugin, NullTablesAreRefused) {
  EXPECT_CODE(plugins::Register(nullptr, "x.so"), ErrorCode::kValue, "x.so");
  auto none = [](const HammockHost*) -> const HammockPlugin* { return nullptr; };
  EXPECT_CODE(plugins::Register(none, "x.so"), ErrorCode::kValue, "gave no table");
  auto throws = [](const HammockHost*) -> const HammockPlugin* { throw 7; };
  EXPECT_CODE(plugins::Register(throws, "x.so"), ErrorCode::kValue, "threw");
}

TEST_F(HostilePlugin, OtherVersionsAreRefusedWithBoth) {
  table.version_major = 2;
  table.version_minor = 5;
  EXPECT_CODE(Register(), ErrorCode::kAbiMismatch, "version 2.5");
  EXPECT_CODE(Register(), ErrorCode::kAbiMismatch, "version 1.3");
}

TEST_F(HostilePlugin, WrongSizesAreRefused) {
  table.struct_size = 16;
  EXPECT_CODE(Register(), ErrorCode::kAbiMismatch, "16 bytes");
  table.struct_size = 0xffffffff;
  EXPECT_CODE(Register(), ErrorCode::kAbiMismatch, "4294967295 bytes");
}

TEST_F(HostilePlugin, MissingFunctionsAreNamed) {
  table.upload = nullptr;
  table.execute = nullptr;
  EXPECT_CODE(Register(), ErrorCode::kValue, "lacks upload, execute");
  table.name = nullptr;
  EXPECT_CODE(Register(), ErrorCode::kValue, "name");
}

TEST_F(HostilePlugin, NamesOfDevicesAreChecked) {
  table.name = "ro:gue";
  EXPECT_CODE(Register(), ErrorCode::kValue, "ro:gue");
}

TEST_F(HostilePlugin, OptionsAreChecked) {
  static const HammockOptionSpec foreign = {
      sizeof(HammockOptionSpec), HAMMOCK_OPTION_INT, "device", "0", "", 0, 0, 0, nullptr};
  static const HammockOptionSpec* const options[] = {&foreign, nullptr};
  table.option_count = 1;
  table.options = options;
  EXPECT_CODE(Register(), ErrorCode::kValue, "does not begin with 'rogue.'");
  table.option_count = 2;
  table.options = options + 1;
  EXPECT_CODE(Register(), ErrorCode::kValue, "null");
  table.options = nullptr;
  EXPECT_CODE(Register(), ErrorCode::kValue, "null");
}

TEST_F(HostilePlugin, FailingInitialisationRegistersNothing) {
  table.initialize = [](void*, HammockError* error) -> HammockStatus {
    return hammock_fail(error, HAMMOCK_DEVICE_ERROR, "no such hardware");
  };
  EXPECT_CODE(Register(), ErrorCode::kDevice, "no such hardware");
  EXPECT_EQ(std::ranges::count(lazy::BackendNames(), "rogue"), 0);
  table.initialize = nullptr;
  Register();
}

TEST_F(HostilePlugin, PartsOfADelegateOfThatNameRegisterNothing) {
  table.name = "half_taken";
  jit::backend_preprocess_register("half_taken", [](auto&&...) { return Any(); });
  EXPECT_CODE(Register(), ErrorCode::kDuplicateRegistration, "half_taken");
  EXPECT_EQ(std::ranges::count(lazy::BackendNames(), "half_taken"), 0);
}

TEST_F(HostilePlugin, InventedDeviceCountsAreRefused) {
  table.device_count = [](void*, int64_t* count, HammockError*) -> HammockStatus {
    *count = -3;
    return HAMMOCK_OK;
  };
  EXPECT_CODE(Register(), ErrorCode::kInternal, "-3");
}

TEST_F(HostilePlugin, ExceptionsBecomeErrors) {
  table.upload = [](void*, int64_t, uint64_t, const HammockHostTensor*, HammockData*,
                    HammockError*) -> HammockStatus { throw std::runtime_error("thrown in C"); };
  Register();
  EXPECT_CODE(
      (ones({3}, f32, "rogue") * tensor(std::vector<float>{1, 2, 3}, std::nullopt, "rogue")).host(),
      ErrorCode::kTransfer, "thrown in C");
}

TEST_F(HostilePlugin, UnknownStatusesAndEmptyTextsAreErrors) {
  table.execute = [](void*, const HammockExecution*, HammockError*) -> HammockStatus { return 77; };
  Register();
  EXPECT_CODE((ones({3}, f32, "rogue") * 2.0f).host(), ErrorCode::kInternal, "unknown status 77");
  EXPECT_CODE((ones({3}, f32, "rogue") * 2.0f).host(), ErrorCode::kInternal, "`execute` of rogue");
}

TEST_F(HostilePlugin, NodesOutsideOfTheGraphAreIgnored) {
  table.execute = [](void*, const HammockExecution*, HammockError* error) -> HammockStatus {
    return hammock_fail_at(error, HAMMOCK_EXECUTE_ERROR, 123456, "somewhere");
  };
  Register();
  EXPECT_CODE((ones({3}, f32, "rogue") * 2.0f).host(), ErrorCode::kExecute, "somewhere");
}

TEST_F(HostilePlugin, MissingResultsAreErrors) {
  table.execute = [](void*, const HammockExecution*, HammockError*) -> HammockStatus {
    return HAMMOCK_OK;
  };
  Register();
  EXPECT_CODE((ones({3}, f32, "rogue") * 2.0f).host(), ErrorCode::kInternal, "gave no data");
}

TEST_F(HostilePlugin, MissingExecutablesAreErrors) {
  table.compile = [](void*, const HammockCompilation*, HammockCompiled*,
                     HammockError*) -> HammockStatus { return HAMMOCK_OK; };
  Register();
  EXPECT_CODE((ones({3}, f32, "rogue") * 2.0f).host(), ErrorCode::kInternal, "gave no executable");
}

TEST_F(HostilePlugin, AnswersAboutNoNodeAreRefused) {
  static std::atomic<int> refused{0};
  table.capabilities = [](void*, int64_t, HammockBytes, HammockAnswers answers,
                          HammockError*) -> HammockStatus {
    refused += answers.answer(answers.context, 1 << 20, HAMMOCK_RUN, nullptr) != HAMMOCK_OK;
    refused += answers.answer(answers.context, -1, HAMMOCK_RUN, nullptr) != HAMMOCK_OK;
    refused += answers.answer(answers.context, 0, 99, nullptr) != HAMMOCK_OK;
    return HAMMOCK_OK;
  };
  Register();
  EXPECT_EQ((ones({3}, f32, "rogue") * 2.0f).to_vector<float>()[0], 2.0f);
  EXPECT_GE(refused, 3);
}

TEST_F(HostilePlugin, StaleAndInventedHandlesAreAnswered) {
  Register();
  for (uint64_t handle : {0ull, 1ull, 0xffffffffffffffffull, 0x0100000100000000ull}) {
    EXPECT_EQ(host->buffer_retain(host->context, handle), HAMMOCK_STALE_HANDLE);
    EXPECT_EQ(host->buffer_release(host->context, handle), HAMMOCK_STALE_HANDLE);
    EXPECT_EQ(host->event_set(host->context, handle, HAMMOCK_OK, -1, nullptr, nullptr),
              HAMMOCK_STALE_HANDLE);
    EXPECT_EQ(host->metric_add(host->context, handle, 1), HAMMOCK_STALE_HANDLE);
    int64_t value = 0;
    EXPECT_EQ(host->option_int(host->context, handle, &value), HAMMOCK_STALE_HANDLE);
    EXPECT_EQ(host->run_kernel(host->context, handle, 0, "k", 0, 1), HAMMOCK_STALE_HANDLE);
    if (handle) {
      EXPECT_EQ(host->span_end(host->context, handle), HAMMOCK_STALE_HANDLE);
    }
  }
  HammockMetric metric = 0;
  ASSERT_EQ(host->metric_declare(host->context, HAMMOCK_COUNTER, "rogue::Things", "", &metric),
            HAMMOCK_OK);
  EXPECT_EQ(host->option_find(host->context, "no such option", &metric), HAMMOCK_VALUE_ERROR);
  int64_t value = 0;
  EXPECT_EQ(host->option_int(host->context, metric, &value), HAMMOCK_STALE_HANDLE);
}

TEST_F(HostilePlugin, MetricsOfEveryKindAreListed) {
  Register();
  auto declare = [](uint32_t kind, const char* name) {
    HammockMetric metric = 0;
    EXPECT_EQ(host->metric_declare(host->context, kind, name, "A test's.", &metric), HAMMOCK_OK);
    for (double value : {3.0, 4.0}) {
      EXPECT_EQ(host->metric_add(host->context, metric, value), HAMMOCK_OK);
    }
  };
  declare(HAMMOCK_COUNTER, "rogue::Counted");
  declare(HAMMOCK_GAUGE, "rogue::Level");
  declare(HAMMOCK_VALUES, "rogue::Values");
  declare(HAMMOCK_SIZES, "rogue::Sizes");
  declare(HAMMOCK_TIMES, "rogue::Times");
  EXPECT_EQ(metrics::CounterValue("rogue::Counted"), 7);
  EXPECT_EQ(metrics::GaugeValue("rogue::Level"), 4);
  const std::pair<const char*, metrics::Kind> sampled[] = {{"rogue::Values", metrics::Kind::kValue},
                                                           {"rogue::Sizes", metrics::Kind::kBytes},
                                                           {"rogue::Times", metrics::Kind::kTime}};
  for (const auto& [name, kind] : sampled) {
    const auto data = metrics::MetricValue(name);
    ASSERT_TRUE(data) << name;
    EXPECT_EQ(data->kind, kind) << name;
    EXPECT_EQ(data->samples, 2) << name;
    EXPECT_EQ(data->total, 7) << name;
  }
  HammockMetric none = 0;
  EXPECT_EQ(host->metric_declare(host->context, HAMMOCK_TIMES + 1, "rogue::None", "", &none),
            HAMMOCK_VALUE_ERROR);
}

TEST_F(HostilePlugin, MetricsRefuseWhatTheyCannotHold) {
  Register();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  HammockMetric counter = 0, gauge = 0, values = 0;
  host->metric_declare(host->context, HAMMOCK_COUNTER, "rogue::Most", "", &counter);
  host->metric_declare(host->context, HAMMOCK_GAUGE, "rogue::Latest", "", &gauge);
  host->metric_declare(host->context, HAMMOCK_VALUES, "rogue::Norms", "", &values);
  for (double value : {std::nan(""), kInfinity, -kInfinity, 1e300, 0x1p63}) {
    EXPECT_EQ(host->metric_add(host->context, counter, value), HAMMOCK_VALUE_ERROR) << value;
    EXPECT_EQ(host->metric_add(host->context, gauge, value), HAMMOCK_VALUE_ERROR) << value;
    EXPECT_EQ(host->metric_add(host->context, values, value),
              std::isfinite(value) ? HAMMOCK_OK : HAMMOCK_VALUE_ERROR)
        << value;
  }
  EXPECT_EQ(metrics::CounterValue("rogue::Most"), 0);
  EXPECT_EQ(metrics::MetricValue("rogue::Norms")->samples, 2);
}

TEST_F(HostilePlugin, BuffersEndWithTheUploadUnlessRetained) {
  static HammockBuffer seen = 0;
  static HammockStatus (*upload)(void*, int64_t, uint64_t, const HammockHostTensor*, HammockData*,
                                 HammockError*) = nullptr;
  upload = table.upload;
  table.upload = [](void* self, int64_t device, uint64_t count, const HammockHostTensor* tensors,
                    HammockData* data, HammockError* error) -> HammockStatus {
    seen = tensors[0].buffer;
    EXPECT_EQ(host->buffer_retain(host->context, seen), HAMMOCK_OK);
    EXPECT_EQ(host->buffer_release(host->context, seen), HAMMOCK_OK);
    return upload(self, device, count, tensors, data, error);
  };
  Register();
  EXPECT_EQ((tensor(std::vector<float>{3}, std::nullopt, "rogue") * 2.0f).item<float>(), 6.0f);
  ASSERT_NE(seen, 0u);
  EXPECT_EQ(host->buffer_retain(host->context, seen), HAMMOCK_STALE_HANDLE);
}

/// The host gives each handle back once; one that does not harms nobody.
TEST_F(HostilePlugin, AnAdaptorAnswersStaleHandles) {
  HammockData stale = 12345, copy = 0;
  float element = 0;
  void* place = &element;
  HammockResult result = {};
  HammockExecution call = {};
  call.struct_size = sizeof(call);
  call.executable = 54321;
  call.result_count = 1;
  call.results = &result;
  HammockCompiled compiled = {};
  compiled.struct_size = sizeof(compiled);
  auto expect_stale = [](const char* what, HammockStatus status, const plugins::ErrorText& error) {
    EXPECT_EQ(status, HAMMOCK_INTERNAL_ERROR) << what;
    EXPECT_NE(error.text().find("stale handle"), std::string::npos) << what << error.text();
  };
  plugins::ErrorText errors[5];
  expect_stale("download", table.download(table.self, 1, &stale, &place, errors[0].c()), errors[0]);
  expect_stale("copy", table.copy(table.self, stale, 0, &copy, errors[1].c()), errors[1]);
  expect_stale("execute", table.execute(table.self, &call, errors[2].c()), errors[2]);
  call.argument_count = 1;
  call.arguments = &stale;
  expect_stale("arguments", table.execute(table.self, &call, errors[3].c()), errors[3]);
  expect_stale("instantiate",
               table.instantiate(table.self, 54321, 0, nullptr, &compiled, errors[4].c()),
               errors[4]);
  table.release(table.self, 1, &stale);
  table.release_executable(table.self, 54321);
  Register();
  EXPECT_EQ(sum(ones({3}, f32, "rogue") * 2.0f).item<float>(), 6.0f);
}

TEST_F(HostilePlugin, SpansEndOnTheirThread) {
  Register();
  const std::string path = ::testing::TempDir() + "/spans.json";
  profile::Start(path);
  HammockSpan span = 0;
  ASSERT_EQ(host->span_begin(host->context, "mine", &span), HAMMOCK_OK);
  ASSERT_NE(span, 0u);
  std::thread([&] { EXPECT_EQ(host->span_end(host->context, span), HAMMOCK_WRONG_THREAD); }).join();
  EXPECT_EQ(host->span_end(host->context, span), HAMMOCK_OK);
  EXPECT_EQ(host->span_end(host->context, span), HAMMOCK_STALE_HANDLE);
  profile::Stop();
  std::stringstream written;
  written << std::ifstream(path).rdbuf();
  EXPECT_NE(written.str().find("\"mine\""), std::string::npos) << written.str();
  EXPECT_EQ(host->span_begin(host->context, "none", &span), HAMMOCK_OK);
  EXPECT_EQ(span, 0u);
}

TEST_F(HostilePlugin, CollectivesAreChecked) {
  Register();
  const int64_t sizes[] = {2};
  const float in[] = {3, 4};
  float out[] = {0, 0};
  HammockCollective call = {};
  call.struct_size = sizeof(call);
  call.op = "all_reduce";
  call.group = "world";
  call.size = 1;
  call.reduction = "sum";
  call.shape = {HAMMOCK_F32, 1, sizes};
  call.in = in;
  call.out = out;
  auto run = [&] {
    plugins::ErrorText error;
    const HammockStatus status = host->collective(host->context, &call, error.c());
    return std::pair(status, error.text());
  };
  EXPECT_EQ(run().first, HAMMOCK_OK);
  EXPECT_EQ(out[1], 4.0f);
  call.size = 3;
  EXPECT_NE(run().second.find("recorded for 3 rank(s)"), std::string::npos);
  call.size = 1;
  call.reduction = "most";
  EXPECT_NE(run().second.find("'most' is no reduction"), std::string::npos);
  call.op = "add";
  EXPECT_NE(run().second.find("'add' is no collective"), std::string::npos);
  call.op = "_merged_collective";
  EXPECT_EQ(run().first, HAMMOCK_NOT_SUPPORTED);
  call.op = "all_reduce";
  call.reduction = "sum";
  call.shape.dtype = 99;
  EXPECT_NE(run().second.find("dtype 99"), std::string::npos);
  const int64_t negative[] = {-2};
  call.shape = {HAMMOCK_F32, 1, negative};
  EXPECT_NE(run().second.find("negative size"), std::string::npos);
  call.shape.sizes = nullptr;
  EXPECT_NE(run().second.find("are null"), std::string::npos);
  call.shape.sizes = sizes;
  call.out = nullptr;
  EXPECT_NE(run().second.find("are null"), std::string::npos);
  call.out = out;
  call.op = "collective_permute";
  call.pair_count = 1;
  EXPECT_NE(run().second.find("pairs are null"), std::string::npos);
  call.struct_size = 8;
  EXPECT_EQ(run().first, HAMMOCK_VALUE_ERROR);
  call = {sizeof(call), 0,  "all_reduce", "world", 1, "sum", 0, 0, nullptr, {HAMMOCK_F32, 1, sizes},
          in,           out};
  call.struct_size += 8;  // of a later version
  EXPECT_EQ(run().first, HAMMOCK_OK);
  plugins::ErrorText error;
  EXPECT_EQ(host->collective(host->context, nullptr, error.c()), HAMMOCK_VALUE_ERROR);
  EXPECT_EQ(host->collective(host->context, nullptr, nullptr), HAMMOCK_VALUE_ERROR);
}

// ---- Structs of other versions, and callbacks that fail

/// A struct whose first version ended with `first`.
struct Grown {
  uint32_t struct_size;
  uint32_t first;
  uint64_t later;
};

TEST(KnownPart, IsWhatBothSidesHave) {
  constexpr size_t kFirst = HAMMOCK_SIZE_UP_TO(Grown, first);
  Grown given = {kFirst, 5, 77};
  EXPECT_EQ(plugins::KnownPart(&given, kFirst)->first, 5u);
  EXPECT_EQ(plugins::KnownPart(&given, kFirst)->later, 0u);  // behind the end of the older struct
  given.struct_size = 4096;                                  // of a later version
  EXPECT_EQ(plugins::KnownPart(&given, kFirst)->later, 77u);
  given.struct_size = kFirst - 1;
  EXPECT_FALSE(plugins::KnownPart(&given, kFirst));
  EXPECT_FALSE(plugins::KnownPart<Grown>(nullptr, kFirst));
}

/// The structs of a plug-in that was built with a later header.
template <class T>
struct Later {
  T known;
  uint64_t new_fields[4] = {~0ull, ~0ull, ~0ull, ~0ull};
};

TEST_F(HostilePlugin, LongerStructsAreReadAsFarAsTheyAreKnown) {
  static Later<HammockOptionSpec> option = {
      {sizeof(option), HAMMOCK_OPTION_INT, "rogue.later", "3", "An option.", 0, 0, 0, nullptr}};
  static const HammockOptionSpec* const options[] = {&option.known};
  table.option_count = 1;
  table.options = options;
  table.describe_executable = [](void*, HammockExecutable, HammockDescription description) {
    static const int32_t nodes[] = {0};
    Later<HammockKernel> kernel = {
        {sizeof(kernel), 1, nodes, "later_kernel", "kernel", nullptr, 8, 2}};
    description.kernel(description.context, &kernel.known);
    kernel.known.struct_size = 8;  // shorter than that of any version
    description.kernel(description.context, &kernel.known);
  };
  Register();
  HammockOption found = 0;
  int64_t value = 0;
  ASSERT_EQ(host->option_find(host->context, "rogue.later", &found), HAMMOCK_OK);
  ASSERT_EQ(host->option_int(host->context, found, &value), HAMMOCK_OK);
  EXPECT_EQ(value, 3);
  const auto info = lazy::getBackend("rogue")->DescribeComputation(Compiled());
  ASSERT_EQ(info.kernels.size(), 1u);
  EXPECT_EQ(info.kernels[0].name, "later_kernel");
  EXPECT_EQ(info.kernels[0].bytes, 8);
}

TEST_F(HostilePlugin, OptionsOfNoVersionAreRefused) {
  static const HammockOptionSpec shorter = {
      sizeof(HammockOptionSpec) - 1, HAMMOCK_OPTION_INT, "rogue.x", "0", "", 0, 0, 0, nullptr};
  static const HammockOptionSpec* const options[] = {&shorter};
  table.option_count = 1;
  table.options = options;
  EXPECT_CODE(Register(), ErrorCode::kValue, "without a name or its size");
}

/// Writes more than there is memory for; whether an exception came out of it.
bool Throws(HammockWriter text) {
  try {
    text.write(text.context, "", uint64_t{1} << 63);
    return false;
  } catch (...) {
    return true;
  }
}

TEST_F(HostilePlugin, NoExceptionOfACallbackReachesThePlugin) {
  static std::atomic<int> thrown, calls;
  thrown = calls = 0;
  table.fingerprint = [](void*, int64_t, HammockWriter text, HammockError*) -> HammockStatus {
    ++calls, thrown += Throws(text);
    return HAMMOCK_OK;
  };
  table.executable_text = [](void*, HammockExecutable, HammockWriter text) {
    ++calls, thrown += Throws(text);
    text.write(text.context, "behind it", 9);
  };
  table.report = [](void*, HammockWriter text) { ++calls, thrown += Throws(text); };
  table.set_memory_limit = [](void*, int64_t, int64_t, HammockError* error) -> HammockStatus {
    ++calls, thrown += Throws(error->text);
    return hammock_fail(error, HAMMOCK_DEVICE_ERROR, "no limit");
  };
  Register();
  auto& backend = *lazy::getBackend("rogue");
  EXPECT_THROW(backend.Fingerprint(backend.GetBackendDevice(0)), std::length_error);
  EXPECT_EQ(backend.GetComputationBackendText(Compiled()), "");
  EXPECT_EQ(backend.CreateMetricReport(), "");
  EXPECT_CODE(SetMemoryLimit("rogue", 1), ErrorCode::kDevice, "no limit");
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(thrown, 0);
}

// ---- Calls that never return

TEST_F(HostilePlugin, AHangingRunLosesTheDevice) {
  table.execute = [](void*, const HammockExecution*, HammockError*) -> HammockStatus {
    Hang();
    return HAMMOCK_OK;
  };
  Register();
  config::Override timeout("plugin_timeout", kTimeout);
  Tensor x = ones({3}, f32, "rogue") * 2.0f;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_CODE(x.host(), ErrorCode::kDevice, "the device is lost: execute");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
  // Later calls do not reach the plug-in.
  EXPECT_CODE((ones({4}, f32, "rogue") * 3.0f).host(), ErrorCode::kDevice, "lost");
}

TEST_F(HostilePlugin, AHangingUploadLosesTheDevice) {
  table.upload = [](void*, int64_t, uint64_t, const HammockHostTensor*, HammockData*,
                    HammockError*) -> HammockStatus {
    Hang();
    return HAMMOCK_OK;
  };
  Register();
  config::Override timeout("plugin_timeout", kTimeout);
  Tensor x = tensor(std::vector<float>{1, 2}, std::nullopt, "rogue");
  EXPECT_CODE((x * x).host(), ErrorCode::kDevice, "the device is lost: upload");
}

TEST_F(HostilePlugin, ThereIsATimeoutByDefault) { EXPECT_GT(config::Get<plugins::kTimeout>(), 0); }

/// Calls of a function that was quick so far are made by the thread itself, which then stays there;
/// all others are told.
TEST_F(HostilePlugin, AQuickFunctionThatHangsLosesTheDevice) {
  static std::atomic<bool> hangs = false;
  static HammockStatus (*execute)(void*, const HammockExecution*, HammockError*) = nullptr;
  hangs = false;
  execute = table.execute;
  table.execute = [](void* self, const HammockExecution* call,
                     HammockError* error) -> HammockStatus {
    if (hangs) Hang();
    return execute(self, call, error);
  };
  Register();
  config::Override timeout("plugin_timeout", kTimeout);
  Tensor x = ones({3}, f32, "rogue");
  for (int i = 0; i < 100; ++i) (x * 2.0f).host();
  hangs = true;
  std::thread caller([x] {
    try {
      (x * 2.0f).host();
    } catch (const DeviceError&) {
    }
  });
  auto is_lost = [] {
    try {
      GetMemoryInfo("rogue");
      return false;
    } catch (const DeviceError&) {
      return true;
    }
  };
  for (int i = 0; i < 300 && !is_lost(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_CODE(GetMemoryInfo("rogue"), ErrorCode::kDevice, "the device is lost: execute");
  release_hang();
  caller.join();
}

TEST_F(HostilePlugin, WithoutATimeoutCallsGiveTheSame) {
  Register();
  config::Override timeout("plugin_timeout", "0");
  Tensor x = tensor(std::vector<float>{0, 1, 2}, std::nullopt, "rogue");
  EXPECT_TENSOR_EQ(cumsum(x * 2.0f, 0), {0, 2, 6}, {3});
  EXPECT_CODE(gather(x, 0, tensor(std::vector<int64_t>{9}, std::nullopt, "rogue")).host(),
              ErrorCode::kIndexOutOfRange, "gather");
}

TEST_F(HostilePlugin, ATimeoutMayBeLongerThanTheClockCounts) {
  Register();
  config::Override timeout("plugin_timeout", "9223372036854775807");
  Tensor x = tensor(std::vector<float>{0, 1, 2}, std::nullopt, "rogue");
  EXPECT_TENSOR_EQ(cumsum(x * 2.0f, 0), {0, 2, 6}, {3});
}

/// The threads that make calls for others do not live on in the child.
TEST_F(HostilePlugin, ChildrenOfAForkMakeCalls) {
  SKIP_IF_FORKS_CANNOT_START_THREADS();
  Register();
  const lazy::BackendImplInterface& backend = *lazy::getBackend("rogue");
  EXPECT_EQ(backend.GetBackendDevices().size(), 1u);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(backend.GetBackendDevices().size() == 1 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

/// A run that is refused before the plug-in is called leaves no result that never comes.
TEST_F(HostilePlugin, RefusedRunsOweNothing) {
  table.properties |= HAMMOCK_ASYNCHRONOUS;
  Register();
  auto& backend = static_cast<plugins::PluginBackend&>(*lazy::getBackend("rogue"));
  const lazy::BackendDevice device = backend.GetBackendDevice(0);
  auto computation = std::make_shared<lazy::Computation>(
      "negate", ParseGraph("%0 = input : f32[3]\n%1 = neg %0 : f32[3]\nreturn %1"), device);
  const HostTensor ones(Shape(f32, {3}));
  BackendDataPtr data = backend.MakeComputationDataFromTensor(ones, ones.shape(), device);
  EXPECT_CODE(backend.ExecuteComputation(computation, std::span(&data, 1), device, {}),
              ErrorCode::kValue, "was not compiled");
  const auto now = std::chrono::steady_clock::now();
  backend.LoseIfResultsAreLate(now, std::chrono::milliseconds(1));
  backend.LoseIfResultsAreLate(now + std::chrono::hours(1), std::chrono::milliseconds(1));
  GetMemoryInfo("rogue");
}

TEST_F(HostilePlugin, AResultThatNeverComesLosesTheDevice) {
  static HammockEvent forgotten = 0;
  static HammockStatus (*execute)(void*, const HammockExecution*, HammockError*) = nullptr;
  execute = table.execute;
  table.properties |= HAMMOCK_ASYNCHRONOUS;
  table.execute = [](void* self, const HammockExecution* call,
                     HammockError* error) -> HammockStatus {
    std::vector<HammockResult> results(call->results, call->results + call->result_count);
    for (HammockResult& result : results) result.ready = 0;
    HammockExecution inner = *call;
    inner.results = results.data();
    HammockStatus status = execute(self, &inner, error);
    forgotten = call->results[0].ready;
    for (uint64_t i = 0; i < call->result_count; ++i) {
      call->results[i].data = results[i].data;
      call->results[i].pending = 1;
    }
    return status;
  };
  Register();
  config::Override timeout("plugin_timeout", kTimeout);
  EXPECT_CODE((ones({3}, f32, "rogue") * 2.0f).host(), ErrorCode::kDevice,
              "the device is lost: a result");
  EXPECT_EQ(host->event_set(host->context, forgotten, HAMMOCK_OK, -1, nullptr, nullptr),
            HAMMOCK_STALE_HANDLE);
}

}  // namespace
}  // namespace hammock
