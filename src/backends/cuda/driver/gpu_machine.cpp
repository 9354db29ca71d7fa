#include "backends/cuda/driver/gpu_machine.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

#include "backends/cuda/driver/blas.h"
#include "backends/cuda/driver/dnn.h"
#include "backends/cuda/driver/driver.h"
#include "backends/cuda/driver/fft.h"
#include "backends/cuda/driver/gpu_code.h"
#include "backends/cuda/driver/gpu_graph.h"
#include "backends/cuda/driver/nccl.h"
#include "backends/cuda/driver/nccl_host.h"
#include "backends/cuda/driver/nvrtc.h"
#include "backends/cuda/driver/staging.h"
#include "base/record_bytes.h"
#include "hammock/config.h"
#include "hammock/metric.h"

namespace hammock {

constinit config::Option<std::string> config::kMatmulPrecision({
    .name = "matmul_precision",
    .default_value = "highest",
    .doc = "Matmuls of f32 on GPUs: `highest` rounds nothing but the sums, `high` lets the "
           "matrix units round operands to TF32.",
    .affects_code = true,
    .choices = "highest, high",
});

}  // namespace hammock

namespace hammock::cuda {
namespace {

constinit config::Option<bool> kEarlyLaunches({
    .name = "cuda.early_launches",
    .default_value = false,
    .doc = "Launch kernels while those before them end; they wait on the GPU (compute capability "
           "9.0 and above).",
});

constinit const metrics::DeclaredCounter kStreamWaits({
    .name = "cuda::StreamWaits",
    .doc = "Times that the stream of one thread waited for that of another.",
});

constexpr int kMajor = 75;  // attributes of devices
constexpr int kMinor = 76;
constexpr unsigned kNonBlocking = 1;
constexpr unsigned kNoTiming = 2;
constexpr unsigned kPortableAndMapped = 3;
constexpr size_t kWordBytes = 64;  // apart, so that streams do not share a line

class GpuEvent : public Event {
 public:
  GpuEvent(const Driver& driver, int stream, uint64_t number, CUevent handle)
      : Event(stream, number), handle(handle), driver_(driver) {}
  ~GpuEvent() override { driver_.event_destroy(handle); }
  const CUevent handle;

 private:
  const Driver& driver_;
};

/// One of a machine's streams of work, with a second stream for concurrent copies.
struct GpuStream {
  std::once_flag opening;
  std::atomic<bool> opened{false};
  CUstream stream = nullptr;
  CUdeviceptr counters = 0;
  std::atomic<uint64_t> asked{0};
  std::atomic<uint64_t> passed{0};           // the last event that was waited for
  std::atomic<uint32_t*> progress{nullptr};  // the stream writes the number of its last event here
  std::recursive_mutex mutex;                // of the stream's order and the members below
  std::vector<GpuGraph::Op>* noted = nullptr;  // the operations being captured
  GpuGraph* compared = nullptr;                // operations are compared with it instead of done
  std::array<uint64_t, kMostStreams> came_after = {};  // by stream: the last event waited for
  std::mutex upload_mutex;                             // taken before the other one
  CUstream uploads = nullptr;
  CUevent uploaded = nullptr;
  std::unique_ptr<Staging> staging;

  uint64_t Passed() const {
    uint64_t known = passed;
    const uint32_t* word = progress;
    if (!word) return known;
    // The word has the low bits of the number of an event that had been recorded.
    uint32_t bits = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    uint64_t last = asked;
    uint32_t behind = static_cast<uint32_t>(last) - bits;
    return std::max(known, last - behind);
  }
  void NotePassed(uint64_t number) {
    uint64_t known = passed;
    while (known < number && !passed.compare_exchange_weak(known, number)) {
    }
  }
};

class GpuMachine : public Machine, public NcclHost {
 public:
  explicit GpuMachine(int ordinal) : driver_(*TheDriver()), ordinal_(ordinal) {
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
    code_ = std::make_unique<GpuCode>(driver_, architecture_);
    name_ = fmt::format("{}, compute capability {}.{}", name, major, minor);
  }

