#pragma once
/// FrailMachine: the emulated machine, but kernels can be made to fail and memory to end. As on a
/// GPU, a launch that fails returns as if nothing were wrong; who waits later gets the error, and
/// from then on everybody. Nothing is computed.

#include <array>
#include <atomic>
#include <map>
#include <mutex>

#include "backends/cuda/emulation/emulated_machine.h"

namespace hammock::cuda {

class FrailMachine : public Machine {
 public:
  explicit FrailMachine(int card) : inner_(MakeEmulatedMachine("none", card)) {}

  /// `launches` more go well, the next one does not.
  void FailAfter(int launches) { launches_left_ = launches; }
  /// No event passes until it is let go on.
  void Hold(bool held) {
    held_ = held;
    NoteAsked(held_at_);
  }
  void SetMemoryLeft(int64_t bytes) { *memory_left_ = bytes; }
  /// As machines of one card do.
  void ShareMemoryWith(FrailMachine& other) { memory_left_ = other.memory_left_; }

  std::string name() const override { return inner_->name(); }
  int64_t memory_bytes() const override { return inner_->memory_bytes(); }
  std::string code_key() const override { return inner_->code_key(); }
  int card() const override { return inner_->card(); }

  Address TakeMemory(int64_t bytes) override {
    RaiseIfLost();
    if (bytes > *memory_left_) return 0;
    *memory_left_ -= bytes;
    Address address = inner_->TakeMemory(bytes);
    std::lock_guard lock(mutex_);
    taken_[address] = bytes;
    return address;
  }
  void GiveMemory(Address address) override {
    std::lock_guard lock(mutex_);
    *memory_left_ += taken_.extract(address).mapped();
    inner_->GiveMemory(address);
  }
  bool has_async_matmuls() const override { return inner_->has_async_matmuls(); }
  void* TakeHostMemory(int64_t bytes) override { return inner_->TakeHostMemory(bytes); }
  void GiveHostMemory(void* memory) override { inner_->GiveHostMemory(memory); }
  Address Counters() override { return inner_->Counters(); }

  void Upload(Address to, const void* from, int64_t bytes) override {
    RaiseIfLost();
    inner_->Upload(to, from, bytes);
  }
  void Download(void* to, Address from, int64_t bytes, const Event* after) override {
    Wait();
    inner_->Download(to, from, bytes, after);
  }
  void Copy(Address to, Address from, int64_t bytes) override {
    RaiseIfLost();
    inner_->Copy(to, from, bytes);
  }
  void CopyFrom(Machine& other, Address to, Address from, int64_t bytes,
                const Event& after) override {
    RaiseIfLost();
    inner_->CopyFrom(other, to, from, bytes, after);
  }
  void Clear(Address at, int64_t bytes) override { inner_->Clear(at, bytes); }

  std::vector<std::shared_ptr<Function>> Load(std::span<const KernelSource> sources) override {
    RaiseIfLost();
    return inner_->Load(sources);
  }
  void Launch(const Function&, const Grid&, std::span<const uint64_t>) override { Start(); }
  std::shared_ptr<PreparedOp> Prepare(const MatMul& matmul) override {
    return inner_->Prepare(matmul);
  }
  void Multiply(const PreparedOp&, Address, Address, Address, Address, Address) override {
    Start();
  }

  std::shared_ptr<Event> RecordEvent() override {
    RaiseIfLost();
    return inner_->RecordEvent();
  }
  std::shared_ptr<Event> RecordTimedEvent() override { return RecordEvent(); }
  double Seconds(const Event& from, const Event& to) override { return inner_->Seconds(from, to); }
  int Stream() override { return inner_->Stream(); }
  int Streams() const override { return inner_->Streams(); }
  void ComeAfter(const Event&) override {}
  void ComeAfter(int, uint64_t) override {}
  uint64_t Asked(int stream) const override { return inner_->Asked(stream); }
  uint64_t Passed(int stream) const override {
    if (broken_) return passed_[stream];
    return held_ ? held_at_[stream].load() : inner_->Passed(stream);
  }
  void WaitFor(const Event&) override { Wait(); }
  void Finish() override { Wait(); }

 private:
  void Start() {
    RaiseIfLost();
    if (!broken_ && launches_left_-- == 0) {
      if (held_) {
        for (size_t i = 0; i < passed_.size(); ++i) passed_[i] = held_at_[i].load();
      } else {
        NoteAsked(passed_);
      }
      broken_ = true;
    }
  }
  void Wait() {
    if (broken_) lost_ = true;
    RaiseIfLost();
  }
  void RaiseIfLost() const {
    if (lost_) throw MachineLost(ErrorCode::kDevice, "an illegal memory access was encountered");
  }

  using EventNumbers = std::array<std::atomic<uint64_t>, kMostStreams>;  // by stream
  void NoteAsked(EventNumbers& numbers) const {
    for (int i = 0; i < kMostStreams; ++i) numbers[i] = inner_->Asked(i);
  }

  const std::shared_ptr<Machine> inner_;
  std::mutex mutex_;
  std::map<Address, int64_t> taken_;  // bytes
  std::atomic<int> launches_left_{1 << 30};
  std::shared_ptr<std::atomic<int64_t>> memory_left_ =
      std::make_shared<std::atomic<int64_t>>(int64_t{1} << 40);
  std::atomic<bool> broken_{false}, lost_{false}, held_{false};
  EventNumbers passed_{}, held_at_{};
};

}  // namespace hammock::cuda
