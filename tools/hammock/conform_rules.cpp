#include "conform_rules.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "hammock/hammock.h"
#include "hammock/lazy/backend_interface.h"
#include "hammock/plugins.h"
#include "hammock/testing.h"

namespace hammock::tool {
namespace {

/// Loads the plug-in and makes its first device the default one.
Device Open(const std::string& plugin) {
  Device device(plugins::Load(plugin).name);
  SetDefaultDevice(device);
  return device;
}

/// The first element that differs, or nothing.
std::string Difference(const HostTensor& got, const HostTensor& wanted, double tolerance = 0) {
  if (got.shape() != wanted.shape()) {
    return fmt::format("{} instead of {}", got.shape().to_string(), wanted.shape().to_string());
  }
  for (int64_t i = 0; i < got.numel(); ++i) {
    const Scalar a = got.at(i), b = wanted.at(i);
    if (a == b) continue;
    const double x = a.ToDouble(), y = b.ToDouble();
    if (std::isnan(x) && std::isnan(y)) continue;
    if (tolerance > 0 && std::abs(x - y) <= tolerance * (1 + std::abs(y))) continue;
    return fmt::format("element {} is {} instead of {}", i, a.to_string(), b.to_string());
  }
  return "";
}

HostTensor Ramp(DType dtype, const Dims& sizes) {
  HostTensor tensor(Shape(dtype, sizes));
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    tensor.set(i, Scalar(static_cast<double>(i % 7) - (IsSigned(dtype) ? 3 : 0)).To(dtype));
  }
  return tensor;
}

std::string Line(const std::string& text) { return text.empty() ? "" : text + "\n"; }

template <class E>
std::string ExpectError(const char* what, const std::function<void()>& run) {
  try {
    run();
  } catch (const E&) {
    return "";
  }
  return fmt::format("{}: no error was raised\n", what);
}

// ---- Interface and data

std::string Loads(const std::string& plugin) {
  Device device = Open(plugin);
  const auto& backend = device.backend();
  if (backend.GetBackendDevices().empty()) return "there is no device";
  backend.DescribeDevice(device.backend_device());
  backend.CreateMetricReport();
  backend.GetMetrics();
  return "";
}

std::string KeepsEveryDType(const std::string& plugin) {
  Device device = Open(plugin);
  std::string wrong;
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (!InfoOf(dtype).supported) continue;
    for (const Dims& sizes : {Dims{}, Dims{5}, Dims{3, 4}, Dims{2, 0, 3}}) {
      HostTensor host = Ramp(dtype, sizes);
      auto data = device.backend().MakeComputationDataFromTensor(host, host.shape(),
                                                                 device.backend_device());
      HostTensor back = device.backend().MakeTensorFromComputationData(data, std::nullopt);
      if (std::string differs = Difference(back, host); !differs.empty()) {
        wrong += fmt::format("{}: {}\n", host.shape().to_string(), differs);
      }
    }
  }
  return wrong;
}

std::string UploadsAreCopies(const std::string& plugin) {
  Device device = Open(plugin);
  std::vector<HostTensor> hosts;
  for (int i = 0; i < 50; ++i) hosts.push_back(Ramp(f32, {i + 1}));
  auto data = device.backend().MakeComputationDataFromTensors(hosts, device.backend_device());
  auto back = device.backend().MakeTensorsFromComputationData(data);
  std::string wrong;
  for (size_t i = 0; i < hosts.size(); ++i) wrong += Line(Difference(back[i], hosts[i]));
  return wrong;
}

std::string GivesMemoryBack(const std::string& plugin) {
  Device device = Open(plugin);
  auto step = [&] {
    Tensor x = ones({1000}, f32, device);
    for (int i = 0; i < 10; ++i) x = x * 2.0f + 1.0f;
    x.host();
  };
  step();  // what is kept from the first one is kept for ever
  wait_device_ops();
  const int64_t before = GetMemoryInfo(device).in_use;
  for (int i = 0; i < 20; ++i) step();
  wait_device_ops();
  const int64_t after = GetMemoryInfo(device).in_use;
  if (after <= before + 4000) return "";
  return fmt::format("20 equal steps leave {} bytes more in use", after - before);
}

// ---- Ops and programs