  std::string name() const override { return name_; }
  int64_t memory_bytes() const override { return memory_bytes_; }
  std::string code_key() const override { return code_->key(); }

  int card() const override { return ordinal_; }

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
  void* TakeHostMemory(int64_t bytes) override {
    Enter();
    void* memory = nullptr;
    driver_.Check(driver_.host_take(&memory, static_cast<size_t>(bytes), kPortableAndMapped),
                  "cuMemHostAlloc");
    return memory;
  }
  void GiveHostMemory(void* memory) override {
    Enter();
    driver_.host_give(memory);
  }

  Address Counters() override { return Mine().counters; }

  // ---- Copies

  void Upload(Address to, const void* from, int64_t bytes) override {
    if (bytes == 0) return;
    GpuStream& mine = Mine();
    const size_t size = static_cast<size_t>(bytes);
    if (bytes <= kInOrder) {
      std::lock_guard lock(mine.mutex);
      // The driver copies so few bytes before it returns.
      driver_.Check(driver_.copy_to_device(to, from, size, mine.stream), "a copy to the device");
      return;
    }
    std::lock_guard lock(mine.upload_mutex);
    mine.staging->Upload(to, from, size);
    ComeAfterUploads(mine);
  }

  void Download(void* to, Address from, int64_t bytes, const Event* after) override {
    Enter();
    if (!after) Finish();
    if (bytes == 0) {
      if (after) WaitFor(*after);
      return;
    }
    std::unique_ptr<Lane> lane = TakeLane();
    if (after) {
      driver_.Check(driver_.stream_wait_event(lane->stream, HandleOf(*after), 0), "a wait");
    }
    lane->staging.Download(to, from, static_cast<size_t>(bytes));
    if (after) StreamOf(*after).NotePassed(after->number);
    std::lock_guard lock(lanes_mutex_);
    lanes_.push_back(std::move(lane));
  }

  void CopyFrom(Machine& other, Address to, Address from, int64_t bytes,
                const Event& after) override {
    if (bytes == 0) return;
    GpuStream& mine = Mine();
    const auto& source = static_cast<const GpuMachine&>(other);
    const size_t size = static_cast<size_t>(bytes);
    const CUstream uploads = mine.uploads;
    std::lock_guard lock(mine.upload_mutex);
    driver_.Check(driver_.stream_wait_event(uploads, HandleOf(after), 0), "a wait");
    driver_.Check(source.context_ == context_
                      ? driver_.copy_on_device(to, from, size, uploads)
                      : driver_.copy_between(to, context_, from, source.context_, size, uploads),
                  "a copy between devices");
    ComeAfterUploads(mine);
  }

  void Copy(Address to, Address from, int64_t bytes) override {
    Do(&driver_.copy_on_device, {to, from, static_cast<uint64_t>(bytes)}, [&](CUstream stream) {
      driver_.Check(driver_.copy_on_device(to, from, static_cast<size_t>(bytes), stream),
                    "a copy on the device");
    });
  }
  void Clear(Address at, int64_t bytes) override {
    Do(&driver_.fill, {at, static_cast<uint64_t>(bytes)}, [&](CUstream stream) {
      driver_.Check(driver_.fill(at, 0, static_cast<size_t>(bytes), stream), "a fill");
    });
  }

  // ---- Code

  std::vector<std::shared_ptr<Function>> Load(std::span<const KernelSource> sources) override {
    Enter();
    return code_->Load(sources);
  }
  std::map<std::string, std::string> SaveCode(std::span<const KernelSource> sources) override {
    return code_->Save(sources);
  }
  void AddCode(std::map<std::string, std::string> code) override { code_->Add(std::move(code)); }
  std::string SaveAlgorithms() override {
    RecordWriter record;
    record(blas_ ? blas_->SaveChoices() : "", dnn_.SaveChoices());
    return record.Take();
  }
  void AddAlgorithms(const std::string& algorithms) override {
    Enter();
    std::string blas, dnn;
    RecordReader record("chosen algorithms", algorithms);
    record(blas, dnn);
    blas_->AddChoices(blas);
    dnn_.AddChoices(dnn);
  }
  bool has_async_matmuls() const override { return architecture_ == 90; }
  std::string Assembly(const KernelSource& source) override { return code_->Assembly(source); }

