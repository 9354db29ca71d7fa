#pragma once
/// LateMachine: the emulated machine, but a stream does nothing until someone waits for it, or for
/// a stream that comes after it. So whoever forgot to come after something meets memory as it was
/// before, or overwrites what is still to be read. It also looks at the order itself: two streams
/// that use the same memory, one of them to write, must be ordered by events, whenever they happen
/// to run. What an op uses are the allocations that its addresses lie in; what it writes are those
/// that it changes.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <random>

#include "backends/cuda/driver/thread_streams.h"
#include "backends/cuda/emulation/emulated_machine.h"

namespace hammock::cuda {

class LateMachine : public Machine {
 public:
  explicit LateMachine(std::shared_ptr<Machine> inner) : inner_(std::move(inner)) {}
  ~LateMachine() override {
    for (const auto& [address, memory] : memory_) inner_->GiveMemory(address);
  }

  /// Uses of memory in no order, a line each; they are forgotten.
  std::vector<std::string> TakeRaces() {
    std::lock_guard lock(mutex_);
    return std::exchange(races_, {});
  }
  /// How often a stream was told to come after another one.
  int waits() const { return waits_; }
  /// How often a CUDA graph was replayed.
  int replays() const { return replays_; }
  /// Streams also do something when nobody waits: `percent` of what they are asked for is followed
  /// by some work of one of them.
  void WorkAtRandom(unsigned seed, int percent) {
    std::lock_guard lock(mutex_);
    random_.seed(seed);
    percent_ = percent;
  }

  /// Whoever waits for the stream goes on when it is let go.
  void Hold(int stream, bool held) {
    std::lock_guard lock(mutex_);
    held_ = held ? stream : -1;
    let_go_.notify_all();
  }

  std::string name() const override { return "late"; }
  int64_t memory_bytes() const override { return inner_->memory_bytes(); }
  std::string code_key() const override { return inner_->code_key(); }
  int card() const override { return inner_->card(); }

  // ---- Memory

  Address TakeMemory(int64_t bytes) override {
    std::lock_guard lock(mutex_);
    Address address = inner_->TakeMemory(bytes);
    memory_[address].bytes = static_cast<size_t>(bytes);
    return address;
  }
  void GiveMemory(Address address) override {
    std::lock_guard lock(mutex_);
    for (const Queue& queue : queues_) {
      for (const Op& op : queue.ops) {
        if (std::ranges::count(op.memory, address) > 0) {
          races_.push_back(fmt::format("{} uses memory that was given back", op.name));
        }
      }
    }
    memory_.erase(address);
    inner_->GiveMemory(address);
  }
  void* TakeHostMemory(int64_t bytes) override { return inner_->TakeHostMemory(bytes); }
  void GiveHostMemory(void* memory) override { inner_->GiveHostMemory(memory); }
  Address Counters() override {
    std::lock_guard lock(mutex_);
    Address& counters = QueueOf(Stream()).counters;
    if (counters == 0) {
      counters = TakeMemory(kCounterBytes);
      inner_->Clear(counters, kCounterBytes);
      memory_[counters].counts = true;
    }
    return counters;
  }

  // ---- Copies

  void Upload(Address to, const void* from, int64_t bytes) override {
    if (bytes == 0) return;
    const auto* begin = static_cast<const char*>(from);
    auto kept = std::make_shared<std::vector<char>>(begin, begin + bytes);
    std::lock_guard lock(mutex_);
    const bool concurrent = bytes > kInOrder;
    Ask(concurrent ? Uploads() : Stream(), "an upload", {to},
        [=, this] { inner_->Upload(to, kept->data(), bytes); });
    if (concurrent) WorkComesAfterUploads();
  }
  void Download(void* to, Address from, int64_t bytes, const Event* after) override {
    after ? WaitFor(*after) : Finish();
    std::lock_guard lock(mutex_);
    Op read{"a download", {}, {}, after ? static_cast<const LateEvent*>(after)->clock : Done()};
    read.memory = MemoryOf({from});
    if (bytes > 0) LookAt(read, kReads, {});
    inner_->Download(to, from, bytes, nullptr);
  }
  void Copy(Address to, Address from, int64_t bytes) override {
    Ask(Stream(), "a copy", {to, from}, [=, this] { inner_->Copy(to, from, bytes); });
  }
  void CopyFrom(Machine& other, Address to, Address from, int64_t bytes,
                const Event& after) override {
    other.WaitFor(after);
    std::lock_guard lock(mutex_);
    Ask(Uploads(), "a copy between devices", {to}, [=, this] { inner_->Copy(to, from, bytes); });
    WorkComesAfterUploads();
  }
  void Clear(Address at, int64_t bytes) override {
    Ask(Stream(), "a fill", {at}, [=, this] { inner_->Clear(at, bytes); });
  }

  // ---- Code

