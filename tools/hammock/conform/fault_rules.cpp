// Threads, and calls that fail.
#include <fmt/format.h>

#include <atomic>
#include <set>
#include <thread>
#include <tuple>
#include <vector>

#include "conform/check_functions.h"
#include "conform/rule_kit.h"

namespace hammock::tool {

std::string ServesThreads(const Subject& subject) {
  Device device = Open(subject);
  SHOWN(auto five_times = [&](float n) {
    Tensor x = full({50}, n, f32, device);
    return (x + x) * 3.0f - x;
  });
  ShowGraph({five_times(1)});
  std::vector<std::string> wrong(8);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      try {
        for (int i = 0; i < 30; ++i) {
          const auto n = static_cast<float>(t * 100) + static_cast<float>(i);
          const float got = five_times(n).to_vector<float>()[49];
          if (got != 5 * n) wrong[t] = fmt::format("thread {}: {} instead of {}\n", t, got, 5 * n);
        }
      } catch (const std::exception& error) {
        wrong[t] = fmt::format("thread {}: {}\n", t, error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::string all;
  for (const std::string& each : wrong) all += each;
  return all;
}

namespace {

/// Functions of the table that fail when they are told to.
struct Faulty {
  static inline std::string function;  ///< that fails
  static inline HammockStatus status = HAMMOCK_DEVICE_ERROR;
  static inline std::atomic<int> calls_before{-1};  ///< fails at 0
  static inline std::set<std::string> reached;      ///< functions that failed once

  template <auto kField>
  struct Wrapped;
  template <class... Args, HammockStatus (*HammockPlugin::*kField)(Args...)>
  struct Wrapped<kField> {
    static inline const char* name;
    static HammockStatus Call(Args... args) {
      if (function == name && calls_before-- == 0) {
        reached.insert(name);
        HammockError* error = std::get<sizeof...(Args) - 1>(std::tie(args...));
        return hammock_fail(error, status, "injected fault");
      }
      return (Tables().original.*kField)(args...);
    }
  };
  template <auto kField>
  static bool Wrap(const char* name) {
    Wrapped<kField>::name = name;
    if (!(Tables().original.*kField)) return false;
    Tables().wrapped.*kField = Wrapped<kField>::Call;
    return true;
  }

  struct Function {
    const char* name;
    bool (*wrap)(const char* name);  ///< false: the plug-in has none
  };
  static const Function kFunctions[15];

  /// From now on call number `at` of a function, counted from 0, fails.
  static void Arm(const char* name, HammockStatus kind, int at) {
    function = name;
    status = kind;
    calls_before = at;
  }
  static void Disarm() { calls_before = -1; }
};

#define FUNCTION(field) \
  { #field, Faulty::Wrap < &HammockPlugin::field> }
/// All that return a HammockStatus; the first two are called when a plug-in is registered.
constexpr Faulty::Function Faulty::kFunctions[15] = {
    FUNCTION(initialize),  FUNCTION(device_count),     FUNCTION(memory_info),
    FUNCTION(upload),      FUNCTION(set_memory_limit), FUNCTION(download),
    FUNCTION(copy),        FUNCTION(capabilities),     FUNCTION(compile),
    FUNCTION(instantiate), FUNCTION(execute),          FUNCTION(wait),
    FUNCTION(fingerprint), FUNCTION(serialize),        FUNCTION(deserialize)};
#undef FUNCTION

/// Calls that a plug-in may do without.
template <class F>
void IfSupported(F&& run) {
  try {
    run();
  } catch (const NotSupported&) {
  }
}

/// One step; throws what fails. What is wrong with its results is returned.
std::string RunStep(const Device& device, const Tensor& kept) {
  const HostTensor given = Ramp(f32, kept.sizes());
  SHOWN(Tensor twice = kept + from_host(given, device), squares = twice * twice; mark_step());
  const HostTensor sums = twice.host(), products = squares.host();
  for (int64_t i = 0; i < given.numel(); ++i) {
    const double v = 2 * given.at(i).ToDouble();
    if (sums.at(i).ToDouble() != v) return "wrong sums";
    if (products.at(i).ToDouble() != v * v) return "wrong products";
  }
  return "";
}

/// Calls every function of the table that the device has; throws what fails. What is wrong with the
/// results is returned.
std::string CallEverything(const Device& device, const Tensor& kept) {
  const HostTensor given = Ramp(f32, kept.sizes());
  if (std::string wrong = RunStep(device, kept); !wrong.empty()) return wrong;
  GetMemoryInfo(device);
  IfSupported([&] { SetMemoryLimit(device, 0); });
  lazy::BackendImplInterface& backend = device.backend();
  const lazy::BackendDevice& where = device.backend_device();
  if (backend.GetBackendDevices().empty()) return "there is no device";
  auto data = backend.MakeComputationDataFromTensor(given, given.shape(), where);
  IfSupported([&] { backend.CopyToDevice(data, where); });
  Graph graph = ParseGraph(TwiceGraph(std::to_string(given.numel())));
  backend.QueryCapability(graph, graph.outputs()[0].node, where);
  auto computation = std::make_shared<lazy::Computation>("twice", std::move(graph), where);
  computation = backend.Compile({computation}).at(0);
  IfSupported([&] {
    computation = backend.DeserializeComputation(backend.SerializeComputation(computation), where);
  });
  if (backend.SupportsDimParams(where)) {
    IfSupported([&] {
      auto general = std::make_shared<lazy::Computation>(
          "general", ParseGraph("graph(n=3)\n" + TwiceGraph("n")), where);
      general = backend.Compile({general}).at(0);
      computation = backend.Instantiate(general, std::vector<int64_t>{given.numel()});
    });
  }
  auto results = backend.ExecuteComputation(computation, std::span(&data, 1), where, {});
  results.at(0)->WaitReady();
  backend.WaitForDevice(where);
  const HostTensor again = backend.MakeTensorFromComputationData(results[0], std::nullopt);
  for (int64_t i = 0; i < given.numel(); ++i) {
    if (again.at(i).ToDouble() != 2 * given.at(i).ToDouble()) return "wrong sums of a direct call";
  }
  return "";
}

/// A plug-in whose registration failed can be registered. `functions` gets the names of those that
/// it has.
Device RegisterAfterFaults(const Subject& subject, std::set<std::string>& functions,
                           std::string& wrong) {
  auto wrap = [&functions] {
    for (const auto& [name, wrap] : Faulty::kFunctions) {
      if (wrap(name)) functions.insert(name);
    }
  };
  for (const char* function : {"device_count", "initialize"}) {
    if (!functions.empty() && !functions.contains(function)) continue;
    Faulty::Arm(function, HAMMOCK_DEVICE_ERROR, 0);
    try {
      lazy::UnregisterBackend(OpenWrapped(subject, wrap).type(), true);
      wrong += fmt::format("a fault in {} is no error\n", function);
    } catch (const Error&) {
    }
    Faulty::Disarm();
  }
  try {
    return OpenWrapped(subject, wrap);
  } catch (const Error& error) {
    throw DeviceError(
        ErrorCode::kDevice,
        fmt::format("after a fault in initialize or device_count: {}", error.message()));
  }
}

/// A value of the device in a step of its own; `n` elements, so that what reads it is compiled
/// anew.
Tensor KeptValue(const Device& device, int n) {
  Tensor kept = from_host(Ramp(f32, {n}), device) + 0.0f;
  mark_step(true);
  return kept;
}

/// The same program when no more calls fail; empty if all is right.
std::string Afterwards(const Device& device, const Tensor& kept,
                       std::string (*run)(const Device& device, const Tensor& kept)) {
  Faulty::Disarm();
  try {
    wait_device_ops({device});  // an error that was not raised yet is raised here, once
  } catch (const Error&) {
  }
  try {
    return run(device, kept);
  } catch (const std::exception& error) {
    return error.what();
  }
}

/// A fault that the host knows how to answer, and the error that a step may raise all the same.
struct Kind {
  const char* function;
  HammockStatus status;
  const char* name;
  ErrorCode code;
  bool recovers;  ///< the step must succeed
};
constexpr Kind kKinds[] = {
    {"upload", HAMMOCK_OUT_OF_MEMORY, "OUT_OF_MEMORY", ErrorCode::kOutOfMemory, false},
    {"compile", HAMMOCK_OUT_OF_MEMORY, "OUT_OF_MEMORY", ErrorCode::kOutOfMemory, false},
    {"execute", HAMMOCK_OUT_OF_MEMORY, "OUT_OF_MEMORY", ErrorCode::kOutOfMemory, false},
    {"compile", HAMMOCK_COMPILE_ERROR, "COMPILE_ERROR", ErrorCode::kCompile, true},
    {"instantiate", HAMMOCK_COMPILE_ERROR, "COMPILE_ERROR", ErrorCode::kCompile, true},
    {"upload", HAMMOCK_TRANSFER_ERROR, "TRANSFER_ERROR", ErrorCode::kTransfer, false},
    {"download", HAMMOCK_TRANSFER_ERROR, "TRANSFER_ERROR", ErrorCode::kTransfer, false},
    {"execute", HAMMOCK_INDEX_ERROR, "INDEX_ERROR", ErrorCode::kIndexOutOfRange, false},
};

/// A step in which a call fails once, and one behind it.
std::string AnswersKind(const Kind& kind, const Device& device, const Tensor& kept) {
  std::string wrong;
  Faulty::Arm(kind.function, kind.status, 0);
  try {
    wrong = RunStep(device, kept);
  } catch (const Error& error) {
    if (kind.recovers || error.code() != kind.code) wrong = fmt::format("raises {}", error.what());
  }
  const std::string after = Afterwards(device, kept, RunStep);
  std::string text;
  if (!wrong.empty()) {
    text += fmt::format("a step with {} in {}: {}\n", kind.name, kind.function, wrong);
  }
  if (!after.empty()) text += fmt::format("after {} in {}: {}\n", kind.name, kind.function, after);
  return text;
}

}  // namespace

std::string SurvivesFaults(const Subject& subject) {
  std::set<std::string> functions;
  std::string wrong;
  const Device device = RegisterAfterFaults(subject, functions, wrong);
  int size = 10;
  for (const auto& [function, wrap] : Faulty::kFunctions) {
    for (int at = 0; at < 3; ++at) {
      const Tensor kept = KeptValue(device, ++size);
      Faulty::Arm(function, HAMMOCK_DEVICE_ERROR, at);
      try {
        CallEverything(device, kept);
      } catch (const Error&) {
      }
      const std::string after = Afterwards(device, kept, CallEverything);
      if (after.empty()) continue;
      wrong += fmt::format("after a fault in {} (call {}): {}\n", function, at, after);
    }
  }
  for (const Kind& kind : kKinds) wrong += AnswersKind(kind, device, KeptValue(device, ++size));
  // Functions that the host has no use for.
  const HammockPlugin& table = Tables().original;
  if (!(table.properties & HAMMOCK_DIM_PARAMS)) functions.erase("instantiate");
  if (!table.fingerprint || !table.serialize) functions.erase("deserialize");
  if (!table.fingerprint || !table.deserialize) functions.erase("serialize");
  for (const std::string& function : functions) {
    if (!Faulty::reached.contains(function)) {
      wrong += fmt::format("{} was never called\n", function);
    }
  }
  return wrong;
}

}  // namespace hammock::tool