/// What CheckOp finds wrong on a device.
std::string CheckOn(const OpDef& op, const Device& device) {
  SetDefaultDevice(device);
  manual_seed(1);  // equal samples on both
  try {
    return testing::CheckOp(op);
  } catch (const std::exception& error) {
    return error.what();
  }
}

/// Findings that the reference has too are not the device's.
std::string SamplesAgree(const std::string& plugin) {
  Device device = Open(plugin);
  std::string wrong;
  for (const OpDef* op : op_registry::All()) {
    if (!op->IsNode() || !(op->samples[0].operands || op->IsElementwise())) continue;
    const std::string text = CheckOn(*op, device);
    if (text.empty() || !CheckOn(*op, "reference").empty()) continue;
    wrong += fmt::format("{}: {}\n", op->name(), text);
  }
  return wrong;
}

std::string RunsAllPrimitives(const std::string& plugin) {
  Device device = Open(plugin);
  config::Override fallback("fallback", "false");
  std::string wrong, missing;
  int refused = 0, checked = 0;
  for (const OpDef* op : op_registry::All()) {
    if (!op->IsPrimitive() || !(op->samples[0].operands || op->IsElementwise())) continue;
    ++checked;
    const std::string text = CheckOn(*op, device);
    if (text.empty()) continue;
    if (text.find("not run by") != text.npos) {
      ++refused;
      missing += fmt::format(" {}", op->name());
    } else if (CheckOn(*op, "reference").empty()) {
      wrong += fmt::format("{}: {}\n", op->name(), text);
    }
  }
  if (refused > 0) {
    wrong += fmt::format("{} of {} primitives are not run by the device:{}\n", refused, checked,
                         missing);
  }
  return wrong;
}

/// One line of a random program, on values of f32[4,4].
struct Operation {
  const char* cpp;  ///< with A and B for the operands
  Tensor (*run)(const Tensor& a, const Tensor& b);
};
using T = const Tensor&;
constexpr Operation kOperations[] = {
    {"A + B", [](T a, T b) { return a + b; }},
    {"A - B", [](T a, T b) { return a - b; }},
    {"A * B", [](T a, T b) { return tanh(a) * tanh(b); }},
    {"maximum(A, B)", [](T a, T b) { return maximum(a, b); }},
    {"where(A > B, A, B)", [](T a, T b) { return where(a > b, a, b); }},
    {"tanh(A)", [](T a, T) { return tanh(a); }},
    {"sigmoid(A)", [](T a, T) { return sigmoid(a); }},
    {"relu(A)", [](T a, T) { return relu(a); }},
    {"softmax(A, 1)", [](T a, T) { return softmax(a, 1); }},
    {"matmul(tanh(A), tanh(B))", [](T a, T b) { return matmul(tanh(a), tanh(b)); }},
    {"cumsum(tanh(A), 0)", [](T a, T) { return cumsum(tanh(a), 0); }},
    {"sum(tanh(A), {1}, true) + B", [](T a, T b) { return sum(tanh(a), {1}, true) + b; }},
    {"mean(A, {0}, true) - B", [](T a, T b) { return mean(a, {0}, true) - b; }},
    {"transpose(A, 0, 1)", [](T a, T) { return transpose(a, 0, 1); }},
    {"flip(A, {0})", [](T a, T) { return flip(a, {0}); }},
    {"-A", [](T a, T) { return -a; }},
};
struct Statement {
  size_t operation, a, b;
};
constexpr size_t kInputs = 3;
using RandomProgram = std::vector<Statement>;

/// The last value and the gradients of the inputs.
std::vector<HostTensor> RunProgram(const RandomProgram& program, const Device& device) {
  std::vector<Tensor> values;
  for (size_t i = 0; i < kInputs; ++i) {
    HostTensor host(Shape(f32, {4, 4}));
    for (int64_t k = 0; k < 16; ++k) {
      host.set(k, static_cast<double>((k * 5 + static_cast<int64_t>(i) * 3) % 13) / 6 - 1);
    }
    values.push_back(from_host(host, device).requires_grad_());
  }
  for (const Statement& s : program) {
    values.push_back(kOperations[s.operation].run(values[s.a], values[s.b]));
  }
  sum(values.back() * values.back()).backward();
  std::vector<HostTensor> results = {values.back().host()};
  for (size_t i = 0; i < kInputs; ++i) {
    if (values[i].grad().defined()) results.push_back(values[i].grad().host());
  }
  return results;
}