  bool has_async_matmuls() const override { return inner_->has_async_matmuls(); }
  std::vector<std::shared_ptr<Function>> Load(std::span<const KernelSource> sources) override {
    auto functions = inner_->Load(sources);
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < sources.size(); ++i) names_[functions[i].get()] = sources[i].name;
    return functions;
  }
  void Launch(const Function& function, const Grid& grid,
              std::span<const uint64_t> arguments) override {
    std::lock_guard lock(mutex_);
    std::vector<uint64_t> kept(arguments.begin(), arguments.end());
    Ask(Stream(), names_[&function], kept,
        [=, this, &function] { inner_->Launch(function, grid, kept); });
  }
  std::shared_ptr<PreparedOp> Prepare(const MatMul& matmul) override {
    return inner_->Prepare(matmul);
  }
  void Multiply(const PreparedOp& matmul, Address a, Address b, Address bias, Address out,
                Address scratch) override {
    Ask(Stream(), "a matmul", {a, b, bias, out, scratch},
        [=, this, &matmul] { inner_->Multiply(matmul, a, b, bias, out, scratch); });
  }
  std::shared_ptr<PreparedOp> Prepare(const Convolution& convolution) override {
    return inner_->Prepare(convolution);
  }
  void Convolve(const PreparedOp& convolution, Address a, Address b, Address out,
                Address scratch) override {
    Ask(Stream(), "a convolution", {a, b, out, scratch},
        [=, this, &convolution] { inner_->Convolve(convolution, a, b, out, scratch); });
  }

  // ---- CUDA graphs

  std::shared_ptr<CudaGraph> CaptureGraph(std::span<const Piece> pieces) override {
    auto noted = std::make_shared<Noted>();
    Note(*noted, pieces);
    return noted;
  }
  bool Update(CudaGraph& graph, std::span<const Piece> pieces) override {
    Note(static_cast<Noted&>(graph), pieces);
    return true;
  }
  void Replay(const CudaGraph& graph) override {
    std::lock_guard lock(mutex_);
    ++replays_;
    const auto& noted = static_cast<const Noted&>(graph);
    if (noted.stream != Stream()) races_.push_back("a graph of another stream is replayed");
    for (const NotedOp& op : noted.ops) Ask(Stream(), op.name, op.arguments, op.work);
  }

  // ---- Events

  int Stream() override { return threads_.Mine(); }
  int Streams() const override { return threads_.count(); }
  std::shared_ptr<Event> RecordEvent() override {
    std::lock_guard lock(mutex_);
    Queue& queue = QueueOf(Stream());
    Join(queue.clock, Done());
    queue.marks.push_back({queue.asked, queue.clock});
    queue.marks.back().clock[Stream()] = queue.asked;
    return std::make_shared<LateEvent>(Stream(), queue.marks.size(), queue.marks.back().clock);
  }
  std::shared_ptr<Event> RecordTimedEvent() override { return RecordEvent(); }
  double Seconds(const Event&, const Event&) override { return 0; }
  uint64_t Asked(int stream) const override {
    std::lock_guard lock(mutex_);
    return queues_[stream].marks.size();
  }
  uint64_t Passed(int stream) const override {
    std::lock_guard lock(mutex_);
    const Queue& queue = queues_[stream];
    auto after = std::ranges::upper_bound(queue.marks, queue.done, {}, &Marked::op);
    return static_cast<uint64_t>(after - queue.marks.begin());
  }
  void ComeAfter(const Event& event) override { ComeAfter(event.stream, event.number); }
  void ComeAfter(int stream, uint64_t number) override {
    std::lock_guard lock(mutex_);
    if (stream == Stream() || number <= Passed(stream)) return;
    const Marked& mark = queues_[stream].marks[number - 1];
    if (QueueOf(Stream()).clock[stream] >= mark.op) return;  // it does already
    ++waits_;
    Wait(Stream(), stream, mark.op, mark.clock);
  }
  void WaitFor(const Event& event) override {
    std::unique_lock lock(mutex_);
    let_go_.wait(lock, [&] { return held_ != event.stream; });
    RunUntil(event.stream, static_cast<const LateEvent&>(event).clock[event.stream]);
  }
  void Finish() override {
    std::unique_lock lock(mutex_);
    let_go_.wait(lock, [&] { return held_ < 0; });
    for (int stream = 0; stream < kReads; ++stream) RunUntil(stream, QueueOf(stream).asked);
  }

 private:
  static constexpr int kReads = 2 * kMostStreams;  // by the host
  /// The stream that copies for the calling thread's.
  int Uploads() { return kMostStreams + Stream(); }
  /// By stream: how many of its ops come before something.
  using Clock = std::array<uint64_t, kReads + 1>;

  struct LateEvent : Event {
    LateEvent(int stream, uint64_t number, const Clock& clock)
        : Event(stream, number), clock(clock) {}
    const Clock clock;
  };
  struct Op {
    std::string name;
    std::vector<Address> memory;  // allocations
    std::function<void()> work;
    Clock clock{};
  };
  struct Marked {
    uint64_t op;
    Clock clock;
  };
  struct Queue {
    std::deque<Op> ops;
    uint64_t asked = 0, done = 0;
    Clock clock{};
    std::vector<Marked> marks;
    Address counters = 0;
  };
  struct Use {
    uint64_t op = 0;  // counted from 1
    std::string name;
  };
  struct Memory {
    size_t bytes = 0;
    bool counts = false;                        // is written even if it is the same afterwards
    std::array<Use, kReads + 1> read, written;  // last, by stream
  };
  struct NotedOp {
    std::string name;
    std::vector<uint64_t> arguments;
    std::function<void()> work;
  };
  struct Noted : CudaGraph {
    int stream = -1;
    std::vector<NotedOp> ops;
  };

