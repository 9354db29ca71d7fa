#include "backends/cuda/driver/fake_driver.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace hammock::cuda {
namespace {

using Address = unsigned long long;
using Op = std::function<void()>;

constexpr int kRefused = 900;
constexpr size_t kPageable = 1 << 16;  // bytes that a driver takes before it returns

FakeKernels kernels;
std::atomic<int64_t> stream_count, waits, launches, graph_launches, misuses, early_launches;
int primary_context;
thread_local void* current_context = nullptr;

bool HasContext() { return current_context == &primary_context; }

int Refuse(const char* what) {
  ++misuses;
  std::fprintf(stderr, "fake driver: %s\n", what);
  return kRefused;
}

/// Allocations, by address.
class Ranges {
 public:
  void Add(Address at, size_t bytes) {
    std::lock_guard lock(mutex_);
    bytes_[at] = bytes;
  }
  size_t Remove(Address at) {
    std::lock_guard lock(mutex_);
    return bytes_.extract(at).mapped();
  }
  bool Has(Address at, size_t bytes) {
    std::lock_guard lock(mutex_);
    auto above = bytes_.upper_bound(at);
    if (above == bytes_.begin()) return false;
    auto [begin, size] = *std::prev(above);
    return at + bytes <= begin + size;
  }

 private:
  std::mutex mutex_;
  std::map<Address, size_t> bytes_;
};
Ranges& DeviceMemory() {
  static auto& ranges = *new Ranges;
  return ranges;
}
Ranges& PinnedMemory() {
  static auto& ranges = *new Ranges;
  return ranges;
}

struct Graph {
  std::vector<Op> ops;
};

class Stream;

struct Exec {
  std::vector<Op> ops;
  std::atomic<Stream*> stream{nullptr};  // that it was launched on
};

class Stream {
 public:
  Stream() : random_(static_cast<unsigned>(++stream_count)) {
    std::thread(&Stream::Work, this).detach();
  }

  void Ask(Op op) {
    std::lock_guard lock(mutex_);
    if (capturing_) {
      capturing_->ops.push_back(std::move(op));
    } else {
      ops_.push_back(std::move(op));
      changed_.notify_all();
    }
  }
  bool is_capturing() {
    std::lock_guard lock(mutex_);
    return capturing_ != nullptr;
  }
  void BeginCapture() {
    std::lock_guard lock(mutex_);
    capturing_ = std::make_unique<Graph>();
  }
  Graph* EndCapture() {
    std::lock_guard lock(mutex_);
    return capturing_.release();
  }
  void Finish() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ops_.empty() && !busy_; });
  }

 private:
  void Work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return !ops_.empty(); });
      Op op = std::move(ops_.front());
      ops_.pop_front();
      busy_ = true;
      lock.unlock();
      if (random_() % 3 == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(random_() % 300));
      }
      op();
      op = nullptr;
      lock.lock();
      busy_ = false;
      changed_.notify_all();
    }
  }

  std::minstd_rand random_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Op> ops_;
  bool busy_ = false;
  std::unique_ptr<Graph> capturing_;
};

/// Outlives the event in streams that wait for it.
class Recorded {
 public:
  uint64_t Record() {
    std::lock_guard lock(mutex_);
    return ++recorded_;
  }
  uint64_t last() {
    std::lock_guard lock(mutex_);
    return recorded_;
  }
  void Pass(uint64_t number) {
    std::lock_guard lock(mutex_);
    passed_ = std::max(passed_, number);
    changed_.notify_all();
  }
  void Wait(uint64_t number) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return passed_ >= number; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t recorded_ = 0, passed_ = 0;
};
struct Event {
  std::shared_ptr<Recorded> recorded = std::make_shared<Recorded>();
};

std::mutex streams_mutex;
std::vector<Stream*>& Streams() {
  static auto& streams = *new std::vector<Stream*>;
  return streams;
}

struct Function {
  void (*code)(const uint64_t*) = nullptr;
  size_t bytes = 0;    // of its argument
  bool waits = false;  // for the kernels before it
};
/// Has one function.
struct Module {
  Function function;
};

