// Threads, and calls that fail.
#include <dlfcn.h>
#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "conform/check_functions.h"
#include "conform/rule_kit.h"
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

/// The plug-in's table, with one function that fails once.
struct Faulty {
  static inline HammockPlugin original, table;
  static inline const HammockPlugin* (*entry)(const HammockHost*) = nullptr;
  static inline std::string function;
  static inline std::atomic<int> calls_before{-1};  // fails at 0

  static bool Fails(const char* name, HammockError* error) {
    if (function != name || calls_before-- != 0) return false;
    hammock_fail(error, HAMMOCK_DEVICE_ERROR, "injected fault");
    return true;
  }

  static const HammockPlugin* Table(const HammockHost* host) {
    const HammockPlugin* given = entry(host);
    if (!given) return nullptr;
    std::memcpy(&original, given, std::min<size_t>(sizeof(original), given->struct_size));
    table = original;
    table.struct_size = sizeof(table);
    table.upload = [](void* self, int64_t device, uint64_t count, const HammockHostTensor* tensors,
                      HammockData* data, HammockError* error) -> HammockStatus {
      if (Fails("upload", error)) return HAMMOCK_DEVICE_ERROR;
      return original.upload(self, device, count, tensors, data, error);
    };
    table.download = [](void* self, uint64_t count, const HammockData* data, void* const* places,
                        HammockError* error) -> HammockStatus {
      if (Fails("download", error)) return HAMMOCK_DEVICE_ERROR;
      return original.download(self, count, data, places, error);
    };
    table.compile = [](void* self, const HammockCompilation* request, HammockCompiled* compiled,
                       HammockError* error) -> HammockStatus {
      if (Fails("compile", error)) return HAMMOCK_DEVICE_ERROR;
      return original.compile(self, request, compiled, error);
    };
    table.execute = [](void* self, const HammockExecution* call,
                       HammockError* error) -> HammockStatus {
      if (Fails("execute", error)) return HAMMOCK_DEVICE_ERROR;
      return original.execute(self, call, error);
    };
    return &table;
  }
};

}  // namespace

std::string SurvivesFaults(const Subject& subject) {
  void* library = dlopen(subject.plugin.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library) return dlerror();
  Faulty::entry = reinterpret_cast<decltype(Faulty::entry)>(dlsym(library, "hammock_plugin"));
  Device device(plugins::Register(Faulty::Table, subject.plugin).name);
  std::string wrong;
  int size = 10;
  for (const char* function : {"upload", "download", "compile", "execute"}) {
    for (int at = 0; at < 3; ++at) {
      const int n = ++size;  // so that it is compiled anew
      Faulty::function = function;
      Faulty::calls_before = at;
      const HostTensor given = Ramp(f32, {n});
      auto run = [&](const Tensor& x) {
        Tensor twice = x + x, squares = twice * twice;
        mark_step();
        return std::pair(twice.host(), squares.host());
      };
      Tensor x = from_host(Ramp(f32, {n}), device);
      try {
        run(x);
      } catch (const Error&) {
      }
      Faulty::calls_before = -1;
      try {
        // What could not be brought to the device is brought there again.
        const bool has_value = std::string_view(function) != "upload";
        auto [twice, squares] = run(has_value ? x : from_host(Ramp(f32, {n}), device));
        for (int64_t i = 0; i < n; ++i) {
          const double v = 2 * given.at(i).ToDouble();
          if (twice.at(i).ToDouble() == v && squares.at(i).ToDouble() == v * v) continue;
          wrong += fmt::format("after a fault in {} (call {}): wrong values\n", function, at);
          break;
        }
      } catch (const std::exception& error) {
        wrong += fmt::format("after a fault in {} (call {}): {}\n", function, at, error.what());
      }
    }
  }
  return wrong;
}

}  // namespace hammock::tool
