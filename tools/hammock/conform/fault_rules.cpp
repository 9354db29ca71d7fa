// Threads, and calls that fail.
#include <dlfcn.h>
#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <tuple>
#include <vector>

#include "conform/check_functions.h"
#include "conform/rule_kit.h"
#include "hammock/lazy/backend_interface.h"
#include "hammock/plugins.h"

namespace hammock::tool {

std::string ServesThreads(const Subject& subject) {
  Device device = Open(subject);
  std::vector<std::string> wrong(8);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      try {
        for (int i = 0; i < 30; ++i) {
          const auto n = static_cast<float>(t * 100) + static_cast<float>(i);
          Tensor x = full({50}, n, f32, device);
          Tensor y = (x + x) * 3.0f - x;
          const float got = y.to_vector<float>()[49];
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

/// The plug-in's table, whose functions fail when they are told to.
struct Faulty {
  static inline HammockPlugin original, table;
  static inline const HammockPlugin* (*entry)(const HammockHost*) = nullptr;
  static inline std::string function;               ///< that fails
  static inline std::atomic<int> calls_before{-1};  ///< fails at 0

  template <auto kField>
  struct Wrapped;
  template <class... Args, HammockStatus (*HammockPlugin::*kField)(Args...)>
  struct Wrapped<kField> {
    static inline const char* name;
    static HammockStatus Call(Args... args) {
      if (function == name && calls_before-- == 0) {
        HammockError* error = std::get<sizeof...(Args) - 1>(std::tie(args...));
        return hammock_fail(error, HAMMOCK_DEVICE_ERROR, "injected fault");
      }
      return (original.*kField)(args...);
    }
  };
  template <auto kField>
  static void Wrap(const char* name) {
    Wrapped<kField>::name = name;
    if (original.*kField) table.*kField = Wrapped<kField>::Call;
  }

  static const HammockPlugin* Table(const HammockHost* host) {
    const HammockPlugin* given = entry(host);
    if (!given) return nullptr;
    std::memcpy(&original, given, std::min<size_t>(sizeof(original), given->struct_size));
    table = original;
    table.struct_size = sizeof(table);
    for (const auto& [name, wrap] : kFunctions) wrap(name);
    return &table;
  }

  struct Function {
    const char* name;
    void (*wrap)(const char* name);
  };
  static const Function kFunctions[12];
};

#define FUNCTION(field) \
  { #field, Faulty::Wrap < &HammockPlugin::field> }
constexpr Faulty::Function Faulty::kFunctions[12] = {
    FUNCTION(memory_info), FUNCTION(set_memory_limit), FUNCTION(upload),    FUNCTION(download),
    FUNCTION(copy),        FUNCTION(capabilities),     FUNCTION(compile),   FUNCTION(instantiate),
    FUNCTION(execute),     FUNCTION(fingerprint),      FUNCTION(serialize), FUNCTION(deserialize)};
#undef FUNCTION

/// Calls that a plug-in may do without.
template <class F>
void IfSupported(F&& run) {
  try {
    run();
  } catch (const NotSupported&) {
  }
}

/// Calls every function of the table that the device has; throws what fails. What is wrong with the
/// results is returned.
std::string CallEverything(const Device& device, const Tensor& kept) {
  const HostTensor given = Ramp(f32, kept.sizes());
  Tensor twice = kept + from_host(given, device), squares = twice * twice;
  mark_step();
  const HostTensor sums = twice.host(), products = squares.host();
  GetMemoryInfo(device);
  IfSupported([&] { SetMemoryLimit(device, 0); });
  lazy::BackendImplInterface& backend = device.backend();
  const lazy::BackendDevice& where = device.backend_device();
  auto data = backend.MakeComputationDataFromTensor(given, given.shape(), where);
  IfSupported([&] { backend.CopyToDevice(data, where); });
  const std::string type = given.shape().to_string();
  Graph graph = ParseGraph(fmt::format("%0 = input : {0}\n%1 = add %0, %0 : {0}\nreturn %1", type));
  auto computation = std::make_shared<lazy::Computation>("twice", std::move(graph), where);
  computation = backend.Compile({computation}).at(0);
  IfSupported([&] {
    computation = backend.DeserializeComputation(backend.SerializeComputation(computation), where);
  });
  auto results = backend.ExecuteComputation(computation, std::span(&data, 1), where, {});
  results.at(0)->WaitReady();
  const HostTensor again = backend.MakeTensorFromComputationData(results[0], std::nullopt);
  for (int64_t i = 0; i < given.numel(); ++i) {
    const double v = 2 * given.at(i).ToDouble();
    if (sums.at(i).ToDouble() != v || again.at(i).ToDouble() != v) return "wrong sums";
    if (products.at(i).ToDouble() != v * v) return "wrong products";
  }
  return "";
}

}  // namespace

std::string SurvivesFaults(const Subject& subject) {
  void* library = dlopen(subject.plugin.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library) return dlerror();
  Faulty::entry = reinterpret_cast<decltype(Faulty::entry)>(dlsym(library, "hammock_plugin"));
  Device device(plugins::Register(Faulty::Table, subject.plugin).name);
  std::string wrong;
  int size = 10;
  for (const auto& [function, wrap] : Faulty::kFunctions) {
    for (int at = 0; at < 3; ++at) {
      const int n = ++size;  // so that it is compiled anew
      Tensor kept = from_host(Ramp(f32, {n}), device) + 0.0f;
      mark_step(true);
      Faulty::function = function;
      Faulty::calls_before = at;
      try {
        CallEverything(device, kept);
      } catch (const Error&) {
      }
      Faulty::calls_before = -1;
      try {
        wait_device_ops({device});  // an error that was not raised yet is raised here, once
      } catch (const Error&) {
      }
      std::string after;
      try {
        after = CallEverything(device, kept);
      } catch (const std::exception& error) {
        after = error.what();
      }
      if (after.empty()) continue;
      wrong += fmt::format("after a fault in {} (call {}): {}\n", function, at, after);
    }
  }
  return wrong;
}

}  // namespace hammock::tool
