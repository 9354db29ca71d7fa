// A plug-in that breaks the rule of `hammock conform` that the variable FAULT names, and works
// without it. The rest is that of the reference backend.

#include <unistd.h>

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
  bool instance = false, loaded = false;
  bool floors = false;  // whether it has a node of that op
  std::thread::id thread;
};
std::map<HammockExecutable, Known> executables;
/// Where the bytes of a value lay that was uploaded.
struct Uploaded {
  uint32_t dtype;
  HammockBytes bytes;
};
std::map<HammockData, Uploaded> uploads;
std::atomic<bool> hanging{false};
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
  if (results.empty()) return;
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

void HangForEver() {
  hanging = true;
  for (;;) pause();
}

HammockStatus Upload(void* self, int64_t device, uint64_t count, const HammockHostTensor* tensors,
                     HammockData* data, HammockError* error) {
  if (!Has("failed_calls")) {
    std::vector<HammockHostTensor> given(tensors, tensors + count);
    for (HammockHostTensor& each : given) {
      if (Has("borrowed_arguments")) each.buffer = 0;  // so that it is not retained
    }
    const HammockStatus status = good.upload(self, device, count, given.data(), data, error);
    std::lock_guard lock(mutex);
    for (uint64_t i = 0; status == HAMMOCK_OK && i < count; ++i) {
      uploads[data[i]] = {tensors[i].shape.dtype, tensors[i].bytes};
    }
    return status;
  }
  for (uint64_t i = 0; i < count; ++i) {  // those that were made stay
    const HammockStatus status = good.upload(self, device, 1, tensors + i, data + i, error);
    if (status != HAMMOCK_OK) return status;
  }
  return HAMMOCK_OK;
}

void Release(void* self, uint64_t count, const HammockData* data) {
  if (Has("handles") || Has("memory_returns")) return;
  if (hanging) HangForEver();
  std::lock_guard lock(mutex);
  for (uint64_t i = 0; i < count; ++i) {
    uploads.erase(data[i]);
    const auto owners = shared.find(data[i]);
    if (owners == shared.end() || --owners->second == 0) good.release(self, 1, data + i);
  }
}

void SpoilDownload(const Uploaded& upload, void* place) {
  const auto [bytes, size] = upload.bytes;
  if (Has("borrowed_arguments")) std::memcpy(place, bytes, size);
  if (Has("download_overrun")) static_cast<char*>(place)[size] = 0;
  auto* elements = static_cast<float*>(place);
  for (uint64_t i = 0; Has("every_dtype") && upload.dtype == HAMMOCK_F32 && i < size / 4; ++i) {
    elements[i] += 0.0f;  // no zero stays negative
  }
}

HammockStatus Download(void* self, uint64_t count, const HammockData* data, void* const* places,
                       HammockError* error) {
  const HammockStatus status = good.download(self, count, data, places, error);
  std::lock_guard lock(mutex);
  for (uint64_t i = 0; status == HAMMOCK_OK && i < count; ++i) {
    if (written && shared.contains(data[i])) *static_cast<char*>(places[i]) ^= 1;
    const auto upload = uploads.find(data[i]);
    if (upload != uploads.end()) SpoilDownload(upload->second, places[i]);
  }
  if (Has("batched_transfers") && count > 1) *static_cast<char*>(places[1]) ^= 1;
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
  HammockGraph opened;
  hammock_graph_open(graph, &opened);
  for (uint32_t i = 0; Has("all_primitives") && i < hammock_node_count(&opened); ++i) {
    if (std::strcmp(hammock_node(&opened, i).op, "floor") != 0) continue;
    answers.answer(answers.context, static_cast<int32_t>(i), HAMMOCK_REFUSE, "no floors");
  }
  return status;
}

Known KnownOf(HammockBytes bytes) {
  HammockGraph graph;
  Known known;
  hammock_graph_open(bytes, &graph);
  for (uint32_t i = 0; i < hammock_output_count(&graph); ++i) {
    const HammockShape type = hammock_type(&graph, hammock_output(&graph, i));
    known.results.push_back(
        Shape(static_cast<DType>(type.dtype), Dims(std::span(type.sizes, type.rank))));
  }
  for (uint32_t i = 0; i < hammock_node_count(&graph); ++i) {
    known.floors |= std::strcmp(hammock_node(&graph, i).op, "floor") == 0;
  }
  return known;
}

