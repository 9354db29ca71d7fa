#pragma once
/// Random steps of several threads with values that are known, for tests of streams.

#include <gtest/gtest.h>

#include <cmath>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "hammock/hammock.h"

namespace hammock {

using Floats = std::vector<float>;

/// A thread that does what it is told, one thing after another.
class Worker {
 public:
  ~Worker() {
    thread_.request_stop();
    Give([] {});
    thread_.join();
  }

  /// Returns when it is done; raises what it raised.
  void Do(std::function<void()> work) {
    std::exception_ptr error;
    Give([&] {
      try {
        work();
      } catch (...) {
        error = std::current_exception();
      }
    });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !work_; });
    if (error) std::rethrow_exception(error);
  }
  void Start(std::function<void()> work) { Give(std::move(work)); }

 private:
  void Give(std::function<void()> work) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !work_; });
    work_ = std::move(work);
    changed_.notify_all();
  }
  void Work(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      changed_.wait(lock, [this] { return work_ != nullptr; });
      lock.unlock();
      work_();
      lock.lock();
      work_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;
  std::jthread thread_{[this](const std::stop_token& stop) { Work(stop); }};
};

/// Values and what they should be.
struct Mirrored {
  Tensor tensor;
  Floats values;
};

class RandomSteps {
 public:
  RandomSteps(const Device& device, unsigned seed, int count) : device_(device), random_(seed) {
    for (int i = 0; i < count; ++i) {
      all_.push_back({});
      Renew(all_.back());
    }
  }

  /// Some op; `shared` may be read.
  void DoSomething(std::vector<Mirrored>* shared = nullptr) {
    Mirrored& to = Any(all_);
    Mirrored& from = Any(shared && Below(2) == 0 ? *shared : all_);
    const auto factor = static_cast<float>(1 + Below(3));
    switch (Below(7)) {
      case 0:
        return Renew(to);
      case 1:
        return Make(to, (to.tensor + from.tensor) % 97,
                    [&](size_t i) { return to.values[i] + from.values[i]; });
      case 2:
        to.tensor.add_(from.tensor).remainder_(97);
        return Make(to, to.tensor, [&](size_t i) { return to.values[i] + from.values[i]; });
      case 3:
        to.tensor.mul_(factor).remainder_(97);
        return Make(to, to.tensor, [&](size_t i) { return to.values[i] * factor; });
      case 4: {  // can fail, and has a result that others use before it is known that it has not
        const int64_t at = Below(kSize);
        Tensor picked =
            index_select(from.tensor, 0, tensor(std::vector<int64_t>{at}, {1}, i64, device_));
        const float value = from.values[at];
        to.tensor.add_(picked).remainder_(97);
        return Make(to, to.tensor, [&](size_t i) { return to.values[i] + value; });
      }
      case 5:
        mark_step();
        return;
      default:
        if (Below(4) > 0) return;
        EXPECT_EQ(to.tensor.to_vector<float>(), to.values);
    }
  }
  void CheckAll() {
    for (const Mirrored& one : all_) EXPECT_EQ(one.tensor.to_vector<float>(), one.values);
  }
  std::vector<Mirrored>& all() { return all_; }
  int Below(int end) { return static_cast<int>(random_() % static_cast<unsigned>(end)); }

 private:
  static constexpr int kSize = 64;

  Mirrored& Any(std::vector<Mirrored>& list) {
    return list[static_cast<size_t>(Below(static_cast<int>(list.size())))];
  }
  void Renew(Mirrored& one) {
    one.values.clear();
    for (int i = 0; i < kSize; ++i) one.values.push_back(static_cast<float>(Below(97)));
    one.tensor = tensor(one.values, {kSize}, f32, device_);
  }
  template <class F>
  void Make(Mirrored& to, Tensor made, F value) {
    Floats values;
    for (size_t i = 0; i < static_cast<size_t>(kSize); ++i) {
      values.push_back(std::fmod(value(i), 97.0f));
    }
    to.tensor = std::move(made);
    to.values = std::move(values);
    if (Below(4) > 0) mark_step();
  }

  const Device device_;
  std::minstd_rand random_;
  std::vector<Mirrored> all_;
};

/// Threads take turns with the same values, so that these are known; what they ask for overlaps.
inline void PassValues(const Device& device, unsigned seed) {
  Worker workers[3];
  RandomSteps steps(device, seed, 6);
  for (int i = 0; i < 300; ++i) {
    workers[steps.Below(3)].Do([&] { steps.DoSomething(); });
  }
  steps.CheckAll();
}

/// Threads have values of their own and read some of others.
inline void RunAtTheSameTime(const Device& device, unsigned seed) {
  RandomSteps shared(device, seed, 4);
  mark_step();
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < 3; ++i) {
    threads.emplace_back([&, i, read = shared.all()]() mutable {
      RandomSteps own(device, seed * 10 + i, 4);
      for (int k = 0; k < 100; ++k) own.DoSomething(&read);
      own.CheckAll();
    });
  }
  for (std::jthread& thread : threads) thread.join();
  shared.CheckAll();
}

}  // namespace hammock
