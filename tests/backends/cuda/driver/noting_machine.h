#pragma once
/// NotingMachine: the emulated machine with CUDA graphs. A graph is replayed piece by piece in
/// an order that its pieces allow and that is as far from theirs as can be. Threads may use it as
/// they do a GPU: what one notes does not depend on others.

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "backends/cuda/emulation/emulated_machine.h"

namespace hammock::cuda {

class NotingMachine : public Machine {
 public:
  explicit NotingMachine(std::shared_ptr<Machine> inner) : inner_(std::move(inner)) {}

  std::atomic<int> captured{0}, updated{0}, replayed{0};
  bool can_update = true;
  std::vector<int> last_order;  ///< of pieces, in the last replay

  std::string name() const override { return inner_->name(); }
  int64_t memory_bytes() const override { return inner_->memory_bytes(); }
  std::string code_key() const override { return inner_->code_key(); }
  int card() const override { return inner_->card(); }
  Address TakeMemory(int64_t bytes) override { return inner_->TakeMemory(bytes); }
  void GiveMemory(Address address) override { inner_->GiveMemory(address); }
  bool has_async_matmuls() const override { return inner_->has_async_matmuls(); }
  void* TakeHostMemory(int64_t bytes) override { return inner_->TakeHostMemory(bytes); }
  void GiveHostMemory(void* memory) override { inner_->GiveHostMemory(memory); }
  Address Counters() override { return inner_->Counters(); }
  void Upload(Address to, const void* from, int64_t bytes) override {
    inner_->Upload(to, from, bytes);
  }
  void Download(void* to, Address from, int64_t bytes, const Event* after) override {
    inner_->Download(to, from, bytes, after);
  }
  void CopyFrom(Machine& other, Address to, Address from, int64_t bytes,
                const Event& after) override {
    inner_->CopyFrom(other, to, from, bytes, after);
  }
  std::vector<std::shared_ptr<Function>> Load(std::span<const KernelSource> sources) override {
    return inner_->Load(sources);
  }
  std::shared_ptr<PreparedOp> Prepare(const MatMul& matmul) override {
    return inner_->Prepare(matmul);
  }
  std::shared_ptr<PreparedOp> Prepare(const Convolution& convolution) override {
    return inner_->Prepare(convolution);
  }
  std::shared_ptr<PreparedOp> Prepare(const Transform& transform) override {
    return inner_->Prepare(transform);
  }
  std::string WhyNoTransforms() const override { return inner_->WhyNoTransforms(); }
  std::shared_ptr<Event> RecordEvent() override { return inner_->RecordEvent(); }
  std::shared_ptr<Event> RecordTimedEvent() override { return inner_->RecordTimedEvent(); }
  double Seconds(const Event& from, const Event& to) override { return inner_->Seconds(from, to); }
  int Stream() override { return inner_->Stream(); }
  int Streams() const override { return inner_->Streams(); }
  void ComeAfter(const Event& event) override { inner_->ComeAfter(event); }
  void ComeAfter(int stream, uint64_t number) override { inner_->ComeAfter(stream, number); }
  uint64_t Asked(int stream) const override { return inner_->Asked(stream); }
  uint64_t Passed(int stream) const override { return inner_->Passed(stream); }
  void WaitFor(const Event& event) override { inner_->WaitFor(event); }
  void Finish() override { inner_->Finish(); }

  // ---- what can be noted
  void Copy(Address to, Address from, int64_t bytes) override {
    Do([=, this] { inner_->Copy(to, from, bytes); });
  }
  void Clear(Address at, int64_t bytes) override {
    Do([=, this] { inner_->Clear(at, bytes); });
  }
  void Launch(const Function& function, const Grid& grid,
              std::span<const uint64_t> arguments) override {
    std::vector<uint64_t> kept(arguments.begin(), arguments.end());
    Do([=, this, &function] { inner_->Launch(function, grid, kept); });
  }
  void Multiply(const PreparedOp& matmul, Address a, Address b, Address bias, Address out,
                Address scratch) override {
    Do([=, this, &matmul] { inner_->Multiply(matmul, a, b, bias, out, scratch); });
  }
  void Convolve(const PreparedOp& convolution, Address a, Address b, Address out,
                Address scratch) override {
    Do([=, this, &convolution] { inner_->Convolve(convolution, a, b, out, scratch); });
  }
  void RunTransform(const PreparedOp& transform, Address in, Address out,
                    Address scratch) override {
    Do([=, this, &transform] { inner_->RunTransform(transform, in, out, scratch); });
  }

  std::shared_ptr<CudaGraph> CaptureGraph(std::span<const Piece> pieces) override {
    ++captured;
    auto graph = std::make_shared<Noted>();
    graph->pieces = Note(pieces);
    return graph;
  }
  bool Update(CudaGraph& graph, std::span<const Piece> pieces) override {
    if (!can_update) return false;
    ++updated;
    static_cast<Noted&>(graph).pieces = Note(pieces);
    return true;
  }
  void Replay(const CudaGraph& graph) override {
    ++replayed;
    const auto& pieces = static_cast<const Noted&>(graph).pieces;
    std::vector<int> order;
    std::vector<bool> done(pieces.size());
    while (order.size() < pieces.size()) {
      for (size_t i = pieces.size(); i-- > 0;) {
        bool ready = !done[i];
        for (int earlier : pieces[i].after) ready = ready && done[earlier];
        if (!ready) continue;
        for (const auto& work : pieces[i].work) work();
        done[i] = true;
        order.push_back(static_cast<int>(i));
        break;
      }
    }
    std::lock_guard lock(mutex_);
    last_order = std::move(order);
  }

 private:
  struct NotedPiece {
    std::vector<std::function<void()>> work;
    std::vector<int> after;
  };
  struct Noted : CudaGraph {
    std::vector<NotedPiece> pieces;
  };

  std::vector<NotedPiece> Note(std::span<const Piece> pieces) {
    std::vector<NotedPiece> noted;
    for (const Piece& piece : pieces) {
      noted.push_back({{}, piece.after});
      notes_ = &noted.back().work;
      piece.work();
    }
    notes_ = nullptr;
    return noted;
  }
  void Do(std::function<void()> work) {
    if (notes_) {
      notes_->push_back(std::move(work));
    } else {
      work();
    }
  }

  const std::shared_ptr<Machine> inner_;
  std::mutex mutex_;  // of last_order
  static inline constinit thread_local std::vector<std::function<void()>>* notes_ = nullptr;
};

}  // namespace hammock::cuda
