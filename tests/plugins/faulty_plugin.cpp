// A plug-in that breaks the rule of `hammock conform` that the variable FAULT names, and works
// without it. The rest is that of the reference backend.

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "hammock/lazy/plugin_adaptor.h"
#include "hammock/plugin_graph.h"

namespace {

using namespace hammock;

HammockPlugin good, table;
std::mutex mutex;
std::atomic<int> calls{0};

bool Has(const char* fault) {
  const char* given = std::getenv("FAULT");
  return given && std::strcmp(given, fault) == 0;
}

/// Sizes of the results of an executable, and what was noted about it.
struct Known {
  std::vector<Shape> results;
  bool instance = false;
  std::thread::id thread;
};
std::map<HammockExecutable, Known> executables;
/// Data that has two owners, who notice when one of them is written.
std::map<HammockData, int> shared;
std::atomic<bool> written{false};

HammockData Share(HammockData data) {
  std::lock_guard lock(mutex);
  shared[data] = 2;
  return data;
}

/// An upload of ones in place of the first result.
void Spoil(const HammockExecution* call, HammockError* error) {
  std::unique_lock lock(mutex);
  const std::vector<Shape> results = executables[call->executable].results;
  lock.unlock();
  if (results.empty()) return;  // a loaded one
  const Shape& shape = results[0];
  HostTensor ones(shape);
  for (int64_t i = 0; i < ones.numel(); ++i) ones.set(i, Scalar(1).To(shape.dtype()));
  const HammockHostTensor given = {{static_cast<uint32_t>(shape.dtype()),
                                    static_cast<uint32_t>(shape.rank()), shape.sizes().begin()},
                                   {ones.data(), static_cast<uint64_t>(ones.bytes())},
                                   0};
  good.release(good.self, 1, &call->results[0].data);
  good.upload(good.self, call->device, 1, &given, &call->results[0].data, error);
}

HammockStatus Upload(void* self, int64_t device, uint64_t count, const HammockHostTensor* tensors,
                     HammockData* data, HammockError* error) {
  if (!Has("failed_calls")) return good.upload(self, device, count, tensors, data, error);
  for (uint64_t i = 0; i < count; ++i) {  // those that were made stay
    const HammockStatus status = good.upload(self, device, 1, tensors + i, data + i, error);
    if (status != HAMMOCK_OK) return status;
  }
  return HAMMOCK_OK;
}

void Release(void* self, uint64_t count, const HammockData* data) {
  if (Has("handles")) return;
  std::lock_guard lock(mutex);
  for (uint64_t i = 0; i < count; ++i) {
    const auto owners = shared.find(data[i]);
    if (owners == shared.end() || --owners->second == 0) good.release(self, 1, data + i);
  }
}

HammockStatus Download(void* self, uint64_t count, const HammockData* data, void* const* places,
                       HammockError* error) {
  const HammockStatus status = good.download(self, count, data, places, error);
  std::lock_guard lock(mutex);
  for (uint64_t i = 0; status == HAMMOCK_OK && i < count; ++i) {
    if (written && shared.contains(data[i])) *static_cast<char*>(places[i]) ^= 1;
  }
  return status;
}

HammockStatus Copy(void*, HammockData data, int64_t, HammockData* copy, HammockError*) {
  *copy = Share(data);
  return HAMMOCK_OK;
}

HammockStatus MemoryInfo(void* self, int64_t device, HammockMemoryInfo* info, HammockError* error) {
  const HammockStatus status = good.memory_info(self, device, info, error);
  if (Has("memory_counts")) info->peak = info->in_use - 1;
  return status;
}

HammockStatus Capabilities(void* self, int64_t device, HammockBytes graph, HammockAnswers answers,
                           HammockError* error) {
  const HammockStatus status = good.capabilities(self, device, graph, answers, error);
  if (Has("capabilities_repeat") && calls++ % 2) {
    answers.answer(answers.context, 0, HAMMOCK_REFUSE, "not today");
  }
  return status;
}

HammockStatus Compile(void* self, const HammockCompilation* request, HammockCompiled* compiled,
                      HammockError* error) {
  const HammockStatus status = good.compile(self, request, compiled, error);
  if (status != HAMMOCK_OK) return status;
  HammockGraph graph;
  Known known;
  hammock_graph_open(request->graph, &graph);
  for (uint32_t i = 0; i < hammock_output_count(&graph); ++i) {
    const HammockValue value = hammock_output(&graph, i);
    const HammockNode node = hammock_node(&graph, static_cast<uint32_t>(value.node));
    const HammockShape type = hammock_result_type(&node, static_cast<uint32_t>(value.index));
    known.results.push_back(
        Shape(static_cast<DType>(type.dtype), Dims(std::span(type.sizes, type.rank))));
  }
  std::lock_guard lock(mutex);
  executables[compiled->executable] = known;
  return status;
}

HammockStatus Instantiate(void* self, HammockExecutable executable, uint64_t count,
                          const int64_t* sizes, HammockCompiled* compiled, HammockError* error) {
  const HammockStatus status = good.instantiate(self, executable, count, sizes, compiled, error);
  std::lock_guard lock(mutex);
  if (status == HAMMOCK_OK) {
    Known known = executables[executable];
    known.instance = true;
    known.results[0] = Shape(f32, {sizes[0]});
    executables[compiled->executable] = known;
  }
  return status;
}

HammockStatus Execute(void* self, const HammockExecution* call, HammockError* error) {
  if (Has("crash")) std::abort();
  HammockExecution inner = *call;
  if (Has("own_memory") || Has("copies")) inner.donated = nullptr;  // it may have two owners
  const HammockStatus status = good.execute(self, &inner, error);
  if (status != HAMMOCK_OK) return status;
  std::unique_lock lock(mutex);
  Known& known = executables[call->executable];
  const bool first = known.thread == std::thread::id();
  if (first) known.thread = std::this_thread::get_id();
  const bool elsewhere = known.thread != std::this_thread::get_id() && !known.results.empty() &&
                         known.results[0].numel() == 1000;
  const bool instance = known.instance;
  lock.unlock();
  if (Has("own_memory") && call->result_count == 3) {
    good.release(self, 1, &call->results[2].data);
    call->results[2].data = Share(call->results[1].data);
  }
  if (call->donated && call->donated[0]) written = true;
  if (Has("random_programs") || (Has("repeated_runs") && !first) ||
      (Has("shared_executable") && elsewhere) || (Has("instances") && instance) ||
      (Has("seeds") && calls > 0)) {
    Spoil(call, error);
  }
  return status;
}

void DescribeExecutable(void* self, HammockExecutable executable, HammockDescription description) {
  good.describe_executable(self, executable, description);
  const int32_t node = 9999;
  const HammockKernel kernel = {sizeof(HammockKernel), 1, &node, "wild", "kernel", nullptr, 0, 0};
  description.kernel(description.context, &kernel);
}

HammockStatus Fingerprint(void*, int64_t, HammockWriter text, HammockError*) {
  hammock_write(text, std::to_string(calls++).c_str());
  return HAMMOCK_OK;
}

void SetSeed(void*, uint64_t) { ++calls; }

}  // namespace

extern "C" const HammockPlugin* hammock_plugin(const HammockHost* given) {
  static int loads = 0;
  if (Has("faults") && loads++ > 0) return nullptr;  // as after an initialize that failed
  good = table = *plugins::Adapt(
      "faulty", "1.0", [] { return lazy::getBackend("reference"); }, given);
  table.upload = Upload;
  table.release = Release;
  table.download = Download;
  table.memory_info = MemoryInfo;
  table.capabilities = Capabilities;
  table.compile = Compile;
  table.instantiate = Instantiate;
  table.execute = Execute;
  if (Has("copies")) table.copy = Copy;
  if (Has("descriptions")) table.describe_executable = DescribeExecutable;
  if (Has("fingerprint")) table.fingerprint = Fingerprint;
  if (Has("seeds")) table.set_seed = SetSeed;
  // Sizes of results are known of compiled graphs alone.
  if (std::getenv("FAULT") && !Has("instances") && !Has("none")) {
    table.properties &= ~uint32_t{HAMMOCK_DIM_PARAMS};
  }
  return &table;
}
