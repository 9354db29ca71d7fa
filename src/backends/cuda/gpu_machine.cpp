#include "backends/cuda/gpu_machine.h"

#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "backends/cuda/blas.h"
#include "backends/cuda/dnn.h"
#include "backends/cuda/driver.h"
#include "backends/cuda/nvrtc.h"
#include "backends/cuda/scalar_text.h"
#include "base/file_cache.h"
#include "base/throw.h"
#include "hammock/config.h"
#include "hammock/metrics.h"

namespace hammock::cuda {
namespace {

constexpr int kMajor = 75;  // attributes of devices
constexpr int kMinor = 76;
constexpr unsigned kNonBlocking = 1;
constexpr unsigned kNoTiming = 2;
constexpr int kRelaxed = 2;
constexpr int64_t kStaging = 1 << 20;

class GpuFunction : public Function {
 public:
  std::string text;
  CUfunction function = nullptr;
};

class GpuMoment : public Moment {
 public:
  GpuMoment(const Driver& driver, CUevent event) : event(event), driver_(driver) {}
  ~GpuMoment() override { driver_.event_destroy(event); }
  const CUevent event;

 private:
  const Driver& driver_;
};

class GpuRecording : public Recording {
 public:
  GpuRecording(const Driver& driver, CUgraphExec exec) : exec(exec), driver_(driver) {}
  ~GpuRecording() override { driver_.graph_exec_destroy(exec); }
  const CUgraphExec exec;

 private:
  const Driver& driver_;
};

class GpuMachine : public Machine {
 public:
  explicit GpuMachine(int ordinal) : driver_(*TheDriver()) {
    driver_.Check(driver_.device_get(&device_, ordinal), "cuDeviceGet");
    char name[256] = {};
    driver_.Check(driver_.device_name(name, sizeof name, device_), "cuDeviceGetName");
    size_t bytes = 0;
    driver_.Check(driver_.device_memory(&bytes, device_), "cuDeviceTotalMem");
    memory_bytes_ = static_cast<int64_t>(bytes);
    int major = 0, minor = 0;
    driver_.Check(driver_.device_attribute(&major, kMajor, device_), "cuDeviceGetAttribute");
    driver_.Check(driver_.device_attribute(&minor, kMinor, device_), "cuDeviceGetAttribute");
    architecture_ = major * 10 + minor;
    name_ = fmt::format("{}, compute capability {}.{}", name, major, minor);
  }

  std::string name() const override { return name_; }
  int64_t memory_bytes() const override { return memory_bytes_; }
  std::string code_key() const override {
    return fmt::format("sm_{} nvrtc {}", architecture_, NvrtcVersion());
  }

  // ---- Memory

  Address TakeMemory(int64_t bytes) override {
    Enter();
    CUdeviceptr address = 0;
    CUresult result = driver_.memory_take(&address, static_cast<size_t>(bytes));
    if (result == kCudaOutOfMemory) return 0;
    driver_.Check(result, "cuMemAlloc");
    return address;
  }
  void GiveMemory(Address address) override {
    Enter();
    driver_.memory_give(address);
  }

  // ---- Copies

  void Upload(Address to, const void* from, int64_t bytes) override {
    if (bytes == 0) return;
    Enter();
    std::lock_guard lock(mutex_);
    // The driver takes what is not pinned before it returns.
    driver_.Check(driver_.copy_to_device(to, from, static_cast<size_t>(bytes), stream_),
                  "a copy to the device");
  }

  void Download(void* to, Address from, int64_t bytes, const Moment* after) override {
    Enter();
    if (after) {
      driver_.Check(driver_.event_synchronize(static_cast<const GpuMoment*>(after)->event),
                    "the work before a copy");
    } else {
      Finish();
    }
    if (bytes == 0) return;
    size_t size = static_cast<size_t>(bytes);
    std::lock_guard lock(copy_mutex_);
    bool staged = bytes <= kStaging;
    driver_.Check(driver_.copy_to_host(staged ? staging_ : to, from, size, copies_),
                  "a copy to the host");
    driver_.Check(driver_.stream_synchronize(copies_), "a copy to the host");
    if (staged) std::memcpy(to, staging_, size);
  }

