// Runs of one executable, and values that must be left alone.
#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "conform/check_functions.h"
#include "conform/rule_kit.h"

namespace hammock::tool {

std::string RepeatsRuns(const Subject& subject) {
  Device device = Open(subject);
  SHOWN(Tensor x = from_host(Ramp(f32, {31, 33}), device) * 0.37f;
        Tensor at = from_host(Ramp(u8, {31}), device).to(i64); mark_step(true); auto results = [&] {
          Tensor y = softmax(matmul(x, transpose(x, 0, 1)), 1);
          return std::vector<Tensor>{y, sum(y * y), index_add(sum(y, {0}), 0, at, x.select(1, 0))};
        });
  std::string wrong;
  std::vector<HostTensor> first;
  for (int run = 0; run < 6 && wrong.empty(); ++run) {
    const std::vector<Tensor> made = results();
    if (run == 0) ShowGraph({made[0], made[1], made[2]});
    mark_step();  // one executable, from the second run on
    for (size_t i = 0; i < made.size(); ++i) {
      const HostTensor got = made[i].host();
      if (run == 0) first.push_back(got);
      const std::string differs = BitDifference(got, first[i]);
      if (!differs.empty()) wrong += fmt::format("run {}, result {}: {}\n", run + 1, i, differs);
    }
  }
  return wrong;
}

/// Each result is overwritten by a run that it is donated to, and then released.
std::string GivesResultsMemory(const Subject& subject) {
  const DirectDevice device(Open(subject));
  const HostTensor given = Ramp(f32, {64});
  SHOWN(auto twice = device.Compile(TwiceGraph("64"));
        auto three = device.Compile("%0 = input : f32[64]\n%1 = add %0, %0 : f32[64]\n"
                                    "return %0, %1, %1");
        BackendDataPtr x = device.Upload(given); auto results = device.Run(three, {x}));
  HostTensor wanted[] = {given, Ramp(f32, {64})};
  for (int64_t i = 0; i < 64; ++i) wanted[1].set(i, 2 * given.at(i).ToDouble());
  std::string wrong;
  std::vector<BackendDataPtr> written;  // alive, so that no memory is used again
  for (size_t gone = 0; gone < 3; ++gone) {
    SHOWN(written.push_back(device.Run(twice, {results[gone]}, {true})[0]); results[gone].reset());
    for (size_t i = gone + 1; i < 3; ++i) {
      const std::string differs = Difference(device.Download(results[i]), wanted[i > 0]);
      if (!differs.empty()) wrong += fmt::format("result {} changes: {}\n", i, differs);
    }
    wrong += Line(Difference(device.Download(x), given));
  }
  return wrong;
}

std::string CopiesData(const Subject& subject) {
  const DirectDevice device(Open(subject));
  const HostTensor given = Ramp(f32, {64});
  auto twice = device.Compile(TwiceGraph("64"));
  std::string wrong;
  int copies = 0;
  for (const lazy::BackendDevice& to : device.backend.GetBackendDevices()) {
    BackendDataPtr x = device.Upload(given);
    BackendDataPtr copy = device.backend.CopyToDevice(x, to);
    if (!copy) continue;
    ++copies;
    copy->WaitReady();
    auto written = device.Run(twice, {x}, {true});
    x.reset();
    const std::string differs = Difference(device.Download(copy), given);
    if (!differs.empty()) wrong += fmt::format("the copy to {}: {}\n", to.toString(), differs);
  }
  if (copies == 0) throw SkippedRule{"it copies no data: all go through the host"};
  return wrong;
}

std::string InstancesAreCompilations(const Subject& subject) {
  const DirectDevice device(Open(subject));
  if (!device.backend.SupportsDimParams(device.where)) {
    throw SkippedRule{"it compiles each size by itself"};
  }
  SHOWN(auto general = device.Compile("graph(n=4)\n" + TwiceGraph("n")));
  std::string wrong;
  for (int64_t n : {1, 4, 5, 70}) {
    const HostTensor given = Ramp(f32, {n});
    try {
      SHOWN(auto instance = device.backend.Instantiate(general, std::vector<int64_t>{n});
            HostTensor got = device.Download(device.Run(instance, {device.Upload(given)})[0]));
      auto alone = device.Compile(TwiceGraph(std::to_string(n)));
      const HostTensor wanted = device.Download(device.Run(alone, {device.Upload(given)})[0]);
      const std::string differs = BitDifference(got, wanted);
      if (!differs.empty()) wrong += fmt::format("n = {}: {}\n", n, differs);
    } catch (const NotSupported&) {  // the graph is then compiled at these sizes
    } catch (const CompileError&) {
    }
  }
  return wrong;
}

std::string SeedsChangeNoValue(const Subject& subject) {
  Device device = Open(subject);
  SHOWN(
      Tensor x = from_host(Ramp(f32, {40}), device); auto step = [&] { return x * 3.0f + x; };
      auto draw =
          [](const Device& on) {
            manual_seed(7);
            return randint(0, 1000, {40}, i64, on);
          });
  ShowGraph({step(), draw(device)});
  const HostTensor before = step().host();
  std::string wrong;
  for (uint64_t seed : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
    manual_seed(seed);
    wrong += Line(BitDifference(step().host(), before));
    const std::string differs = BitDifference(draw(device).host(), draw("reference").host());
    if (!differs.empty()) wrong += "random integers: " + differs + "\n";
  }
  return wrong;
}

/// Uploads, runs, downloads and releases of eight threads. Runs are one at a time where the plug-in
/// asks for that.
std::string SharesExecutables(const Subject& subject) {
  const DirectDevice device(Open(subject));
  SHOWN(auto twice = device.Compile(TwiceGraph("1000")));
  const bool at_once =
      device.backend.IsAsynchronous() || device.backend.SupportsConcurrentExecution();
  std::mutex one_at_a_time, wrong_mutex;
  std::string wrong;
  auto run = [&](int thread) {
    for (int i = 0; i < 40; ++i) {
      HostTensor given(Shape(f32, {1000})), wanted(Shape(f32, {1000}));
      for (int64_t k = 0; k < 1000; ++k) {
        given.set(k, static_cast<double>(thread * 100 + i + k));
        wanted.set(k, 2 * given.at(k).ToDouble());
      }
      std::string differs;
      try {
        BackendDataPtr x = device.Upload(given);
        std::unique_lock lock(one_at_a_time, std::defer_lock);
        if (!at_once) lock.lock();
        BackendDataPtr y = device.Run(twice, {x})[0];
        if (!at_once) lock.unlock();
        differs = Difference(device.Download(y), wanted);
      } catch (const std::exception& error) {
        differs = error.what();
      }
      if (differs.empty()) continue;
      std::lock_guard lock(wrong_mutex);
      wrong += fmt::format("thread {}, run {}: {}\n", thread, i, differs);
      return;
    }
  };
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) threads.emplace_back(run, thread);
  for (std::thread& thread : threads) thread.join();
  return wrong;
}

}  // namespace hammock::tool