  Queue& QueueOf(int stream) { return queues_[stream]; }

  Clock Done() const {
    Clock done{};
    for (size_t i = 0; i < queues_.size(); ++i) done[i] = queues_[i].done;
    return done;
  }
  static void Join(Clock& clock, const Clock& other) {
    for (size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], other[i]);
  }

  std::vector<Address> MemoryOf(const std::vector<uint64_t>& arguments) const {
    std::vector<Address> found;
    for (uint64_t argument : arguments) {
      auto above = memory_.upper_bound(argument);
      if (above == memory_.begin()) continue;
      const auto& [address, memory] = *std::prev(above);
      if (argument >= address + memory.bytes) continue;
      if (std::ranges::count(found, address) == 0) found.push_back(address);
    }
    return found;
  }

  void Ask(int stream, std::string name, const std::vector<uint64_t>& arguments,
           std::function<void()> work) {
    std::lock_guard lock(mutex_);
    if (notes_) return notes_->push_back({std::move(name), arguments, std::move(work)});
    Queue& queue = QueueOf(stream);
    Join(queue.clock, Done());  // the host has seen it, or could have
    queue.clock[stream] = ++queue.asked;
    queue.ops.push_back({fmt::format("{} on stream {}", name, stream), MemoryOf(arguments),
                         std::move(work), queue.clock});
    if (static_cast<int>(random_() % 100) >= percent_) return;
    int other = static_cast<int>(random_()) % (2 * Streams());
    if (other >= Streams()) other += kMostStreams - Streams();  // uploads
    RunUntil(other, std::min(QueueOf(other).asked, QueueOf(other).done + random_() % 8));
  }

  void Wait(int stream, int after, uint64_t op, const Clock& clock) {
    Queue& queue = QueueOf(stream);
    Join(queue.clock, Done());
    Join(queue.clock, clock);
    queue.clock[after] = std::max(queue.clock[after], op);
    queue.clock[stream] = ++queue.asked;
    queue.ops.push_back({"a wait", {}, [this, after, op] { RunUntil(after, op); }, queue.clock});
  }

  void WorkComesAfterUploads() {
    const Queue& uploads = QueueOf(Uploads());
    Wait(Stream(), Uploads(), uploads.asked, uploads.clock);
  }

  void RunUntil(int stream, uint64_t op) {
    Queue& queue = QueueOf(stream);
    while (queue.done < op) {
      Op first = std::move(queue.ops.front());
      queue.ops.pop_front();
      std::map<Address, std::vector<char>> before;
      for (Address address : first.memory) {
        const auto* bytes = reinterpret_cast<const char*>(address);
        before[address].assign(bytes, bytes + memory_[address].bytes);
      }
      first.work();
      LookAt(first, stream, before);
      ++queue.done;
    }
  }

  /// Notes what an op that has run used, and who used it before without an order.
  void LookAt(const Op& op, int stream, const std::map<Address, std::vector<char>>& before) {
    for (Address address : op.memory) {
      Memory& memory = memory_[address];
      auto old = before.find(address);
      const bool writes = memory.counts || (old != before.end() &&
                                            std::memcmp(reinterpret_cast<const void*>(address),
                                                        old->second.data(), memory.bytes) != 0);
      for (int other = 0; other < kReads; ++other) {
        if (other == stream) continue;
        const Use& written = memory.written[other];
        const Use& read = memory.read[other];
        const bool races = written.op > op.clock[other];
        if (races || (writes && read.op > op.clock[other])) {
          races_.push_back(fmt::format(
              "{} {} {} bytes that {} {}, in no order", op.name, writes ? "writes" : "reads",
              memory.bytes, races ? written.name : read.name, races ? "writes" : "reads"));
        }
      }
      (writes ? memory.written : memory.read)[stream] = {op.clock[stream], op.name};
    }
  }

  void Note(Noted& noted, std::span<const Piece> pieces) {
    std::lock_guard lock(mutex_);
    noted.stream = Stream();
    noted.ops.clear();
    notes_ = &noted.ops;
    for (const Piece& piece : pieces) piece.work();
    notes_ = nullptr;
  }

  const std::shared_ptr<Machine> inner_;
  ThreadStreams threads_;
  mutable std::recursive_mutex mutex_;
  std::condition_variable_any let_go_;
  int held_ = -1;
  std::array<Queue, kReads> queues_;
  std::map<Address, Memory> memory_;
  std::map<const Function*, std::string> names_;
  std::vector<NotedOp>* notes_ = nullptr;
  std::vector<std::string> races_;
  std::minstd_rand random_;
  int percent_ = 0;
  std::atomic<int> waits_{0}, replays_{0};
};

}  // namespace hammock::cuda