  void Copy(Address to, Address from, int64_t bytes) override {
    Enter();
    std::lock_guard lock(mutex_);
    driver_.Check(driver_.copy_on_device(to, from, static_cast<size_t>(bytes), stream_),
                  "a copy on the device");
  }
  void Clear(Address at, int64_t bytes) override {
    Enter();
    std::lock_guard lock(mutex_);
    driver_.Check(driver_.fill(at, 0, static_cast<size_t>(bytes), stream_), "a fill");
  }

  // ---- Code

  std::vector<std::shared_ptr<Function>> Load(std::span<const KernelSource> sources) override {
    Enter();
    std::lock_guard lock(code_mutex_);
    std::vector<const KernelSource*> missing;
    std::vector<std::shared_ptr<GpuFunction>> fresh;
    std::vector<std::shared_ptr<Function>> functions;
    for (const KernelSource& source : sources) {
      std::shared_ptr<GpuFunction>& known = functions_[source.name];
      if (!known) {
        known = std::make_shared<GpuFunction>();
        known->text = source.text;
        missing.push_back(&source);
        fresh.push_back(known);
      }
      HAMMOCK_CHECK(known->text == source.text, "two kernels are called {}", source.name);
      functions.push_back(known);
    }
    try {
      std::vector<std::string> codes = CompileAll(missing);
      for (size_t i = 0; i < missing.size(); ++i) {
        CUmodule module = nullptr;
        driver_.Check(driver_.module_load(&module, codes[i].data()), "cuModuleLoadData");
        driver_.Check(
            driver_.module_function(&fresh[i]->function, module, missing[i]->name.c_str()),
            "cuModuleGetFunction");
      }
    } catch (...) {
      for (const KernelSource* source : missing) functions_.erase(source->name);
      throw;
    }
    return functions;
  }

  void Launch(const Function& function, const Grid& grid,
              std::span<const uint64_t> words) override {
    Enter();
    std::lock_guard lock(mutex_);
    void* parameters[] = {const_cast<uint64_t*>(words.data())};
    driver_.Check(driver_.launch(static_cast<const GpuFunction&>(function).function, grid.x, grid.y,
                                 1, grid.block_x, grid.block_y, 1, 0, stream_, parameters, nullptr),
                  "a launch");
  }

  // ---- Products

  std::shared_ptr<PreparedProduct> Prepare(const Product& product) override {
    Enter();
    return blas_->Prepare(product, config::Get<config::kMatmulPrecision>() == "high");
  }
  void Multiply(const PreparedProduct& product, Address a, Address b, Address bias, Address out,
                Address scratch) override {
    Enter();
    std::lock_guard lock(mutex_);
    blas_->Multiply(product, a, b, bias, out, scratch, stream_);
  }

  // ---- Convolutions

  std::shared_ptr<PreparedProduct> Prepare(const Convolution& convolution) override {
    Enter();
    return dnn_.Prepare(convolution, config::Get<config::kMatmulPrecision>() == "high");
  }
  void Convolve(const PreparedProduct& convolution, Address a, Address b, Address out,
                Address scratch) override {
    Enter();
    std::lock_guard lock(mutex_);
    dnn_.Convolve(convolution, a, b, out, scratch, stream_);
  }

  // ---- Recordings

  std::shared_ptr<Recording> Record(const std::function<void()>& work) override {
    Enter();
    std::lock_guard lock(mutex_);
    driver_.Check(driver_.capture_begin(stream_, kRelaxed), "cuStreamBeginCapture");
    CUgraph graph = nullptr;
    try {
      work();
    } catch (...) {
      driver_.capture_end(stream_, &graph);
      if (graph) driver_.graph_destroy(graph);
      throw;
    }
    driver_.Check(driver_.capture_end(stream_, &graph), "cuStreamEndCapture");
    CUgraphExec exec = nullptr;
    CUresult result = driver_.graph_instantiate(&exec, graph, 0);
    driver_.graph_destroy(graph);
    driver_.Check(result, "cuGraphInstantiate");
    return std::make_shared<GpuRecording>(driver_, exec);
  }
  void Replay(const Recording& recording) override {
    Enter();
    std::lock_guard lock(mutex_);
    driver_.Check(driver_.graph_launch(static_cast<const GpuRecording&>(recording).exec, stream_),
                  "cuGraphLaunch");
  }