std::string ProgramDiffers(const RandomProgram& program, const Device& device) {
  try {
    auto wanted = RunProgram(program, "reference");
    auto got = RunProgram(program, device);
    for (size_t i = 0; i < wanted.size(); ++i) {
      std::string differs = Difference(got.at(i), wanted[i], 1e-4);
      if (!differs.empty()) return (i == 0 ? "the result: " : "a gradient: ") + differs;
    }
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

/// Without statement `gone`, whose value is replaced by its first operand.
RandomProgram Without(const RandomProgram& program, size_t gone) {
  RandomProgram shorter;
  auto moved = [&](size_t value) {
    if (value == gone + kInputs) value = program[gone].a;
    return value > gone + kInputs ? value - 1 : value;
  };
  for (size_t i = 0; i < program.size(); ++i) {
    if (i == gone) continue;
    shorter.push_back({program[i].operation, moved(program[i].a), moved(program[i].b)});
  }
  return shorter;
}

std::string ProgramText(const RandomProgram& program, const Device& device) {
  std::string text = "as C++:\n";
  auto name = [](size_t value) {
    return value < kInputs ? fmt::format("x{}", value) : fmt::format("v{}", value - kInputs);
  };
  std::vector<Tensor> values;
  for (size_t i = 0; i < kInputs; ++i) values.push_back(ones({4, 4}, f32, device));
  for (size_t i = 0; i < program.size(); ++i) {
    const Statement& s = program[i];
    std::string line;
    for (const char* c = kOperations[s.operation].cpp; *c; ++c) {
      line += *c == 'A' ? name(s.a) : *c == 'B' ? name(s.b) : std::string(1, *c);
    }
    text += fmt::format("  Tensor v{} = {};\n", i, line);
    values.push_back(kOperations[s.operation].run(values[s.a], values[s.b]));
  }
  text += "as a graph:\n" + LazyGraphExecutor::Get()->DumpTensors(std::span(&values.back(), 1));
  return text;
}

std::string RunsRandomPrograms(const std::string& plugin) {
  Device device = Open(plugin);
  std::mt19937 random(1);
  for (int trial = 0; trial < 150; ++trial) {
    RandomProgram program;
    for (size_t i = 0, length = 2 + random() % 10; i < length; ++i) {
      const size_t values = kInputs + i;
      program.push_back({random() % std::size(kOperations), random() % values, random() % values});
    }
    std::string differs = ProgramDiffers(program, device);
    if (differs.empty()) continue;
    for (size_t i = program.size(); i-- > 0 && program.size() > 1;) {
      if (i >= program.size()) continue;
      RandomProgram shorter = Without(program, i);
      if (!ProgramDiffers(shorter, device).empty()) program = shorter;
    }
    return fmt::format("program {}: {}\n{}", trial, ProgramDiffers(program, device),
                       ProgramText(program, device));
  }
  return "";
}

std::string AcceptsOddSizes(const std::string& plugin) {
  Device device = Open(plugin);
  std::string wrong;
  for (const Dims& sizes :
       {Dims{}, Dims{0}, Dims{1}, Dims{3, 0}, Dims{1, 1, 1}, Dims{2, 3, 1, 2}}) {
    HostTensor host = Ramp(f32, sizes);
    auto run = [&](const Device& on) {
      Tensor x = from_host(host, on);
      return (x * 2.0f + x).host();
    };
    std::string differs = Difference(run(device), run("reference"), 1e-6);
    if (!differs.empty()) wrong += fmt::format("{}: {}\n", host.shape().to_string(), differs);
  }
  return wrong;
}

std::string RaisesBadIndices(const std::string& plugin) {
  Device device = Open(plugin);
  Tensor x = from_host(Ramp(f32, {4}), device);
  Tensor bad = gather(x, 0, tensor(std::vector<int64_t>{9}, std::nullopt, device));
  Tensor good = x + 1.0f;
  mark_step();
  std::string wrong = ExpectError<Error>("an index of 9 in 4 elements", [&] { bad.host(); });
  HostTensor wanted = Ramp(f32, {4});
  for (int64_t i = 0; i < 4; ++i) wanted.set(i, wanted.at(i).ToDouble() + 1);
  return wrong + Line(Difference(good.host(), wanted));
}

// ---- The contract's rules

std::string KeepsWhatIsNotDonated(const std::string& plugin) {
  Device device = Open(plugin);
  Tensor x = from_host(Ramp(f32, {64}), device) + 0.0f;
  mark_step(true);
  HostTensor before = x.host();
  Tensor kept = x.clone();
  Tensor y = x;
  for (int i = 0; i < 5; ++i) {
    y = y + 1.0f;
    mark_step();
  }
  Tensor z = x.clone();
  for (int i = 0; i < 5; ++i) {
    z += 1.0f;
    mark_step();
  }
  return Line(Difference(kept.host(), before)) + Line(Difference(x.host(), before)) +
         Line(Difference(y.host(), z.host()));
}

std::string ObeysMemoryLimits(const std::string& plugin) {
  Device device = Open(plugin);
  Tensor x = ones({100000}, f32, device) + 0.0f;
  mark_step(true);
  try {
    SetMemoryLimit(device, GetMemoryInfo(device).in_use + 1000);
  } catch (const NotSupported&) {
    throw SkippedRule{"memory cannot be limited"};
  }
  Tensor big = x + x;
  std::string wrong = ExpectError<OutOfMemory>("over the limit", [&] { big.host(); });
  SetMemoryLimit(device, 0);
  LazyGraphExecutor::Get()->ClearErrors(big);
  if (big.to_vector<float>()[7] != 2.0f) wrong += "after the limit was lifted the value is wrong\n";
  return wrong;
}

std::string SavesComputations(const std::string& plugin) {
  Device device = Open(plugin);
  lazy::BackendImplInterface& backend = device.backend();
  const lazy::BackendDevice& where = device.backend_device();
  Graph graph = ParseGraph("%0 = input : f32[5]\n%1 = add %0, %0 : f32[5]\nreturn %1");
  auto computation = std::make_shared<lazy::Computation>("twice", std::move(graph), where);
  std::string bytes;
  try {
    bytes = backend.SerializeComputation(backend.Compile({computation}).at(0));
  } catch (const NotSupported&) {
    throw SkippedRule{"it saves no computations"};
  }
  std::string wrong;
  if (backend.CheckCompatibility(bytes, where) != lazy::Compatibility::kOptimal) {
    wrong += "saved bytes are not its own\n";
  }
  if (backend.CheckCompatibility(bytes.substr(0, bytes.size() / 2), where) !=
      lazy::Compatibility::kUnsupported) {
    wrong += "half of the bytes are accepted\n";
  }
  HostTensor host = Ramp(f32, {5});
  auto argument = backend.MakeComputationDataFromTensor(host, host.shape(), where);
  auto results = backend.ExecuteComputation(backend.DeserializeComputation(bytes, where),
                                            std::span(&argument, 1), where, {});
  results.at(0)->WaitReady();
  HostTensor wanted = Ramp(f32, {5});
  for (int64_t i = 0; i < 5; ++i) wanted.set(i, 2 * wanted.at(i).ToDouble());
  return wrong +
         Line(Difference(backend.MakeTensorFromComputationData(results[0], std::nullopt), wanted));
}

std::string Unregisters(const std::string& plugin) {
  Device device = Open(plugin);
  const std::string name = device.type();
  Tensor x = from_host(Ramp(f32, {3}), device) * 2.0f;
  mark_step(true);
  std::string wrong = ExpectError<ValueError>("unregistering with live data",
                                              [&] { lazy::UnregisterBackend(name); });
  lazy::UnregisterBackend(name, true);
  if (x.to_vector<float>()[0] != -6.0f) wrong += "a value was lost\n";
  return wrong;
}

// ---- Gold

std::string ServesThreads(const std::string& plugin) {
  Device device = Open(plugin);
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

std::string SurvivesFaults(const std::string& plugin) {
  void* library = dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library) return dlerror();
  Faulty::entry = reinterpret_cast<decltype(Faulty::entry)>(dlsym(library, "hammock_plugin"));
  Device device(plugins::Register(Faulty::Table, plugin).name);
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

constexpr auto kBronze = ConformLevel::kBronze;
constexpr auto kSilver = ConformLevel::kSilver;
constexpr auto kGold = ConformLevel::kGold;

constexpr ConformRule kRules[] = {
    {"loads", "interface", kBronze, "The plug-in loads, has a device and describes itself.", Loads},
    {"every_dtype", "data", kBronze,
     "Data of every dtype comes back bit for bit, empty and of rank 0 too.", KeepsEveryDType},
    {"batched_transfers", "data", kBronze, "Several values in one call keep their order.",
     UploadsAreCopies},
    {"memory_returns", "lifetime", kBronze, "Steps that are repeated leave no memory in use.",
     GivesMemoryBack},
    {"samples", "ops", kBronze,
     "Every op record's samples give equal bits lazily and eagerly, and right gradients.",
     SamplesAgree},
    {"random_programs", "programs", kBronze,
     "Random programs give the reference's results and gradients.", RunsRandomPrograms},
    {"odd_sizes", "sizes", kBronze,
     "Values without elements, of rank 0 and of size 1 are computed.", AcceptsOddSizes},
    {"bad_indices", "errors", kBronze,
     "An index out of range is an error of its value, and of no other.", RaisesBadIndices},
    {"donation", "contract", kBronze, "Only donated arguments are overwritten.",
     KeepsWhatIsNotDonated},
    {"memory_limit", "contract", kBronze,
     "Over its limit a device raises OutOfMemory, and recovers.", ObeysMemoryLimits},
    {"saved_computations", "contract", kBronze,
     "A saved computation loads and gives the same; a damaged one is refused.", SavesComputations},
    {"unregistering", "contract", kBronze,
     "Live data keeps the device registered; by force its values go to the host.", Unregisters},
    {"all_primitives", "ops", kSilver, "Every primitive's samples run without the fallback device.",
     RunsAllPrimitives},
    {"threads", "threads", kGold, "Threads that use the device at once get their own results.",
     ServesThreads},
    {"faults", "faults", kGold,
     "After a failing upload, download, compilation or run, the same program runs.",
     SurvivesFaults},
};

}  // namespace

std::span<const ConformRule> ConformRules() { return kRules; }

std::string Measurements(const std::string& plugin) {
  using Clock = std::chrono::steady_clock;
  Device device = Open(plugin);
  struct Measured {
    const char* what;
    const char* unit;
    std::function<double(const Device&)> run;
  };
  auto seconds = [](int repeats, const std::function<void()>& run) {
    run();
    const auto begin = Clock::now();
    for (int i = 0; i < repeats; ++i) run();
    return std::chrono::duration<double>(Clock::now() - begin).count() / repeats;
  };
  const HostTensor large = Ramp(f32, {1 << 20});
  const Measured all[] = {
      {"upload of 4 MiB", "GB/s",
       [&](const Device& on) {
         return 4.2e-3 / seconds(10, [&] {
                  on.backend().MakeComputationDataFromTensor(large, large.shape(),
                                                             on.backend_device());
                });
       }},
      {"download of 4 MiB", "GB/s",
       [&](const Device& on) {
         auto data =
             on.backend().MakeComputationDataFromTensor(large, large.shape(), on.backend_device());
         return 4.2e-3 / seconds(10, [&] {
                  on.backend().MakeTensorFromComputationData(data, std::nullopt);
                });
       }},
      {"steps of one small op", "per ms",
       [&](const Device& on) {
         Tensor x = ones({16}, f32, on);
         return 1e-3 / seconds(200, [&] { (x + x).host(); });
       }},
      {"x + y of 4 MiB", "GB/s",
       [&](const Device& on) {
         Tensor x = from_host(large, on), y = from_host(large, on);
         return 12.6e-3 / seconds(10, [&] {
                  Tensor z = x + y;
                  sync_multi({z});
                  wait_device_ops({on});
                });
       }},
      {"matmul of 256 x 256", "GFLOP/s",
       [&](const Device& on) {
         Tensor x = ones({256, 256}, f32, on);
         return 0.0336 / seconds(5, [&] {
                  Tensor z = matmul(x, x);
                  sync_multi({z});
                  wait_device_ops({on});
                });
       }},
  };
  std::string text;
  for (const Measured& each : all) {
    const double here = each.run(device), cpu = each.run("cpu");
    text += fmt::format("  {:24} {:10.2f} {:8} cpu {:10.2f}{}\n", each.what, here, each.unit, cpu,
                        here * 3 < cpu ? "   slow" : "");
  }
  return text;
}

}  // namespace hammock::tool
