/// What laziness costs: recording an op, a cached sync per op, a small cached step, memory per
/// node; beside libtorch's lazy tensors in the same run where they are found. Times are the best of
/// many repetitions.

#include <hammock/hammock.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>

#include "peer.h"

using namespace hammock;

namespace {

using Clock = std::chrono::steady_clock;

double Seconds(const std::function<void()>& fn) {
  auto start = Clock::now();
  fn();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Times {
  double trace = 1e9;  // seconds
  double sync = 1e9;
};

/// The best trace and sync of a chain over `budget` seconds.
Times Measure(const std::function<void()>& trace, const std::function<void()>& sync,
              double budget) {
  Times best;
  auto end = Clock::now() + std::chrono::duration<double>(budget);
  for (int i = 0; i < 5 || Clock::now() < end; ++i) {
    best.trace = std::min(best.trace, Seconds(trace));
    best.sync = std::min(best.sync, Seconds(sync));
  }
  return best;
}

double BestOf(int repeats, double budget, const std::function<void()>& fn) {
  double best = 1e9;
  auto end = Clock::now() + std::chrono::duration<double>(budget);
  while (Clock::now() < end) {
    best = std::min(best, Seconds([&] {
                            for (int i = 0; i < repeats; ++i) fn();
                          }) / repeats);
  }
  return best;
}

size_t HeapBytes() {
  auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

void Row(const char* what, double ours, double theirs, const char* unit) {
  if (theirs > 0) {
    std::printf("%-34s %10.1f %12.1f %9.1fx  %s\n", what, ours, theirs, theirs / ours, unit);
  } else {
    std::printf("%-34s %10.1f %12s %10s  %s\n", what, ours, "-", "-", unit);
  }
}

}  // namespace

int main() {
  // A flush in the middle of a chain would hide what its sync costs.
  config::Set<config::kTrimGraphSize>(0);
  config::Set<config::kTrimGraphBytes>(0);
  Device device("null");
  Tensor start = zeros({16}, f32, device);
  Tensor one = ones({16}, f32, device);
  mark_step(true);
  Tensor end;
  auto trace = [&](int ops) {
    end = start;
    for (int i = 0; i < ops; ++i) end = end + one;
  };
  auto sync = [&] {
    LazyGraphExecutor::Get()->SyncTensorsGraph(std::span(&end, 1));
    end = Tensor();
  };
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  bool peer = peer::Name() != nullptr;
  if (peer) peer::Start();

  std::printf("chain of additions of 16 elements; ours on the null backend; peer: %s\n",
              peer ? peer::Name() : "none found");
  std::printf("%-34s %10s %12s %10s\n", "", "hammock", "peer", "ratio");
  for (int ops : {10, 100, 1000, 10000}) {
    char name[64];
    Times ours = Measure([&] { trace(ops); }, sync, 0.5);
    Times theirs{-1, -1};
    // The peer overflows its stack when it runs a chain of 6000.
    if (peer && ops <= 1000) theirs = Measure([&] { peer::Trace(ops); }, peer::Sync, 0.5);
    std::snprintf(name, sizeof name, "trace, graph of %d ops", ops);
    Row(name, ours.trace / ops * 1e9, theirs.trace / ops * 1e9, "ns/op");
    std::snprintf(name, sizeof name, "cached sync, graph of %d ops", ops);
    Row(name, ours.sync / ops * 1e9, theirs.sync / ops * 1e9, "ns/op");
  }
  double step = BestOf(1000, 0.5, [&] {
    trace(10);
    sync();
  });
  double peer_step = peer ? BestOf(100, 0.5,
                                   [] {
                                     peer::Trace(10);
                                     peer::Sync();
                                   })
                          : -1e-6;
  Row("cached step of 10 ops", step * 1e6, peer_step * 1e6, "us");
  if (peer) {
    double eager = BestOf(1000, 0.3, [] { peer::Eager(10); });
    std::printf("%-34s %10s %12.1f %10s  us\n", "the same 10 ops, peer eager", "-", eager * 1e6,
                "-");
  }

  // Memory: nodes that were freed before are used again first, so ours takes that many more.
  constexpr int kNodes = 20000, kFreed = 20000;
  trace(kFreed);
  sync();
  size_t before = HeapBytes();
  trace(kFreed + kNodes);
  double ours = static_cast<double>(HeapBytes() - before) / kNodes;
  double theirs = -1;
  if (peer) {
    before = HeapBytes();
    peer::Trace(kNodes);
    theirs = static_cast<double>(HeapBytes() - before) / kNodes;
  }
  Row("memory per node", ours, theirs, "bytes");
  std::fflush(stdout);
  if (peer) std::_Exit(0);  // the peer's pending chain is left alone
  return 0;
}