HammockStatus Compile(void* self, const HammockCompilation* request, HammockCompiled* compiled,
                      HammockError* error) {
  const HammockStatus status = good.compile(self, request, compiled, error);
  if (status != HAMMOCK_OK) return status;
  std::lock_guard lock(mutex);
  executables[compiled->executable] = KnownOf(request->graph);
  return status;
}

HammockStatus Deserialize(void* self, const HammockCompilation* request, HammockBytes bytes,
                          HammockCompiled* compiled, HammockError* error) {
  HammockStatus status = good.deserialize(self, request, bytes, compiled, error);
  const bool damaged = status != HAMMOCK_OK && Has("damaged_bytes");
  if (damaged) status = good.compile(self, request, compiled, error);
  if (status != HAMMOCK_OK) return status;
  std::lock_guard lock(mutex);
  Known& known = executables[compiled->executable] = KnownOf(request->graph);
  known.loaded = damaged || Has("saved_computations");
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

/// After a run that failed.
HammockStatus Failed(HammockStatus status, const HammockExecution* call, HammockError* error) {
  if (Has("memory_pressure")) {  // it keeps some memory
    std::vector<float> kept(2048);
    const int64_t sizes[] = {2048};
    const HammockHostTensor given = {{HAMMOCK_F32, 1, sizes}, {kept.data(), 8192}, 0};
    HammockData data = 0;
    good.upload(good.self, call->device, 1, &given, &data, error);
  }
  if (!Has("async_errors") || status != HAMMOCK_INDEX_ERROR) return status;
  for (uint64_t i = 0; i < call->result_count; ++i) call->results[i].data = 0;
  Spoil(call, error);  // nobody hears of it
  return HAMMOCK_OK;
}

HammockStatus Execute(void* self, const HammockExecution* call, HammockError* error) {
  if (Has("crash")) std::abort();
  if (Has("hanging_execute")) HangForEver();
  HammockExecution inner = *call;
  const std::vector<uint8_t> all(call->argument_count, 1);
  if (Has("donation")) inner.donated = all.data();
  if (Has("own_memory") || Has("copies")) inner.donated = nullptr;  // it may have two owners
  const HammockStatus status = good.execute(self, &inner, error);
  if (status != HAMMOCK_OK) return Failed(status, call, error);
  std::unique_lock lock(mutex);
  Known& known = executables[call->executable];
  const bool first = known.thread == std::thread::id();
  if (first) known.thread = std::this_thread::get_id();
  const bool elsewhere = known.thread != std::this_thread::get_id() && !known.results.empty() &&
                         known.results[0].numel() == 1000;
  const bool instance = known.instance, loaded = known.loaded, floors = known.floors;
  lock.unlock();
  if (Has("own_memory") && call->result_count == 3) {
    good.release(self, 1, &call->results[2].data);
    call->results[2].data = Share(call->results[1].data);
  }
  if (call->donated && call->donated[0]) written = true;
  if (Has("random_programs") || Has("golden") || loaded || (Has("samples") && floors) ||
      (Has("repeated_runs") && !first) || (Has("shared_executable") && elsewhere) ||
      (Has("instances") && instance) || (Has("seeds") && calls > 0)) {
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

HammockStatus ShareAnotherValue(void*, HammockData, HammockLent* lent, HammockError*) {
  static const float kOthers[64] = {1};
  *lent = {reinterpret_cast<uint64_t>(kOthers), 1};
  return HAMMOCK_OK;
}
HammockStatus TakeBack(void*, HammockLoan, const uint64_t*, HammockError*) { return HAMMOCK_OK; }

HammockStatus SetMemoryLimit(void*, int64_t, int64_t, HammockError*) { return HAMMOCK_OK; }

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
  if (Has("lent_memory")) {
    table.share = ShareAnotherValue;
    table.take_back = TakeBack;
  }
  if (Has("memory_limit")) table.set_memory_limit = SetMemoryLimit;
  if (Has("hanging_shutdown")) table.shutdown = [](void*) { HangForEver(); };
  table.deserialize = Deserialize;
  // Sizes of results are known of compiled graphs alone.
  if (std::getenv("FAULT") && !Has("instances") && !Has("none")) {
    table.properties &= ~uint32_t{HAMMOCK_DIM_PARAMS};
  }
  return &table;
}