  void Launch(const Function& function, const Grid& grid,
              std::span<const uint64_t> arguments) override {
    GpuStream& mine = Mine();
    std::lock_guard lock(mine.mutex);
    if (mine.compared) return mine.compared->CompareLaunch(function, grid, arguments);
    CUfunction code = static_cast<const GpuFunction&>(function).function;
    void* parameters[] = {const_cast<uint64_t*>(arguments.data())};
    const bool early = driver_.launch_as && architecture_ >= 90 && config::Get<kEarlyLaunches>();
    driver_.Check(early ? driver_.LaunchEarly(code, grid.x, grid.y, grid.block_x, grid.block_y,
                                              mine.stream, parameters)
                        : driver_.launch(code, grid.x, grid.y, 1, grid.block_x, grid.block_y, 1, 0,
                                         mine.stream, parameters, nullptr),
                  "a launch");
    if (!mine.noted) return;
    std::vector<CUgraphNode> last;
    if (driver_.capture_info) last = LastNodes(driver_, mine.stream);
    mine.noted->push_back({&function,
                           grid,
                           {arguments.begin(), arguments.end()},
                           last.size() == 1 ? last[0] : nullptr,
                           code});
  }

  // ---- Matmuls

  std::shared_ptr<PreparedOp> Prepare(const MatMul& matmul) override {
    Enter();
    return blas_->Prepare(matmul, config::Get<config::kMatmulPrecision>() == "high");
  }
  void Multiply(const PreparedOp& matmul, Address a, Address b, Address bias, Address out,
                Address scratch) override {
    Do(&matmul, {a, b, bias, out, scratch},
       [&](CUstream stream) { blas_->Multiply(matmul, a, b, bias, out, scratch, stream); });
  }

  // ---- Convolutions

  std::shared_ptr<PreparedOp> Prepare(const Convolution& convolution) override {
    Enter();
    return dnn_.Prepare(convolution, config::Get<config::kMatmulPrecision>() == "high");
  }
  void Convolve(const PreparedOp& convolution, Address a, Address b, Address out,
                Address scratch) override {
    Do(&convolution, {a, b, out, scratch},
       [&](CUstream stream) { dnn_.Convolve(convolution, a, b, out, scratch, stream); });
  }

  // ---- Transforms

  std::shared_ptr<PreparedOp> Prepare(const Transform& transform) override {
    Enter();
    return fft_.Prepare(transform);
  }
  void RunTransform(const PreparedOp& transform, Address in, Address out,
                    Address scratch) override {
    Do(&transform, {in, out, scratch},
       [&](CUstream stream) { Fft::Run(transform, in, out, scratch, stream); });
  }
  std::string WhyNoTransforms() const override { return WhyNoFft(); }

  // ---- NCCL

  std::string WhyNoNccl() const override { return cuda::WhyNoNccl(); }
  void OnStream(const std::function<void(CUstream)>& work) override {
    GpuStream& mine = Mine();
    std::lock_guard lock(mine.mutex);
    work(mine.stream);
  }

  // ---- CUDA graphs

