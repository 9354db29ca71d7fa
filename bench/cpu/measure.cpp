#include "measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <future>
#include <thread>

#include "floors.h"
#include "ours.h"
#include "peer.h"

namespace bench {

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kRounds = 6;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Times TimesOf(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  return {samples[0], samples[samples.size() / 2]};
}

/// The peer's settings of OpenMP belong to threads: it has one of its own, ours does not see them.
void OnPeerThread(const std::function<void()>& fn) {
  static std::packaged_task<void()>* task = nullptr;
  static std::mutex mutex;
  static std::condition_variable changed;
  static std::thread* thread = new std::thread([] {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [] { return task != nullptr; });
      (*task)();
      task = nullptr;
    }
  });
  (void)thread;
  std::packaged_task<void()> mine(fn);
  auto done = mine.get_future();
  {
    std::lock_guard lock(mutex);
    task = &mine;
  }
  changed.notify_one();
  done.get();
}

/// Repeats until kernels, caches and profiles have settled.
void WarmUp(const Side& side) {
  auto start = Clock::now();
  for (int i = 0; (i < 4 || SecondsSince(start) < 0.05) && i < 1000; ++i) {
    side.Step();
    if (SecondsSince(start) > 1) return;
  }
}

struct Samples {
  std::vector<double> step, trace;
};

void Repeat(const Side& side, double budget, Samples& samples) {
  side.Step();
  auto end = Clock::now() + std::chrono::duration<double>(budget);
  do {
    auto start = Clock::now();
    double traced = 0;
    if (side.trace) {
      side.trace();
      traced = SecondsSince(start);
    }
    side.run();
    samples.step.push_back(SecondsSince(start));
    if (side.trace) samples.trace.push_back(traced);
  } while (Clock::now() < end);
}

/// The clock is read once for many steps, where a step is about as short as reading it.
void RepeatShort(const Side& side, double budget, Samples& samples) {
  constexpr int kSteps = 200;
  auto end = Clock::now() + std::chrono::duration<double>(budget);
  do {
    auto start = Clock::now();
    for (int i = 0; i < kSteps; ++i) side.Step();
    samples.step.push_back(SecondsSince(start) / kSteps);
  } while (Clock::now() < end);
}

/// The largest difference over the largest value.
double Difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  double difference = 0, largest = 1e-30;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) != std::isnan(b[i])) return INFINITY;
    difference = std::max(difference, static_cast<double>(std::abs(a[i] - b[i])));
    largest = std::max(largest, static_cast<double>(std::abs(b[i])));
  }
  return difference / largest;
}

struct Sides {
  Side ours, eager, lazy;
};

Sides MakeSides(const Row& row, const Options& options, Result& result) {
  Sides sides;
  std::vector<Array> inputs = InputsOf(row);
  try {
    sides.ours = ours::Make(row, inputs);
    sides.ours.Step();
    sides.ours.Step();
    result.notes["steps"] = ours::LatestSteps();
  } catch (const std::exception& error) {
    result.notes["error"] = error.what();
    sides.ours = {};
  }
  if (!peer::Name() || !options.peer) return sides;
  try {
    OnPeerThread([&] {
      for (bool lazy : {false, true}) {
        Side& side = lazy ? sides.lazy : sides.eager;
        side = peer::Make(row, inputs, lazy);
        side.Step();
        side.Step();
      }
    });
  } catch (const std::exception& error) {
    result.notes["peer_error"] = error.what();
    (sides.eager.result ? sides.lazy : sides.eager) = {};
  }
  return sides;
}

void Compare(const Row& row, const Sides& sides, Result& result) {
  if (!sides.ours.run || !sides.eager.run) return;
  std::vector<float> theirs;
  OnPeerThread([&] { theirs = sides.eager.result(); });
  double difference = Difference(sides.ours.result(), theirs);
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", difference);
  result.notes["difference"] = text;
  double tolerance = row.work == Work::kMatmulBf16 ? 2e-2 : 1e-4;
  if (!(difference <= tolerance)) {
    result.notes["error"] = std::string("results differ by ") + text;
  }
}

void MeasureSides(const Row& row, const Options& options, Result& result) {
  Sides sides = MakeSides(row, options, result);
  try {
    Compare(row, sides, result);
  } catch (const std::exception& error) {
    result.notes["error"] = error.what();
    sides.ours = {};
  }
  Samples ours, eager, lazy;
  std::vector<double> floor;
  auto repeat = row.work == Work::kChain ? RepeatShort : Repeat;
  auto peer_turn = [&](const Side& side, Samples& samples, double budget) {
    if (side.run) OnPeerThread([&] { repeat(side, budget, samples); });
  };
  if (sides.ours.run) WarmUp(sides.ours);
  for (const Side* side : {&sides.eager, &sides.lazy}) {
    if (side->run) OnPeerThread([&] { WarmUp(*side); });
  }
  for (int round = 0; round < kRounds; ++round) {
    double budget = options.budget / kRounds;
    // Threads of the side before have stopped to spin.
    auto rest = [] { std::this_thread::sleep_for(std::chrono::milliseconds(10)); };
    rest();
    if (sides.ours.run) repeat(sides.ours, budget, ours);
    rest();
    if (row.floor != Floor::kNone) {
      MeasureFloor(row.floor, row.flops, options.threads, budget / 3, floor);
    }
    rest();
    peer_turn(sides.eager, eager, budget);
    rest();
    peer_turn(sides.lazy, lazy, budget);
  }
  result.times["ours"] = TimesOf(ours.step);
  result.times["trace"] = TimesOf(ours.trace);
  result.times["eager"] = TimesOf(eager.step);
  result.times["lazy"] = TimesOf(lazy.step);
  result.times["floor"] = TimesOf(floor);
  OnPeerThread([&] { sides.eager = sides.lazy = {}; });
}

void MeasureAlone(const Row& row, Result& result) {
  constexpr int kNewKernels = 40, kNewGraphs = 12;
  switch (row.work) {
    case Work::kCompile:
      ours::NewKernels(2);  // starts the compiler
      result.times["ours"] = TimesOf(ours::NewKernels(kNewKernels));
      break;
    case Work::kCachedObject:
      result.times["ours"] = TimesOf(ours::CachedKernels(kNewKernels));
      break;
    default: {
      ours::NewGraphs(1);
      ours::ColdStart cold = ours::NewGraphs(kNewGraphs);
      bool first = row.work == Work::kFirstResult;
      result.times["ours"] = TimesOf(first ? cold.first_result : cold.full_speed);
    }
  }
}

}  // namespace

Result Measure(const Row& row, const Options& options) {
  Result result;
  try {
    bool cold = row.work == Work::kFirstResult || row.work == Work::kFullSpeed;
    ours::Start(options.threads, /*wait_for_code=*/!cold);
    if (row.work >= Work::kCompile) {
      MeasureAlone(row, result);
    } else {
      if (peer::Name() && options.peer) OnPeerThread([&] { peer::Start(options.threads); });
      MeasureSides(row, options, result);
    }
    if (options.text) std::fprintf(stderr, "%s\n", ours::LatestText().c_str());
  } catch (const std::exception& error) {
    result.notes["error"] = error.what();
  }
  return result;
}

}  // namespace bench