/// `text` has the kernel in namespace NAME_parts.
bool CompileKernel(const std::string& text, Function& function) {
  const size_t end = text.find("_parts {");
  const size_t begin = text.rfind("namespace ", end) + std::strlen("namespace ");
  const std::string name = text.substr(begin, end - begin), in = name + "_parts::" + name;
  std::string folder = std::filesystem::temp_directory_path() / "hammock-fake-driver-XXXXXX";
  if (!mkdtemp(folder.data())) return false;
  const std::string base = folder + "/kernel";
  std::ofstream(base + ".cpp") << kernels.prelude << text
                               << "\nextern \"C\" void run(const unsigned long long* words) {\n  "
                               << in << "(*(const " << in << "_words*)words);\n}\n"
                               << "extern \"C\" unsigned long size() { return sizeof(" << in
                               << "_words); }\n";
  const std::string command =
      "g++ -std=c++20 -w -O1 -ffp-contract=off -fPIC -shared -fno-gnu-unique -march=native -o " +
      base + ".so " + base + ".cpp -lm";
  void* library = std::system(command.c_str()) == 0
                      ? dlopen((base + ".so").c_str(), RTLD_NOW | RTLD_LOCAL)
                      : nullptr;
  std::filesystem::remove_all(folder);
  if (!library) return false;
  function.waits = text.find("  wait_for_earlier_kernels();", end) != std::string::npos;
  reinterpret_cast<void (*)(void*)>(dlsym(library, "set_emulated"))(kernels.thread);
  function.code = reinterpret_cast<void (*)(const uint64_t*)>(dlsym(library, "run"));
  function.bytes = reinterpret_cast<unsigned long (*)()>(dlsym(library, "size"))();
  return true;
}

void* Pointer(Address at) { return reinterpret_cast<void*>(at); }

/// Asks a stream for work on these bytes of the device.
int Ask(Stream* stream, std::initializer_list<Address> memory, size_t bytes, Op op) {
  if (!HasContext()) return Refuse("its context is not current");
  for (Address at : memory) {
    if (!DeviceMemory().Has(at, bytes)) return Refuse("no memory of the device");
  }
  stream->Ask(std::move(op));
  return 0;
}

/// Asks for what a stream refuses while it is captured: nothing may depend on what is not done.
int AskNow(Stream* stream, const char* what, Op op) {
  if (!HasContext()) return Refuse("its context is not current");
  if (stream->is_capturing()) return Refuse(what);
  stream->Ask(std::move(op));
  return 0;
}

}  // namespace
}  // namespace hammock::cuda

using namespace hammock::cuda;

#define DRIVER extern "C" __attribute__((visibility("default")))

DRIVER void set_fake_kernels(const FakeKernels& given) { kernels = given; }
DRIVER FakeCounts get_fake_counts() {
  return {stream_count, waits, launches, graph_launches, misuses, early_launches};
}

// ---- Devices

DRIVER int cuInit(unsigned) { return 0; }
DRIVER int cuDriverGetVersion(int* version) {
  *version = 12000;
  return 0;
}
DRIVER int cuDeviceGetCount(int* count) {
  *count = 1;
  return 0;
}
DRIVER int cuDeviceGet(int* device, int) {
  *device = 0;
  return 0;
}
DRIVER int cuDeviceGetName(char* name, int size, int) {
  std::snprintf(name, static_cast<size_t>(size), "a fake");
  return 0;
}
DRIVER int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = size_t{8} << 30;
  return 0;
}
DRIVER int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 75 ? 10 : 0;  // compute capability
  return 0;
}
DRIVER int cuDevicePrimaryCtxRetain(void** context, int) {
  *context = &primary_context;
  return 0;
}
DRIVER int cuCtxSetCurrent(void* context) {
  current_context = context;
  return 0;
}
DRIVER int cuCtxGetCurrent(void** context) {
  *context = current_context;
  return 0;
}
DRIVER int cuGetErrorName(int, const char** name) {
  *name = "FAKE";
  return 0;
}
DRIVER int cuGetErrorString(int, const char** text) {
  *text = "the fake driver refuses it";
  return 0;
}

// ---- Memory; it is never what one would hope for

