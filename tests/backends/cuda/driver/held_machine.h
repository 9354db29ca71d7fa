#pragma once
/// HeldMachine: a NotingMachine of which nobody learns that work has ended while it is held, as a
/// GPU that is busy. The work itself is done.

#include <condition_variable>
#include <mutex>

#include "backends/cuda/driver/noting_machine.h"

namespace hammock::cuda {

class HeldMachine : public NotingMachine {
 public:
  using NotingMachine::NotingMachine;

  void Hold() { SetHeld(true); }
  void Release() { SetHeld(false); }

  void WaitFor(const Event& event) override {
    Wait();
    NotingMachine::WaitFor(event);
  }
  void Finish() override {
    Wait();
    NotingMachine::Finish();
  }

 private:
  void SetHeld(bool held) {
    std::lock_guard lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !held_; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
};

}  // namespace hammock::cuda