  std::shared_ptr<Moment> Mark() override {
    Enter();
    CUevent event = nullptr;
    driver_.Check(driver_.event_create(&event, kNoTiming), "cuEventCreate");
    auto moment = std::make_shared<GpuMoment>(driver_, event);
    std::lock_guard lock(mutex_);
    driver_.Check(driver_.event_record(event, stream_), "cuEventRecord");
    return moment;
  }
  void Finish() override {
    if (!opened_) return;
    Enter();
    driver_.Check(driver_.stream_synchronize(stream_), "work on the device");
  }

 private:
  /// A process that does not use the GPU takes nothing of it.
  void Open() {
    driver_.Check(driver_.context_retain(&context_, device_), "cuDevicePrimaryCtxRetain");
    driver_.Check(driver_.context_set(context_), "cuCtxSetCurrent");
    driver_.Check(driver_.stream_create(&stream_, kNonBlocking), "cuStreamCreate");
    driver_.Check(driver_.stream_create(&copies_, kNonBlocking), "cuStreamCreate");
    driver_.Check(driver_.host_take(&staging_, kStaging, 0), "cuMemHostAlloc");
    blas_ = std::make_unique<Blas>();
    opened_ = true;
  }

  void Enter() {
    std::call_once(opening_, [this] { Open(); });
    thread_local CUcontext current = nullptr;
    if (current == context_) return;
    driver_.Check(driver_.context_set(context_), "cuCtxSetCurrent");
    current = context_;
  }

  /// From the disk, or by several threads.
  std::vector<std::string> CompileAll(const std::vector<const KernelSource*>& sources) const {
    static metrics::Counter& compiled = metrics::GetCounter("cuda::KernelsCompiled");
    std::vector<std::string> codes(sources.size());
    std::vector<std::exception_ptr> errors(sources.size());
    std::atomic<size_t> next{0};
    auto work = [&] {
      for (size_t i = next++; i < sources.size(); i = next++) {
        try {
          codes[i] = CodeOf(*sources[i], compiled);
        } catch (...) {
          errors[i] = std::current_exception();
        }
      }
    };
    size_t threads = std::min<size_t>(sources.size(), std::thread::hardware_concurrency());
    std::vector<std::thread> others;
    for (size_t i = 1; i < threads; ++i) others.emplace_back(work);
    work();
    for (std::thread& thread : others) thread.join();
    for (const std::exception_ptr& error : errors) {
      if (error) std::rethrow_exception(error);
    }
    return codes;
  }

  std::string CodeOf(const KernelSource& source, metrics::Counter& compiled) const {
    std::string text = Prelude() + source.text;
    FileCache* files = FileCache::OfConfig();
    std::string key = code_key() + "\n" + text;
    if (files) {
      if (std::optional<std::string> code = files->Load("cuda", key)) return *code;
    }
    std::string code = CompileByNvrtc(text, architecture_);
    compiled.Add();
    if (files) files->Save("cuda", key, code, config::Get<config::kCacheDirBytes>());
    return code;
  }

  const Driver& driver_;
  CUdevice device_ = 0;
  std::once_flag opening_;
  std::atomic<bool> opened_{false};
  CUcontext context_ = nullptr;
  std::string name_;
  int64_t memory_bytes_ = 0;
  int architecture_ = 0;
  CUstream stream_ = nullptr;
  CUstream copies_ = nullptr;
  void* staging_ = nullptr;
  std::unique_ptr<Blas> blas_;
  Dnn dnn_;
  std::recursive_mutex mutex_;  // of the order of work
  std::mutex copy_mutex_;
  std::mutex code_mutex_;
  std::map<std::string, std::shared_ptr<GpuFunction>> functions_;
};

}  // namespace

std::string WhyNoGpu() {
  if (!TheDriver()) return WhyNoDriver();
  if (!WhyNoNvrtc().empty()) return "no compiler: " + WhyNoNvrtc();
  return WhyNoBlas().empty() ? "" : "no matrix products: " + WhyNoBlas();
}

int GpuCount() {
  int count = 0;
  if (const Driver* driver = TheDriver()) driver->device_count(&count);
  return count;
}

std::shared_ptr<Machine> MakeGpuMachine(int ordinal) {
  return std::make_shared<GpuMachine>(ordinal);
}

}  // namespace hammock::cuda