DRIVER int cuMemAlloc_v2(Address* at, size_t bytes) {
  if (!HasContext()) return Refuse("its context is not current");
  void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(memory, 0xEE, bytes);
  *at = reinterpret_cast<Address>(memory);
  DeviceMemory().Add(*at, bytes);
  return 0;
}
DRIVER int cuMemFree_v2(Address at) {
  std::vector<Stream*> streams;
  {
    std::lock_guard lock(streams_mutex);
    streams = Streams();
  }
  for (Stream* stream : streams) stream->Finish();
  std::memset(Pointer(at), 0xDD, DeviceMemory().Remove(at));
  std::free(Pointer(at));
  return 0;
}
DRIVER int cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  *memory = std::malloc(bytes);
  PinnedMemory().Add(reinterpret_cast<Address>(*memory), bytes);
  return 0;
}
DRIVER int cuMemFreeHost(void* memory) {
  PinnedMemory().Remove(reinterpret_cast<Address>(memory));
  std::free(memory);
  return 0;
}
DRIVER int cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, Stream* stream) {
  if (PinnedMemory().Has(reinterpret_cast<Address>(from), bytes)) {
    return Ask(stream, {to}, bytes, [=] { std::memcpy(Pointer(to), from, bytes); });
  }
  if (bytes > kPageable) return Refuse("a large copy from memory that is not pinned");
  std::string kept(static_cast<const char*>(from), bytes);
  return Ask(stream, {to}, bytes, [=] { std::memcpy(Pointer(to), kept.data(), bytes); });
}
DRIVER int cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, Stream* stream) {
  return Ask(stream, {from}, bytes, [=] { std::memcpy(to, Pointer(from), bytes); });
}
DRIVER int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, Stream* stream) {
  return Ask(stream, {to, from}, bytes, [=] { std::memcpy(Pointer(to), Pointer(from), bytes); });
}
DRIVER int cuMemcpyPeerAsync(Address to, void*, Address from, void*, size_t bytes, Stream* stream) {
  return cuMemcpyDtoDAsync_v2(to, from, bytes, stream);
}
DRIVER int cuMemsetD8Async(Address at, unsigned char value, size_t bytes, Stream* stream) {
  return Ask(stream, {at}, bytes, [=] { std::memset(Pointer(at), value, bytes); });
}

// ---- Streams and events

/// 1 is the handle of the default stream.
Stream* StreamOf(Stream* handle) {
  if (handle != reinterpret_cast<Stream*>(1)) return handle;
  static Stream* const default_stream = new Stream;
  return default_stream;
}
DRIVER int cuStreamCreate(Stream** stream, unsigned) {
  std::lock_guard lock(streams_mutex);
  Streams().push_back(*stream = new Stream);
  return 0;
}
DRIVER int cuStreamWaitEvent(Stream* handle, Event* event, unsigned) {
  Stream* stream = StreamOf(handle);
  ++waits;
  std::shared_ptr<Recorded> recorded = event->recorded;
  return AskNow(stream, "a captured stream waits",
                [recorded, number = recorded->last()] { recorded->Wait(number); });
}
DRIVER int cuStreamSynchronize(Stream* stream) {
  if (stream->is_capturing()) return Refuse("somebody waits for a captured stream");
  stream->Finish();
  return 0;
}
DRIVER int cuStreamWriteValue32_v2(Stream* stream, Address at, uint32_t value, unsigned) {
  return AskNow(stream, "a captured stream writes a word", [=] {
    __atomic_store_n(static_cast<uint32_t*>(Pointer(at)), value, __ATOMIC_RELEASE);
  });
}
DRIVER int cuEventCreate(Event** event, unsigned) {
  *event = new Event;
  return 0;
}
DRIVER int cuEventRecord(Event* event, Stream* handle) {
  Stream* stream = StreamOf(handle);
  std::shared_ptr<Recorded> recorded = event->recorded;
  return AskNow(stream, "an event is recorded in a captured stream",
                [recorded, number = recorded->Record()] { recorded->Pass(number); });
}
DRIVER int cuEventSynchronize(Event* event) {
  std::shared_ptr<Recorded> recorded = event->recorded;
  recorded->Wait(recorded->last());
  return 0;
}
DRIVER int cuEventDestroy_v2(Event* event) {
  delete event;
  return 0;
}
DRIVER int cuEventElapsedTime(float* milliseconds, Event*, Event*) {
  *milliseconds = 0;
  return 0;
}

// ---- Kernels