  std::shared_ptr<CudaGraph> CaptureGraph(std::span<const Piece> pieces) override {
    GpuStream& mine = Mine();
    std::lock_guard lock(mine.mutex);
    std::vector<GpuGraph::Op> ops;
    CUgraph graph = Capture(mine, pieces, ops);
    return std::make_shared<GpuGraph>(driver_, graph, std::move(ops), pieces);
  }
  bool Update(CudaGraph& graph, std::span<const Piece> pieces) override {
    GpuStream& mine = Mine();
    std::lock_guard lock(mine.mutex);
    auto& changed = static_cast<GpuGraph&>(graph);
    if (changed.StartComparing(pieces)) {
      mine.compared = &changed;
      auto end = [](GpuStream* stream) { stream->compared = nullptr; };
      std::unique_ptr<GpuStream, decltype(end)> ends(&mine, end);
      for (const Piece& piece : pieces) piece.work();
      if (changed.EndComparing()) return true;
    }
    std::vector<GpuGraph::Op> ops;
    CUgraph fresh = Capture(mine, pieces, ops);
    bool changes = changed.BecomeLike(fresh, std::move(ops));
    driver_.graph_destroy(fresh);
    return changes;
  }
  void Replay(const CudaGraph& graph) override {
    GpuStream& mine = Mine();
    std::lock_guard lock(mine.mutex);
    driver_.Check(driver_.graph_launch(static_cast<const GpuGraph&>(graph).exec(), mine.stream),
                  "cuGraphLaunch");
  }

  // ---- Streams and their events

  int Stream() override { return threads_.Mine(); }
  int Streams() const override { return threads_.count(); }
  std::shared_ptr<Event> RecordEvent() override { return RecordWith(kNoTiming); }
  std::shared_ptr<Event> RecordTimedEvent() override { return RecordWith(0); }
  double Seconds(const Event& from, const Event& to) override {
    float milliseconds = 0;
    driver_.Check(driver_.event_elapsed(&milliseconds, HandleOf(from), HandleOf(to)),
                  "cuEventElapsedTime");
    return static_cast<double>(milliseconds) / 1e3;
  }
  void ComeAfter(const Event& event) override {
    if (GpuStream* mine = MustWait(event.stream, event.number)) {
      Wait(*mine, event.stream, event.number, HandleOf(event));
    }
  }
  void ComeAfter(int stream, uint64_t number) override {
    GpuStream* mine = MustWait(stream, number);
    if (!mine) return;
    // The event may be gone, so a new one is waited for. No two streams are locked at once.
    const std::shared_ptr<GpuEvent> now = Now(stream);
    Wait(*mine, stream, now->number, now->handle);
  }
  uint64_t Asked(int stream) const override { return streams_[stream].asked; }
  uint64_t Passed(int stream) const override { return streams_[stream].Passed(); }
  void ComeAfterForeign(uint64_t stream) override {
    GpuStream& mine = Mine();
    std::lock_guard lock(mine.mutex);
    Follow(mine.stream, reinterpret_cast<CUstream>(stream));
  }
  void LetForeignComeAfter(uint64_t stream) override {
    GpuStream& mine = Mine();
    std::lock_guard lock(mine.mutex);
    Follow(reinterpret_cast<CUstream>(stream), mine.stream);
  }
  void WaitFor(const Event& event) override {
    Enter();
    driver_.Check(driver_.event_synchronize(HandleOf(event)), "work on the device");
    StreamOf(event).NotePassed(event.number);
  }
  void Finish() override {
    if (!opened_) return;
    Enter();
    for (int stream = 0; stream < kMostStreams; ++stream) {
      if (!streams_[stream].opened) continue;
      // By an event: another thread may be capturing its stream.
      WaitFor(*Now(stream));
      driver_.Check(driver_.stream_synchronize(streams_[stream].uploads), "copies to the device");
    }
  }

 private:
  GpuStream& StreamOf(const Event& event) { return streams_[event.stream]; }
  /// The calling thread's, with the context current.
  GpuStream& Mine() {
    Enter();
    const int stream = threads_.Mine();
    GpuStream& mine = streams_[stream];
    std::call_once(mine.opening, [&] { OpenStream(stream); });
    return mine;
  }

