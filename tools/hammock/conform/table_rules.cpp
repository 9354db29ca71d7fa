// Rules about calls of the table, which are looked at as they are made.
#include <fmt/format.h>

#include <map>
#include <mutex>
#include <set>
#include <tuple>

#include "conform/check_functions.h"
#include "conform/rule_kit.h"
#include "hammock/plugin_graph.h"

namespace hammock::tool {
namespace {

/// Findings of functions that were put around those of the table; any thread makes calls.
struct Watched {
  std::mutex mutex;
  std::string wrong;

  void Say(const std::string& text) {
    std::lock_guard lock(mutex);
    if (wrong.find(text) == wrong.npos && wrong.size() < 4000) wrong += text + "\n";
  }
};
Watched& Watch() {
  static Watched watched;
  return watched;
}

/// Steps of many ops, dtypes and sizes, with a donation and an error.
void RunSteps(const Device& device) {
  SHOWN(Tensor x = from_host(Ramp(f32, {6, 8}), device); Tensor y = softmax(x * 0.5f, 1);
        auto [sorted, order] = sort(matmul(y, transpose(x, 0, 1)), 1);
        Tensor z = where(order > 2, cumsum(sorted, 0), exp(y).sum() + sorted));
  ShowGraph({z});
  z.host();
  for (int i = 0; i < 4; ++i) {
    y += 1.0f;
    mark_step();
  }
  for (int n : {3, 4, 5, 6, 7}) (ones({n, 2}, f32, device) * 2.0f + 1.0f).host();
  Tensor bad = gather(x, 0, from_host(Ramp(u8, {6, 8}), device).to(i64) + 5);
  ExpectError<Error>("", [&] { bad.host(); });
  wait_device_ops({device});
}

// ---- Capabilities

using Answers = std::map<int32_t, std::pair<uint32_t, std::string>>;

HammockStatus Ask(int64_t device, HammockBytes graph, HammockError* error, Answers& answers) {
  auto answer = [](void* context, int32_t node, uint32_t verdict,
                   const char* reason) -> HammockStatus {
    (*static_cast<Answers*>(context))[node] = {verdict, reason ? reason : ""};
    return HAMMOCK_OK;
  };
  const HammockPlugin& table = Tables().original;
  return table.capabilities(table.self, device, graph, {&answers, answer}, error);
}

HammockStatus AskTwice(void*, int64_t device, HammockBytes graph, HammockAnswers answers,
                       HammockError* error) {
  Answers first, second;
  HammockStatus status = Ask(device, graph, error, first);
  if (status == HAMMOCK_OK) status = Ask(device, graph, error, second);
  if (first != second) {
    HammockGraph opened;
    std::string ops;
    for (uint32_t i = 0; hammock_graph_open(graph, &opened) && i < hammock_node_count(&opened);
         ++i) {
      const auto node = static_cast<int32_t>(i);
      if (first.contains(node) != second.contains(node) || first[node] != second[node]) {
        ops += fmt::format(" {} (node {})", hammock_node(&opened, i).op, i);
      }
    }
    Watch().Say("asked twice, it answers differently about" + (ops.empty() ? " no node" : ops));
  }
  for (const auto& [node, answer] : first) {
    answers.answer(answers.context, node, answer.first, answer.second.c_str());
  }
  return status;
}

// ---- Handles

/// Handles of one kind that the plug-in has given and not got back.
struct Handles {
  const char* kind;
  std::set<uint64_t> live = {};