DRIVER int cuModuleLoadData(Module** module, const char* text) {
  auto loaded = std::make_unique<Module>();
  if (!CompileKernel(text, loaded->function)) return Refuse("a kernel cannot be compiled");
  *module = loaded.release();
  return 0;
}
DRIVER int cuModuleUnload(Module*) { return 0; }  // it may be under way
DRIVER int cuModuleGetFunction(Function** function, Module* module, const char*) {
  *function = &module->function;
  return 0;
}
DRIVER int cuLaunchKernel(Function* function, unsigned grid_x, unsigned grid_y, unsigned,
                          unsigned block_x, unsigned block_y, unsigned, unsigned, Stream* stream,
                          void** parameters, void**) {
  ++launches;
  std::vector<uint64_t> arguments(function->bytes / 8);
  std::memcpy(arguments.data(), parameters[0], function->bytes);
  return Ask(stream, {}, 0, [=] {
    static std::mutex one_at_a_time;
    std::lock_guard lock(one_at_a_time);
    kernels.run_blocks(grid_x, grid_y, block_x, block_y, true,
                       [&] { function->code(arguments.data()); });
  });
}

struct LaunchAttribute {
  int id, unused, value, rest[15];
};
struct LaunchConfig {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  Stream* stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};
/// Kernels that do not wait for earlier ones must not be launched early.
DRIVER int cuLaunchKernelEx(const LaunchConfig* config, Function* function, void** parameters,
                            void** extra) {
  const bool early = config->attribute_count == 1 && config->attributes[0].id == 6 &&
                     config->attributes[0].value == 1;
  if (!early || !function->waits) return Refuse("a launch with these attributes");
  ++early_launches;
  return cuLaunchKernel(function, config->grid_x, config->grid_y, config->grid_z, config->block_x,
                        config->block_y, config->block_z, config->shared_bytes, config->stream,
                        parameters, extra);
}

// ---- Graphs

DRIVER int cuStreamBeginCapture_v2(Stream* stream, int) {
  if (stream->is_capturing()) return Refuse("a stream is captured twice");
  stream->BeginCapture();
  return 0;
}
DRIVER int cuStreamEndCapture(Stream* stream, Graph** graph) {
  *graph = stream->EndCapture();
  return 0;
}
DRIVER int cuGraphInstantiateWithFlags(Exec** exec, Graph* graph, unsigned long long) {
  *exec = new Exec;
  (*exec)->ops = graph->ops;
  return 0;
}
DRIVER int cuGraphLaunch(Exec* exec, Stream* stream) {
  ++graph_launches;
  Stream* before = exec->stream.exchange(stream);
  if (before && before != stream) return Refuse("launches of a graph on two streams would wait");
  for (const Op& op : exec->ops) stream->Ask(op);
  return 0;
}
DRIVER int cuGraphExecDestroy(Exec* exec) {
  delete exec;
  return 0;
}
DRIVER int cuGraphDestroy(Graph* graph) {
  delete graph;
  return 0;
}

// ---- NVRTC: the code is the text

struct Program {
  std::string text;
};

DRIVER int nvrtcVersion(int* major, int* minor) {
  *major = *minor = 0;
  return 0;
}
DRIVER int nvrtcCreateProgram(Program** program, const char* text, const char*, int,
                              const char* const*, const char* const*) {
  *program = new Program{text};
  return 0;
}
DRIVER int nvrtcCompileProgram(Program*, int, const char* const*) { return 0; }
DRIVER int nvrtcGetCUBINSize(Program* program, size_t* bytes) {
  *bytes = program->text.size() + 1;
  return 0;
}
DRIVER int nvrtcGetCUBIN(Program* program, char* code) {
  std::memcpy(code, program->text.c_str(), program->text.size() + 1);
  return 0;
}
DRIVER int nvrtcGetPTXSize(Program* program, size_t* bytes) {
  return nvrtcGetCUBINSize(program, bytes);
}
DRIVER int nvrtcGetPTX(Program* program, char* text) { return nvrtcGetCUBIN(program, text); }
DRIVER int nvrtcGetProgramLogSize(Program*, size_t* bytes) {
  *bytes = 0;
  return 0;
}
DRIVER int nvrtcGetProgramLog(Program*, char*) { return 0; }
DRIVER int nvrtcDestroyProgram(Program** program) {
  delete *program;
  return 0;
}