  /// A new event behind all work of a stream; it has the number of the last one.
  std::shared_ptr<GpuEvent> Now(int stream) {
    GpuStream& asked = streams_[stream];
    CUevent handle = nullptr;
    driver_.Check(driver_.event_create(&handle, kNoTiming), "cuEventCreate");
    std::lock_guard lock(asked.mutex);
    auto now = std::make_shared<GpuEvent>(driver_, stream, asked.asked, handle);
    driver_.Check(driver_.event_record(handle, asked.stream), "cuEventRecord");
    return now;
  }

  /// The calling thread's stream if it does not yet come after that event, else null.
  GpuStream* MustWait(int stream, uint64_t number) {
    GpuStream& mine = Mine();
    if (&mine == &streams_[stream] || number <= Passed(stream)) return nullptr;
    std::lock_guard lock(mine.mutex);
    return number <= mine.came_after[stream] ? nullptr : &mine;
  }
  void Wait(GpuStream& mine, int stream, uint64_t number, CUevent handle) {
    std::lock_guard lock(mine.mutex);
    driver_.Check(driver_.stream_wait_event(mine.stream, handle, 0), "a wait");
    uint64_t& last = mine.came_after[stream];
    last = std::max(last, number);
    metrics::Get<kStreamWaits>().Add();
  }

  /// `later` waits for all work that `earlier` was given so far.
  void Follow(CUstream later, CUstream earlier) {
    CUevent handle = nullptr;
    driver_.Check(driver_.event_create(&handle, kNoTiming), "cuEventCreate");
    GpuEvent event(driver_, 0, 0, handle);  // the driver keeps it until it has passed
    driver_.Check(driver_.event_record(handle, earlier), "cuEventRecord");
    driver_.Check(driver_.stream_wait_event(later, handle, 0), "a wait");
  }

  /// With the mutex of the stream.
  CUgraph Capture(GpuStream& stream, std::span<const Piece> pieces,
                  std::vector<GpuGraph::Op>& ops) {
    stream.noted = &ops;
    auto end = [](GpuStream* captured) { captured->noted = nullptr; };
    std::unique_ptr<GpuStream, decltype(end)> ends(&stream, end);
    return CaptureStream(driver_, stream.stream, pieces);
  }

  /// Does `work` on the calling thread's stream, or compares it with a graph that is updated.
  template <class F>
  void Do(const void* what, std::initializer_list<uint64_t> arguments, F work) {
    GpuStream& mine = Mine();
    std::lock_guard lock(mine.mutex);
    if (mine.compared) return mine.compared->CompareCall(what, arguments);
    work(mine.stream);
    if (mine.noted) mine.noted->push_back({what, {}, arguments, nullptr, nullptr});
  }

  static CUevent HandleOf(const Event& event) { return static_cast<const GpuEvent&>(event).handle; }

  std::shared_ptr<Event> RecordWith(unsigned flags) {
    GpuStream& mine = Mine();
    CUevent handle = nullptr;
    driver_.Check(driver_.event_create(&handle, flags), "cuEventCreate");
    std::lock_guard lock(mine.mutex);
    auto event = std::make_shared<GpuEvent>(driver_, Stream(), ++mine.asked, handle);
    driver_.Check(driver_.event_record(handle, mine.stream), "cuEventRecord");
    if (uint32_t* progress = mine.progress) {
      driver_.Check(driver_.stream_write(mine.stream, reinterpret_cast<CUdeviceptr>(progress),
                                         static_cast<uint32_t>(event->number), 0),
                    "cuStreamWriteValue32");
    }
    return event;
  }

  /// A stream for one reader at a time, which waits for its own value only.
  struct Lane {
    Lane(const Driver& driver, CUstream stream) : stream(stream), staging(driver, stream) {}
    const CUstream stream;
    Staging staging;
  };
  std::unique_ptr<Lane> TakeLane() {
    {
      std::lock_guard lock(lanes_mutex_);
      if (!lanes_.empty()) {
        std::unique_ptr<Lane> lane = std::move(lanes_.back());
        lanes_.pop_back();
        return lane;
      }
    }
    CUstream stream = nullptr;
    driver_.Check(driver_.stream_create(&stream, kNonBlocking), "cuStreamCreate");
    return std::make_unique<Lane>(driver_, stream);
  }