  void Give(uint64_t handle) {
    std::lock_guard lock(Watch().mutex);
    if (handle == 0 || live.insert(handle).second) return;
    Watch().wrong += fmt::format("{} {:#x} is given while it is in use\n", kind, handle);
  }
  void TakeBack(uint64_t handle) {
    std::lock_guard lock(Watch().mutex);
    if (live.erase(handle) == 1) return;
    Watch().wrong += fmt::format("{} {:#x} goes back twice\n", kind, handle);
  }
};
Handles data_handles{"data"}, executable_handles{"executable"};
int64_t bytes_at_the_end = 0;

template <auto kField>
HammockStatus MakeExecutable(auto&... args) {
  const HammockPlugin& table = Tables().original;
  const HammockStatus status = (table.*kField)(args...);
  HammockCompiled* compiled = std::get<sizeof...(args) - 2>(std::tie(args...));
  if (status == HAMMOCK_OK) executable_handles.Give(compiled->executable);
  return status;
}

int64_t BytesInUse() {
  const HammockPlugin& table = Tables().original;
  HammockMemoryInfo info = {};
  info.struct_size = sizeof(info);
  HammockError error = {sizeof(HammockError), -1, {}, {}};
  return table.memory_info(table.self, 0, &info, &error) == HAMMOCK_OK ? info.in_use : 0;
}

void WatchHandles() {
  HammockPlugin& table = Tables().wrapped;
  table.upload = [](void* self, int64_t device, uint64_t count, const HammockHostTensor* tensors,
                    HammockData* data, HammockError* error) {
    const HammockStatus status =
        Tables().original.upload(self, device, count, tensors, data, error);
    for (uint64_t i = 0; status == HAMMOCK_OK && i < count; ++i) data_handles.Give(data[i]);
    return status;
  };
  if (table.copy) {
    table.copy = [](void* self, HammockData data, int64_t to, HammockData* copy,
                    HammockError* error) {
      const HammockStatus status = Tables().original.copy(self, data, to, copy, error);
      if (status == HAMMOCK_OK) data_handles.Give(*copy);
      return status;
    };
  }
  table.execute = [](void* self, const HammockExecution* call, HammockError* error) {
    const HammockStatus status = Tables().original.execute(self, call, error);
    for (uint64_t i = 0; status == HAMMOCK_OK && i < call->result_count; ++i) {
      data_handles.Give(call->results[i].data);
    }
    return status;
  };
  table.release = [](void* self, uint64_t count, const HammockData* data) {
    for (uint64_t i = 0; i < count; ++i) data_handles.TakeBack(data[i]);
    Tables().original.release(self, count, data);
  };
  table.compile = [](auto... args) { return MakeExecutable<&HammockPlugin::compile>(args...); };
  if (table.instantiate) {
    table.instantiate = [](auto... args) {
      return MakeExecutable<&HammockPlugin::instantiate>(args...);
    };
  }
  if (table.deserialize) {
    table.deserialize = [](auto... args) {
      return MakeExecutable<&HammockPlugin::deserialize>(args...);
    };
  }
  table.release_executable = [](void* self, HammockExecutable executable) {
    executable_handles.TakeBack(executable);
    Tables().original.release_executable(self, executable);
  };
  table.shutdown = [](void* self) {
    bytes_at_the_end = BytesInUse();
    if (Tables().original.shutdown) Tables().original.shutdown(self);
  };
}

// ---- Descriptions

/// One description, and the number of nodes that its kernels may name.
struct Described {
  uint32_t nodes;
  std::string wrong = {};
};

void CheckDescription(HammockExecutable executable, HammockBytes graph) {
  const HammockPlugin& table = Tables().original;
  HammockGraph opened;
  if (!table.describe_executable || !hammock_graph_open(graph, &opened)) return;
  Described described{hammock_node_count(&opened)};
  auto kernel = [](void* context, const HammockKernel* given) {
    auto& made = *static_cast<Described*>(context);
    if (!given || given->struct_size < offsetof(HammockKernel, flops) + sizeof(given->flops)) {
      made.wrong = "a kernel without the size of its struct";
      return;
    }
    if (!given->name || !given->kind) made.wrong = "a kernel without a name or kind";
    for (uint32_t i = 0; i < given->node_count; ++i) {
      const int32_t node = given->nodes[i];
      if (node >= 0 && static_cast<uint32_t>(node) < made.nodes) continue;
      made.wrong = fmt::format("kernel '{}' names node {} of {}", given->name ? given->name : "",
                               node, made.nodes);
    }
  };
  auto peak = [](void* context, int64_t bytes) {
    if (bytes < 0) static_cast<Described*>(context)->wrong = "a peak below 0";
  };
  auto text = [](void* context, const char* graph_text, uint64_t size) -> HammockStatus {
    auto& made = *static_cast<Described*>(context);
    try {
      made.nodes = static_cast<uint32_t>(ParseGraph({graph_text, size}).size());
    } catch (const Error& error) {
      made.wrong = std::string("its graph: ") + error.what();
    }
    return HAMMOCK_OK;
  };
  table.describe_executable(table.self, executable, {&described, kernel, peak, text});
  if (!described.wrong.empty()) Watch().Say("a description has " + described.wrong);
}

}  // namespace

std::string RepeatsCapabilities(const Subject& subject) {
  Device device = OpenWrapped(subject, [] {
    if (Tables().original.capabilities) Tables().wrapped.capabilities = AskTwice;
  });
  if (!Tables().original.capabilities) throw SkippedRule{"it runs all primitives"};
  RunSteps(device);
  return Watch().wrong;
}

std::string KeepsItsFingerprint(const Subject& subject) {
  Device device = Open(subject);
  auto fingerprint = [&] { return device.backend().Fingerprint(device.backend_device()); };
  const std::string first = fingerprint();
  RunSteps(device);
  const std::string after = fingerprint();
  if (after == first) return "";
  return fmt::format("it was '{}', and after some steps '{}'\n", first, after);
}

std::string GivesHandlesOnce(const Subject& subject) {
  {
    Device device = OpenWrapped(subject, WatchHandles);
    const int64_t before = BytesInUse();
    RunSteps(device);
    SetDefaultDevice("reference");
    lazy::UnregisterBackend(device.type(), true);
    if (bytes_at_the_end > before) {
      Watch().Say(
          fmt::format("{} bytes are in use when all handles went back", bytes_at_the_end - before));
    }
  }
  for (const Handles* handles : {&data_handles, &executable_handles}) {
    if (handles->live.empty()) continue;
    Watch().Say(fmt::format("{} handle(s) of kind {} did not go back", handles->live.size(),
                            handles->kind));
  }
  return Watch().wrong;
}

std::string DescribesExecutables(const Subject& subject) {
  Device device = OpenWrapped(subject, [] {
    Tables().wrapped.compile = [](void* self, const HammockCompilation* request,
                                  HammockCompiled* compiled, HammockError* error) {
      const HammockStatus status = Tables().original.compile(self, request, compiled, error);
      if (status == HAMMOCK_OK) CheckDescription(compiled->executable, request->graph);
      return status;
    };
  });
  if (!Tables().original.describe_executable) throw SkippedRule{"it describes no executables"};
  RunSteps(device);
  return Watch().wrong;
}

std::string CountsMemory(const Subject& subject) {
  const DirectDevice device(Open(subject));
  std::string wrong;
  auto info = [&](const char* when) {
    const lazy::MemoryInfo now = device.backend.GetMemoryInfo(device.where);
    if (now.in_use < 0 || now.derived < 0 || now.reserved < 0) {
      wrong += fmt::format("{}: bytes below 0\n", when);
    }
    if (now.peak < now.in_use) {
      wrong += fmt::format("{}: peak {} is below in_use {}\n", when, now.peak, now.in_use);
    }
    return now;
  };
  constexpr int64_t kElements = 1 << 16;
  const HostTensor given = Ramp(f32, {kElements});
  SHOWN(auto twice = device.Compile(TwiceGraph("65536")));
  const int64_t before = info("at first").in_use;
  SHOWN(BackendDataPtr x = device.Upload(given); BackendDataPtr y = device.Run(twice, {x})[0]);
  const int64_t during = info("with data").in_use;
  if (during - before < 2 * kElements * 4) {
    wrong += fmt::format("{} bytes of data count as {}\n", 2 * kElements * 4, during - before);
  }
  SHOWN(device.backend.FreeCachedMemory(device.where));
  info("after free_cached_memory");
  if (std::string lost = Difference(device.Download(x), given); !lost.empty()) {
    wrong += "free_cached_memory changes a value: " + lost + "\n";
  }
  SHOWN(BackendDataPtr again = device.Run(twice, {x})[0]);
  const std::string differs = BitDifference(device.Download(again), device.Download(y));
  if (!differs.empty()) wrong += "a run after free_cached_memory: " + differs + "\n";
  return wrong;
}

std::string KeepsNothingOfFailedCalls(const Subject& subject) {
  const DirectDevice device(Open(subject));
  constexpr int64_t kElements = 1 << 18;
  const HostTensor small = Ramp(f32, {1024}), large = Ramp(f32, {4 * kElements});
  auto in_use = [&] { return device.backend.GetMemoryInfo(device.where).in_use; };
  std::string body = fmt::format("%0 = input : f32[{}]\n", kElements);
  for (int i = 1; i <= 8; ++i) {
    body += fmt::format("%{} = add %{}, %0 : f32[{}]\n", i, i - 1, kElements);
  }
  SHOWN(auto sums = device.Compile(body + "return %1, %2, %3, %4, %5, %6, %7, %8");
        BackendDataPtr x = device.Upload(Ramp(f32, {kElements})));
  device.backend.FreeCachedMemory(device.where);
  const int64_t before = in_use();
  try {
    device.backend.SetMemoryLimit(device.where, before + 3 * kElements * 4);
  } catch (const NotSupported&) {
    throw SkippedRule{"memory cannot be limited, so that no call fails"};
  }
  std::string wrong;
  auto fails = [&](const char* what, const std::function<void()>& call) {
    for (int i = 0; i < 5; ++i) wrong += ExpectError<OutOfMemory>(what, call);
    device.backend.WaitForDevice(device.where);
    const int64_t left = in_use() - before;
    if (left > 4096) wrong += fmt::format("{}: five failed calls keep {} bytes\n", what, left);
  };
  fails("an upload over the limit, behind others in the same call", [&] {
    device.backend.MakeComputationDataFromTensors(std::vector{small, small, large}, device.where);
  });
  fails("a run whose results are over the limit", [&] { device.Run(sums, {x}); });
  return wrong;
}

}  // namespace hammock::tool