  /// With the mutex of its uploads.
  void ComeAfterUploads(GpuStream& mine) {
    driver_.Check(driver_.event_record(mine.uploaded, mine.uploads), "cuEventRecord");
    std::lock_guard lock(mine.mutex);
    driver_.Check(driver_.stream_wait_event(mine.stream, mine.uploaded, 0), "a wait");
  }

  /// Called with the first use, so that other processes take no memory of the GPU.
  void Open() {
    driver_.Check(driver_.context_retain(&context_, device_), "cuDevicePrimaryCtxRetain");
    driver_.Check(driver_.context_set(context_), "cuCtxSetCurrent");
    // For all streams at once, since an allocation may wait for work.
    driver_.Check(driver_.memory_take(&counters_, kMostStreams * kCounterBytes), "cuMemAlloc");
    if (driver_.stream_write) {
      void* words = nullptr;
      driver_.Check(driver_.host_take(&words, kMostStreams * kWordBytes, kPortableAndMapped),
                    "cuMemHostAlloc");
      std::memset(words, 0, kMostStreams * kWordBytes);
      progress_ = static_cast<char*>(words);
    }
    blas_ = std::make_unique<Blas>();
    opened_ = true;
  }

  /// Called with the first use of a stream: most processes use one or two.
  void OpenStream(int stream) {
    GpuStream& opened = streams_[stream];
    opened.counters = counters_ + static_cast<CUdeviceptr>(stream) * kCounterBytes;
    for (CUstream* created : {&opened.stream, &opened.uploads}) {
      driver_.Check(driver_.stream_create(created, kNonBlocking), "cuStreamCreate");
    }
    driver_.Check(driver_.event_create(&opened.uploaded, kNoTiming), "cuEventCreate");
    opened.staging = std::make_unique<Staging>(driver_, opened.uploads);
    driver_.Check(driver_.fill(opened.counters, 0, kCounterBytes, opened.stream), "a fill");
    if (progress_) {
      char* word = progress_ + stream * kWordBytes;
      // If streams cannot write, events are known to have passed only after a wait.
      if (driver_.stream_write(opened.stream, reinterpret_cast<CUdeviceptr>(word), 0, 0) == 0) {
        opened.progress = reinterpret_cast<uint32_t*>(word);
      }
    }
    opened.opened = true;
  }

  void Enter() {
    std::call_once(opening_, [this] { Open(); });
    // Asked each time: other libraries of the process choose their GPUs on the same threads.
    CUcontext current = nullptr;
    if (driver_.context_get(&current) == kCudaSuccess && current == context_) return;
    driver_.Check(driver_.context_set(context_), "cuCtxSetCurrent");
  }

  const Driver& driver_;
  const int ordinal_;
  CUdevice device_ = 0;
  std::once_flag opening_;
  std::atomic<bool> opened_{false};
  CUcontext context_ = nullptr;
  std::string name_;
  int64_t memory_bytes_ = 0;
  int architecture_ = 0;
  CUdeviceptr counters_ = 0;  // of all streams
  char* progress_ = nullptr;  // likewise
  ThreadStreams threads_;
  std::array<GpuStream, kMostStreams> streams_;  // of work
  std::unique_ptr<GpuCode> code_;
  std::unique_ptr<Blas> blas_;
  Dnn dnn_;
  Fft fft_;
  std::mutex lanes_mutex_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // unused ones
};

}  // namespace

// Stops at the first missing part: libraries take long to open, and are useless without a driver.
std::string WhyNoGpu() {
  if (std::string why = WhyNoDriver(); !why.empty()) return "no driver: " + why;
  if (std::string why = WhyNoNvrtc(); !why.empty() && CompilerVersion() == "none") {
    return "no compiler, and no code in `cache_dir`: " + why;
  }
  if (std::string why = WhyNoBlas(); !why.empty()) return "no matmuls: " + why;
  return "";
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
