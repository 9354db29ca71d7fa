// One rank of a program that tests of several folders start: distributed_child SCENARIO.

#include <hammock/boxing.h>
#include <hammock/control.h>
#include <hammock/custom_call.h>
#include <hammock/distributed.h>
#include <hammock/distributed/checkpoint.h>
#include <hammock/distributed/data_parallel.h>
#include <hammock/hammock.h>
#include <hammock/op_builder.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iomanip>
#include <iostream>
#include <map>
#include <thread>

#include "child_kit.h"

using namespace hammock;
using distributed::Group;
using distributed::Reduction;
using std::chrono::steady_clock;
using namespace hammock::testing;

namespace {

const char* const kPatient = "60000";
const int64_t kTimeout = std::atoi(std::getenv("HAMMOCK_DISTRIBUTED_TIMEOUT"));

void Collectives() {
  Group world = distributed::init();
  const float r = static_cast<float>(world.rank());
  const int n = world.size();
  double sum = 0, prod = 1;
  for (int i = 0; i < n; ++i) {
    sum += i;
    prod *= i + 1;
  }
  CheckEqual(distributed::all_reduce(Own({r, 1})), {sum, double(n)});
  CheckEqual(distributed::all_reduce(Own({r}), Reduction::kMean), {sum / n});
  CheckEqual(distributed::all_reduce(Own({r + 1}), Reduction::kProd), {prod});
  CheckEqual(distributed::all_reduce(Own({r}), Reduction::kMin), {0});
  CheckEqual(distributed::all_reduce(Own({r}), Reduction::kMax), {double(n - 1)});
  std::vector<double> ranks, twice;
  for (int i = 0; i < n; ++i) ranks.push_back(i);
  CheckEqual(distributed::all_gather(Own({r})), ranks);
  Tensor column = Own({r, r}).reshape({2, 1});
  for (int i = 0; i < 2 * n; ++i) twice.push_back(i % n);
  CheckEqual(distributed::all_gather(column, 1), twice);
  Tensor all = arange(Scalar(2 * n)).to(DType::kF32);
  CheckEqual(distributed::reduce_scatter(all), {2.0 * n * r, n * (2.0 * r + 1)});
  CheckEqual(distributed::broadcast(Own({r, 7}), n - 1), {double(n - 1), 7});
  std::vector<float> parts;
  for (int i = 0; i < n; ++i) parts.push_back(10 * r + static_cast<float>(i));
  std::vector<double> came;
  for (int i = 0; i < n; ++i) came.push_back(10.0 * i + r);
  CheckEqual(distributed::all_to_all(Own(parts)), came);
  std::vector<std::pair<int, int>> ring, line;
  for (int i = 0; i < n; ++i) ring.push_back({i, (i + 1) % n});
  line.assign(ring.begin(), ring.end() - 1);
  const double before = (world.rank() + n - 1) % n;
  CheckEqual(distributed::permute(Own({r}), ring), {before});
  CheckEqual(distributed::permute(Own({r + 1}), line), {world.rank() == 0 ? 0 : before + 1});
  distributed::shutdown();
}

/// Sizes around the limits of messages and pieces, and dtypes.
void Sizes() {
  Group world = distributed::init();
  const int n = world.size();
  for (int64_t size : {0, 1, 3, 2048, 2049, 5000, 3000001}) {
    Tensor x = arange(Scalar(size)).to(DType::kF32) + Scalar(double(world.rank()));
    Tensor sum = distributed::all_reduce(x, Reduction::kMax);
    Tensor want = arange(Scalar(size)).to(DType::kF32) + Scalar(double(n - 1));
    Check(hammock::all(eq(sum, want)).item().ToBool(), "size " + std::to_string(size));
  }
  for (int64_t size : {1, 3, 600001}) {  // of a part
    Tensor numbers = arange(Scalar(n * size)).to(DType::kF32);
    Tensor own = distributed::reduce_scatter(numbers + Scalar(double(world.rank())));
    Tensor want = numbers.narrow(0, world.rank() * size, size) * Scalar(double(n)) +
                  Scalar(n * (n - 1) / 2.0);
    Check(hammock::all(eq(own, want)).item().ToBool(), "part of size " + std::to_string(size));
  }
  for (DType dtype : {DType::kF64, DType::kI32, DType::kI64, DType::kU8, DType::kI8}) {
    Tensor x = ones({5}, dtype);
    CheckEqual(distributed::all_reduce(x), std::vector<double>(5, n));
  }
  CheckEqual(distributed::all_reduce(ones({2}, DType::kBool)), {1, 1});
  // 256 + 1 has no bf16: accumulated in bf16, 256 + 1 + 1 would be 256.
  Tensor large = full({1}, Scalar(world.rank() == 0 ? 256.0 : 1.0), DType::kBF16);
  if (n >= 3) CheckEqual(distributed::all_reduce(large), {n == 3 ? 258.0 : 260.0});
  distributed::shutdown();
}

/// The gradient of the sum of all ranks' losses, which are quadratic in the result of a collective,
/// beside a difference along a direction of all ranks' elements.
void CheckGradient(const std::string& what, const std::function<Tensor(const Tensor&)>& fn) {
  const auto rank = static_cast<uint64_t>(distributed::rank());
  const Dims sizes = {distributed::size(), 2 * distributed::size()};
  Tensor x = Data(sizes, rank), direction = Data(sizes, rank + 10);
  auto loss = [&](const Tensor& at) {
    Tensor y = fn(at);
    return sum(y * y * Data(y.sizes(), rank + 20));
  };
  auto total = [&](double step) {
    return distributed::all_reduce(loss(x + direction * Scalar(step))).item<double>();
  };
  Tensor leaf = x.clone().requires_grad_();
  Tensor slope = sum(grad({loss(leaf)}, {leaf})[0] * direction);
  const double h = 1e-5;
  CheckClose({distributed::all_reduce(slope).item<double>()}, {(total(h) - total(-h)) / (2 * h)},
             1e-6, "gradient of " + what);
}

/// The gradient of the sum of all ranks' losses.
void Gradients() {
  Group world = distributed::init();
  const int n = world.size();
  const double r = world.rank();
  auto grad = [&](const std::function<Tensor(const Tensor&)>& fn, const Tensor& x) {
    Tensor leaf = x.clone().requires_grad_();
    Tensor y = fn(leaf);
    return hammock::grad({sum(y * Scalar(r + 1))}, {leaf})[0];
  };
  double weights = 0;
  for (int i = 0; i < n; ++i) weights += i + 1;
  CheckEqual(grad([](const Tensor& x) { return distributed::all_reduce(x); }, Own({1, 2})),
             {weights, weights});
  CheckEqual(
      grad([](const Tensor& x) { return distributed::all_reduce(x, Reduction::kMean); }, Own({1})),
      {weights / n});
  CheckEqual(grad([](const Tensor& x) { return distributed::all_reduce(x, Reduction::kMax); },
                  Own({float(r)})),
             {r == n - 1 ? weights : 0});
  double others = 1;
  for (int i = 0; i < n; ++i) others *= i == r ? 1 : i + 1;
  CheckEqual(grad([](const Tensor& x) { return distributed::all_reduce(x, Reduction::kProd); },
                  Own({float(r) + 1})),
             {weights * others});
  CheckEqual(grad([](const Tensor& x) { return distributed::all_gather(x); }, Own({1})), {weights});
  CheckEqual(
      grad([](const Tensor& x) { return distributed::reduce_scatter(x); }, ones({n}, DType::kF32)),
      [&] {
        std::vector<double> all;
        for (int i = 0; i < n; ++i) all.push_back(i + 1);
        return all;
      }());
  CheckEqual(grad([](const Tensor& x) { return distributed::broadcast(x, 1); }, Own({1})),
             {r == 1 ? weights : 0});
  std::vector<std::pair<int, int>> ring;
  for (int i = 0; i < n; ++i) ring.push_back({i, (i + 1) % n});
  CheckEqual(grad([&](const Tensor& x) { return distributed::permute(x, ring); }, Own({1})),
             {double((world.rank() + 1) % n + 1)});
  // Of equal elements each has its share.
  CheckEqual(grad([](const Tensor& x) { return distributed::reduce_scatter(x, Reduction::kMax); },
                  ones({n}, DType::kF32)),
             [&] {
               std::vector<double> shares;
               for (int i = 0; i < n; ++i) shares.push_back((i + 1.0) / n);
               return shares;
             }());
  const std::vector<std::pair<Reduction, std::string>> reductions = {{Reduction::kSum, "sum"},
                                                                     {Reduction::kMean, "mean"},
                                                                     {Reduction::kMin, "min"},
                                                                     {Reduction::kMax, "max"},
                                                                     {Reduction::kProd, "prod"}};
  for (const auto& [reduction, name] : reductions) {
    CheckGradient("all_reduce " + name, [reduction = reduction](const Tensor& x) {
      return distributed::all_reduce(x, reduction);
    });
    CheckGradient("reduce_scatter " + name, [reduction = reduction](const Tensor& x) {
      return distributed::reduce_scatter(x, reduction, 1);
    });
  }
  CheckGradient("all_gather", [](const Tensor& x) { return distributed::all_gather(x, 1); });
  CheckGradient("broadcast", [](const Tensor& x) { return distributed::broadcast(x, 1); });
  CheckGradient("all_to_all", [](const Tensor& x) { return distributed::all_to_all(x, 0, 1); });
  CheckGradient("permute", [&](const Tensor& x) { return distributed::permute(x, ring); });
  distributed::shutdown();
}

void Groups() {
  Group world = distributed::init();
  Group half = world.split(world.rank() % 2, -world.rank());
  Check(half.size() == (world.size() + 1 - world.rank() % 2) / 2, "size of a half");
  double sum = 0;
  for (int i = world.rank() % 2; i < world.size(); i += 2) sum += i;
  Tensor both = distributed::all_reduce(Own({float(world.rank())}), Reduction::kSum, half) +
                distributed::all_reduce(Own({1}));
  CheckEqual(both, {sum + world.size()});
  Check(half.world_ranks()[size_t(half.rank())] == world.rank(), "rank in the world");
  Check(half.steps() == 1 && world.steps() == 1, "steps");
  world.barrier();
  distributed::shutdown();
  Check(!distributed::is_initialized() && distributed::size() == 1, "a world of one afterwards");
  Group again = distributed::init();  // meets anew
  CheckEqual(distributed::all_reduce(Own({1})), {double(again.size())});
  distributed::shutdown();
}

/// Ranks that keep, read and drop other things run the same collectives in the same order.
void Order() {
  Group world = distributed::init();
  const float r = static_cast<float>(world.rank());
  const double n = world.size();
  for (int round = 0; round < 3; ++round) {
    Tensor first = distributed::all_reduce(Own({r}));
    Tensor second = distributed::all_reduce(Own({r, 1}), Reduction::kMax);
    Tensor log;
    if (world.rank() == 0) log = second * Scalar(2.0);  // whose walk comes to the second one first
    Tensor third = distributed::all_gather(second);
    if (world.rank() == 1) first = Tensor();  // dropped: others wait for it all the same
    mark_step();
    if (world.rank() == 0) CheckEqual(log, {2 * (n - 1), 2});
    if (world.rank() != 1) CheckEqual(first, {n * (n - 1) / 2});
  }
  distributed::shutdown();
}

/// `count` times: the sum of all ranks' values.
Tensor SumsInLoop(const Tensor& x, int64_t count) {
  return for_loop(count,
                  [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
                    return {distributed::all_reduce(in[1])};
                  },
                  {x})[0];
}

/// Collectives of a loop run as often as the loop does, in the order of recording.
void Loops() {
  Group world = distributed::init();
  const double n = world.size();
  Tensor x = Own({1}).requires_grad_(), y = SumsInLoop(x, 3);
  CheckEqual(y, {n * n * n});
  CheckEqual(hammock::grad({hammock::sum(y)}, {x})[0], {n * n * n});
  for (int round = 0; round < 2; ++round) {
    Tensor dropped = SumsInLoop(Own({1}), 2), other = distributed::all_reduce(Own({2}));
    Tensor both = SumsInLoop(distributed::all_reduce(Own({1, 3})), 2);
    if (world.rank() == 1) dropped = Tensor();  // others wait for it all the same
    mark_step();
    if (world.rank() == 0) CheckEqual(both + dropped, {n * n * n + n * n, 3 * n * n * n + n * n});
    CheckEqual(other, {2 * n});
  }
  auto refused = [](const std::function<void()>& record) {
    try {
      record();
    } catch (const NotSupported& error) {
      const std::string text = error.what();
      Check(text.find("has all_reduce, in which ranks would wait") != text.npos, text);
      return;
    }
    Check(false, "not refused");
  };
  auto summed = [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    return {distributed::all_reduce(in[0])};
  };
  auto same = [](const std::vector<Tensor>& in) { return in; };
  refused([&] { cond(ones({}) > 0.0, same, summed, {Own({1})}); });
  refused([&] {
    while_loop([](const std::vector<Tensor>& in) -> std::vector<Tensor> { return {in[0] < 9.0}; },
               summed, {Own({1})});
  });
  distributed::shutdown();
}

/// The same bits in every run and however tensors are cut.
void Bits() {
  Group world = distributed::init();
  manual_seed(uint64_t(world.rank()));
  Tensor x = randn({100003}) * exp(randn({100003}));
  Tensor whole = distributed::all_reduce(x);
  Tensor parts = cat({distributed::all_reduce(x.narrow(0, 0, 1000)),
                      distributed::all_reduce(x.narrow(0, 1000, 99003))});
  Check(hammock::all(eq(whole, parts)).item().ToBool(), "bits of parts");
  std::cout << std::setprecision(17) << "bits " << sum(whole.to(DType::kF64)).item().ToDouble()
            << std::endl;
  distributed::shutdown();
}

void Diverge(const std::function<void(Group&)>& differ) {
  Group world = distributed::init();
  CheckEqual(distributed::all_reduce(Own({1})), {double(world.size())});
  try {
    differ(world);
    mark_step(true);
  } catch (const distributed::DivergedError& error) {
    std::cout << "diverged: " << error.what() << std::endl;
    std::fflush(stdout);
    std::_Exit(0);
  }
  Check(false, "no error");
}

Tensor Kept;

void WrongShape() {
  Diverge([](Group& world) {
    Kept = distributed::all_reduce(world.rank() == 1 ? ones({3}) : ones({4}));
  });
}
void WrongOrder() {
  Diverge([](Group& world) {
    Tensor a, b;
    if (world.rank() == 1) b = distributed::all_gather(ones({2}));
    a = distributed::all_reduce(ones({2}));
    if (world.rank() != 1) b = distributed::all_gather(ones({2}));
    Kept = sum(a) + sum(b);
  });
}
void WrongBranch() {
  Diverge([](Group& world) {
    Tensor x = ones({4});
    x = world.rank() == 1 ? exp(x) : x * Scalar(2.0);
    if (world.rank() == 1) {
      Kept = distributed::all_reduce(x, Reduction::kMax);
    } else {
      Kept = distributed::all_reduce(x);
    }
  });
}
void WrongReduction() {
  Diverge([](Group& world) {
    Kept =
        distributed::all_reduce(ones({4}), world.rank() == 1 ? Reduction::kMean : Reduction::kSum);
  });
}
void WrongCount() {
  Diverge([](Group& world) { Kept = SumsInLoop(ones({4}), world.rank() == 1 ? 3 : 2); });
}
/// Options that decide what is sent.
void WrongConfig() {
  Diverge([](Group& world) {
    if (world.rank() == 1) config::Set("distributed.bucket_bytes", "8");
    Kept = distributed::all_reduce(std::vector<Tensor>{ones({4}), ones({2})})[0];
  });
}
void StepTooFew() {
  Diverge([](Group& world) {
    if (world.rank() == 1) distributed::shutdown();
    Kept = distributed::all_reduce(ones({4}));
  });
}
/// A rank that leaves out a step joins the others' with its next one, which has the same
/// collectives: nothing differs before the end.
void SkippedStep() {
  Diverge([](Group& world) {
    const int others = world.size() - 1, steps = 4;
    const bool skips = world.rank() == 1;
    for (int i = 0; i < steps; ++i) {
      if (skips && i == 1) continue;
      Tensor sum;
      step([&] { sum = distributed::all_reduce(Own({float(i)})); });
      if (!skips && i == steps - 1) break;          // rank 1 does not come to it
      const int here = skips && i > 0 ? i - 1 : i;  // the step of the others
      CheckEqual(sum, {double(others * here + (i > 0 ? here + 1 : 0))});
    }
    if (skips) distributed::shutdown();
  });
}

/// Empty files by which ranks say that they have survived.
std::filesystem::path SurvivedFile(int rank) {
  return std::string(std::getenv("RANKS_TEST_FOLDER")) + "/survived." + std::to_string(rank);
}
/// Waits until the ranks below `count` have survived without this one.
void AwaitSurvivors(int count) {
  const auto end = steady_clock::now() + std::chrono::seconds(60);
  for (int rank = 0; rank < count; ++rank) {
    while (!std::filesystem::exists(SurvivedFile(rank)) && steady_clock::now() < end) usleep(2000);
  }
}

/// A checkpoint of what all ranks of a group have.
void SaveAndLoad(const Group& group) {
  const char* folder = std::getenv("RANKS_TEST_FOLDER");
  if (!folder) return;
  nn::Linear layer(2, 2);
  distributed::Checkpoint checkpoint(group);
  checkpoint.add("layer", *layer);
  const std::vector<double> saved = Values(layer->weight);
  checkpoint.save(folder + std::string("/after"));
  {
    NoGradGuard no_grad;
    layer->weight.fill_(Scalar(7.0));
  }
  Check(checkpoint.load(folder + std::string("/after")) == group.steps(), "steps of a checkpoint");
  CheckClose(Values(layer->weight), saved, 0, "a checkpoint of the survivors");
}

/// A rank that has gone is noticed at once, one that does not answer by the time limit, in which
/// 2 s are for a machine that does other things too.
constexpr int64_t kAtOnce = 5000, kSlack = 2000;

/// The last rank misbehaves in a step; the others get the right error in so many milliseconds, have
/// their values from before it, and go on without it.
void Fault(int64_t most_ms, const std::function<void()>& misbehave) {
  // The short time limit is that of the fault alone: ranks may be slow to start and to connect.
  config::Set("distributed.timeout", kPatient);
  Group world = distributed::init();
  const int bad = world.size() - 1;
  Tensor weight = zeros({3});
  auto train = [&](const Group& group, bool misbehaves) {
    StepScope scope;
    Tensor grad = distributed::all_reduce(ones({3}), Reduction::kSum, group);
    weight.add_(grad);
    if (misbehaves) misbehave();
    scope.Mark();
  };
  for (int i = 0; i < 3; ++i) train(world, false);
  CheckEqual(weight, std::vector<double>(3, 3.0 * world.size()));
  world.barrier();
  config::Set("distributed.timeout", std::to_string(kTimeout));
  const auto start = steady_clock::now();
  bool raised = false;
  try {
    for (int i = 0; i < 3; ++i) train(world, world.rank() == bad && i == 0);
    CheckEqual(weight, {});
  } catch (const distributed::RankError& error) {
    raised = true;
    const auto ms =
        std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - start).count();
    std::cout << "rank error after " << ms << " ms: " << error.what() << std::endl;
    if (world.rank() != bad) {
      Check(ms < most_ms, "after " + std::to_string(ms) + " ms");
      Check(error.ranks() == std::vector{bad}, "another rank is named");
      const std::string text = error.what();
      const size_t waited = text.find("waited in all_reduce [at ");
      Check(waited != text.npos && text.find("child.cpp:", waited) != text.npos, text);
    }
  }
  Check(raised, "no error");
  Check(world.failed() && world.steps() == 3, "steps " + std::to_string(world.steps()));
  CheckEqual(weight, std::vector<double>(3, 3.0 * world.size()));  // undone
  if (world.rank() == bad) std::_Exit(0);
  config::Set("distributed.timeout", kPatient);
  Group rest = world.survivors();
  Check(rest.size() == world.size() - 1, "survivors");
  train(rest, false);
  CheckEqual(weight, std::vector<double>(3, 4.0 * world.size() - 1));
  SaveAndLoad(rest);
  std::cout << "survived" << std::endl;
  if (std::getenv("RANKS_TEST_FOLDER")) std::ofstream(SurvivedFile(world.rank()));
  std::_Exit(0);
}

void Killed() {
  Fault(kAtOnce, [] { kill(getpid(), SIGKILL); });
}
void Exited() {
  Fault(kAtOnce, [] { std::_Exit(7); });
}
void Late() {
  Fault(kTimeout + kSlack, [] { AwaitSurvivors(distributed::rank()); });
}
void Stopped() {
  Fault(kTimeout + kSlack, [] {
    const pid_t stopped = getpid();
    const int others = distributed::rank();
    if (fork() == 0) {
      AwaitSurvivors(others);
      kill(stopped, SIGCONT);
      _exit(0);
    }
    raise(SIGSTOP);
  });
}

/// The link to the others is cut in the middle of the step.
void CutOff() {
  Fault(kTimeout + kSlack,
        [] { Check(std::system(std::getenv("CUT")) == 0, "the link is not cut"); });
}

/// An op fails on one rank alone, in the step of the collective or in one that is queued before it.
void ThrowsIn(bool earlier_step) {
  Group world = distributed::init();
  const int bad = world.size() - 1;
  Tensor index = full({1}, Scalar(int64_t{world.rank() == bad ? 9 : 1}), DType::kI64);
  mark_step(true);
  try {
    world.barrier();  // a rank that ends while others still connect is another error
    Tensor x = index_select(ones({4}), 0, index);
    if (earlier_step) mark_step();
    Kept = distributed::all_reduce(x);
    mark_step(true);
  } catch (const distributed::RankError& error) {
    Check(world.rank() != bad, "a rank error instead of its own");
    Check(error.ranks() == std::vector{bad}, std::string("another rank is named: ") + error.what());
    // A rank that hears of an earlier step before it begins this one has only gone.
    Check(earlier_step || std::string(error.what()).find("failed: ") != std::string::npos,
          error.what());
    std::cout << error.what() << std::endl;
    std::_Exit(0);
  } catch (const Error& error) {
    Check(world.rank() == bad, error.what());
    std::_Exit(0);
  }
  Check(false, "no error");
}
void Throws() { ThrowsIn(/*earlier_step=*/false); }
void ThrowsBefore() { ThrowsIn(/*earlier_step=*/true); }

/// An exception leaves a step of the last rank, which lives on: the others hear of it, and all can
/// go on together.
void LeavesStep() {
  Group world = distributed::init();
  const int bad = world.size() - 1;
  const double n = world.size();
  Tensor weight = zeros({3});
  auto train = [&](const Group& group, bool leaves) {
    step([&] {
      weight.add_(distributed::all_reduce(ones({3}), Reduction::kSum, group));
      if (leaves) throw std::out_of_range("no more data");
    });
  };
  train(world, false);
  mark_step(true);
  world.barrier();
  const auto start = steady_clock::now();
  bool left = false;
  try {
    train(world, world.rank() == bad);
    mark_step(true);
    Check(false, "no error");
  } catch (const distributed::RankError& error) {
    const std::string text = error.what();
    Check(steady_clock::now() - start < std::chrono::milliseconds(kAtOnce), "late");
    Check(world.rank() != bad && error.ranks() == std::vector{bad}, text);
    Check(text.find("an exception left its step before all_reduce [at ") != text.npos, text);
  } catch (const std::out_of_range&) {
    left = true;
  }
  Check(left == (world.rank() == bad), "who has left");
  CheckEqual(weight, std::vector<double>(3, n));
  Check(world.failed() && world.steps() == 1, "steps " + std::to_string(world.steps()));
  try {
    train(world, false);
    mark_step(true);
    Check(false, "the group goes on");
  } catch (const distributed::RankError&) {
  }
  Group again = world.survivors();
  Check(again.size() == world.size(), "all are left");
  train(again, false);
  mark_step(true);
  CheckEqual(weight, std::vector<double>(3, 2 * n));
  again.barrier();
  std::_Exit(0);
}

/// A step fails on the last rank alone, behind its collective: the others have made a step more,
/// and no checkpoint is made of both.
void UnequalSteps() {
  Group world = distributed::init();
  const int bad = world.size() - 1;
  RegisterCustomCall("fails_late", [](std::span<const HostTensor>, std::string_view) {
    AwaitSurvivors(distributed::rank());
    throw std::runtime_error("fails late");
    return std::vector<HostTensor>();
  });
  nn::Linear layer(2, 2);
  mark_step(true);
  world.barrier();
  try {
    Tensor sum = distributed::all_reduce(ones({2}));
    if (world.rank() == bad) {
      CallOp("custom_call",
             {Any(AnyList{Any(sum)}), Any("fails_late"), Any(""), Any(AnyList{Any("f32[2]")})})
          .ToList()[0]
          .ToTensor()
          .host();
    }
    mark_step(true);
    std::ofstream(SurvivedFile(world.rank()));
    Kept = distributed::all_reduce(ones({2}));
    mark_step(true);
    Check(false, "no error");
  } catch (const Error&) {
  }
  Check(world.steps() == (world.rank() == bad ? 0 : 1), std::to_string(world.steps()) + " steps");
  Group all = world.survivors();
  distributed::Checkpoint checkpoint(all);
  checkpoint.add("layer", *layer);
  const std::string folder = std::getenv("RANKS_TEST_FOLDER") + std::string("/unequal");
  try {
    checkpoint.save(folder);
    Check(false, "a checkpoint of ranks of different steps");
  } catch (const ValueError& error) {
    Check(error.message().find("have not made the same number of steps") != std::string::npos,
          error.message());
  }
  Check(!std::filesystem::exists(folder), "written all the same");
  all.barrier();
  std::_Exit(0);
}

/// An op that takes long to compile.
std::vector<Tensor> ExpandSlowly(const ExpandCall& call) {
  std::this_thread::sleep_for(std::chrono::milliseconds(6000));
  return {call.in[0] * Scalar(1.0)};
}
constinit const OpDef kSlow = {
    .schema = "slow_to_compile(Tensor self) -> Tensor",
    .rule = DTypeRule::kFloat,
    .expand = ExpandSlowly,
};
const OpRegistrar registrar(kSlow);

/// One rank compiles for longer than the time limit.
void SlowCompile() {
  Group world = distributed::init();
  world.barrier();
  config::Set("distributed.timeout", "4000");
  Tensor x = ones({4});
  if (world.rank() == 1) x = Apply(kSlow, Location::current(), {x});
  CheckEqual(distributed::all_reduce(x), std::vector<double>(4, world.size()));
  config::Set("distributed.timeout", kPatient);
  distributed::shutdown();
}

/// Data parallel training of n ranks follows that of one rank with the whole batch.
void Training() {
  auto train = [](const Group* group) {
    manual_seed(1);
    nn::Sequential net(nn::Linear(6, 8), nn::Tanh(), nn::Linear(8, 1));
    net->to(DType::kF64);
    Tensor inputs = randn({16, 6}).to(DType::kF64), targets = sin(sum(inputs, {1}, true));
    const int64_t rank = group ? group->rank() : 0, part = 16 / (group ? group->size() : 1);
    std::optional<distributed::DataParallel> parallel;
    if (group) {
      if (rank != 0) {  // gets those of rank 0
        NoGradGuard no_grad;
        for (Tensor& parameter : net->parameters()) parameter.fill_(Scalar(0.5));
      }
      parallel.emplace(*net, *group);
    }
    optim::SGD optimizer(net->parameters(), {.lr = 0.1, .momentum = 0.9});
    Tensor loss;
    for (int i = 0; i < 20; ++i) {
      step([&] {
        optimizer.zero_grad();
        Tensor y = net(inputs.narrow(0, rank * part, part));
        loss = mean(square(y - targets.narrow(0, rank * part, part)));
        loss.backward();
        if (parallel) parallel->reduce_gradients();
        optimizer.step();
      });
    }
    Tensor total = sum(square(net(inputs) - targets));
    return total.item().ToDouble();
  };
  const double alone = train(nullptr);
  Group world = distributed::init();
  const double together = train(&world);
  Check(std::abs(alone - together) < 1e-9 * alone,
        std::to_string(alone) + " alone, " + std::to_string(together) + " together");
  Check(world.steps() == 21, "steps: " + std::to_string(world.steps()));
  distributed::shutdown();
}

/// Many tensors in few messages have the bits of one by one.
void Buckets() {
  Group world = distributed::init();
  config::Set("distributed.bucket_bytes", "100");
  manual_seed(uint64_t(world.rank()));
  std::vector<Tensor> tensors;
  for (int64_t size : {1, 5, 40, 3, 0, 7}) tensors.push_back(randn({size, 2}));
  tensors.push_back(randn({3}).to(DType::kF64));
  std::vector<Tensor> together = distributed::all_reduce(tensors, Reduction::kMean);
  for (size_t i = 0; i < tensors.size(); ++i) {
    Tensor one = distributed::all_reduce(tensors[i], Reduction::kMean);
    Check(one.shape() == together[i].shape(), "shape");
    Check(hammock::all(eq(one, together[i])).item().ToBool(), "tensor " + std::to_string(i));
  }
  distributed::shutdown();
}

int64_t Merged() { return metrics::CounterValue("distributed::MergedCollectives").value_or(0); }

/// Collectives that follow each other are sent together, unless a rank cannot: then no rank does.
void MergesOnDevice() {
  Group world = distributed::init();
  const int n = world.size();
  const float r = static_cast<float>(world.rank());
  std::vector<double> ranks;
  for (int i = 0; i < n; ++i) ranks.push_back(i);
  const double sum = n * (n - 1) / 2.0;
  auto step = [&](bool depends) {
    // Nothing is sent for an empty one, also where one rank alone has merged it.
    Tensor empty = distributed::all_reduce(zeros({0}));
    Tensor x = Own({r});
    if (depends) x = x + hammock::sum(empty);
    Tensor y = distributed::all_reduce(x);
    Tensor a = distributed::all_reduce(Own({r, 1}));
    Tensor b =
        distributed::all_reduce(depends ? a.narrow(0, 1, 1) * Scalar(double(r) / n) : Own({r}));
    Tensor c = distributed::all_reduce(Own({1, r, 2}));
    Tensor numbers = arange(Scalar(5001)).to(DType::kF32);  // more than each rank reduces alone
    Tensor large = distributed::all_reduce(numbers + Scalar(double(r)));
    Tensor d = distributed::all_gather(Own({r}));
    Tensor e = distributed::all_gather(Own({r, 2}));
    Tensor all = arange(Scalar(2 * n)).to(DType::kF32);
    Tensor f = distributed::reduce_scatter(all);
    Tensor g = distributed::reduce_scatter(all.narrow(0, 0, n), Reduction::kSum);
    Tensor h = distributed::all_gather(distributed::reduce_scatter(all));
    mark_step(true);
    CheckEqual(y, {sum});
    CheckEqual(a, {sum, double(n)});
    CheckEqual(b, {sum});
    CheckEqual(c, {double(n), sum, 2.0 * n});
    Check(hammock::all(eq(large, numbers * Scalar(double(n)) + Scalar(sum))).item().ToBool(),
          "a large one");
    CheckEqual(d, ranks);
    Check(Values(e)[0] == 0 && Values(e)[1] == 2 && Values(e).back() == 2, "gathered");
    CheckEqual(f, {2.0 * n * r, n * (2.0 * r + 1)});
    CheckEqual(g, {double(n) * r});
    Check(Values(h).back() == n * (2.0 * n - 1), "both halves");
  };
  step(false);
  const int64_t merged = Merged();
  // The six reductions, the two gathers, the two scatters, and the two halves of a reduction.
  Check(merged == 4, std::to_string(merged) + " merged collectives");
  step(world.rank() == 1);
  Check(Merged() == merged, "merged though one rank cannot");
  // Collectives of other groups, in which ranks differ, do not keep this one from it.
  Group alone = world.split(world.rank());
  Tensor a = distributed::all_reduce(Own({r, 1})), b = distributed::all_reduce(Own({r}));
  Tensor c = Own({r});
  if (world.rank() == 1) c = distributed::all_reduce(c, Reduction::kSum, alone);
  mark_step(true);
  CheckEqual(a, {sum, double(n)});
  CheckEqual(b, {sum});
  CheckEqual(c, {double(r)});
  Check(Merged() == merged + 1, std::to_string(Merged()) + " merged beside another group");
  distributed::shutdown();
}

void Merges() {
  config::Set("device", "cpu");  // the interpreter sends them one by one
  MergesOnDevice();
}

/// A captured graph has its collectives, and a replay agrees on them too.
void Captured() {
  Group world = distributed::init();
  auto graph = LazyGraphExecutor::Get()->Capture(
      [](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{distributed::all_reduce(in[0]) * Scalar(2.0)};
      },
      {ones({2})});
  mark_step(true);
  Check(world.steps() == 0, "the capture ran a collective");
  for (int i = 0; i < 3; ++i) {
    CheckEqual(graph({ones({2})})[0], std::vector<double>(2, 2.0 * world.size()));
  }
  Check(world.steps() == 3, "steps");
  distributed::shutdown();
}

/// The collectives of `scenario` go from device to device.
void OverNccl(void (*scenario)()) {
  scenario();
  Check(metrics::CounterValue("cuda::NcclCollectives").value_or(0) > 0, "not over NCCL");
}
void GpuCollectives() { OverNccl(Collectives); }
void GpuSizes() { OverNccl(Sizes); }
void GpuMerges() { OverNccl(MergesOnDevice); }
void GpuStaged() {
  Collectives();
  Check(metrics::CounterValue("cuda::NcclCollectives").value_or(0) == 0, "over NCCL");
}
/// Each rank computes on a device of its own as long as there are enough.
void OwnDevice() {
  const Device chosen("cuda:0");
  Group world = distributed::init();
  const int64_t own = distributed::local_rank() % 2;
  Tensor x = Own({1});
  Check(x.device() == Device("cuda:" + std::to_string(own)), x.device().to_string());
  CheckEqual(distributed::all_reduce(x), {double(world.size())});
  distributed::shutdown();
  SetDefaultDevice(chosen);
  distributed::init();
  Check(Own({1}).device() == chosen, "another device than the chosen one");
  distributed::shutdown();
}
/// The last rank computes on the CPU.
void MixedDevices() {
  const int rank = std::atoi(std::getenv("RANK")), size = std::atoi(std::getenv("WORLD_SIZE"));
  if (rank == size - 1) config::Set("device", "cpu");
  GpuStaged();
}
void KilledInNccl() {
  Fault(kAtOnce, [] { setenv("NCCL_STAND_IN", "kill", 1); });
}

/// Over MPI a late rank is an error of all, after which there is no other group.
void MpiLate() {
  config::Set("distributed.timeout", kPatient);
  Group world = distributed::init();
  Kept = distributed::all_reduce(ones({3}));
  mark_step(true);
  world.barrier();
  config::Set("distributed.timeout", std::to_string(kTimeout));
  try {
    if (world.rank() == world.size() - 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2 * kTimeout));
    }
    Kept = distributed::all_reduce(ones({3}));
    mark_step(true);
    Check(false, "no error");
  } catch (const distributed::RankError& error) {
    std::cout << error.what() << std::endl;
  }
  try {
    world.survivors();
    Check(false, "survivors");
  } catch (const distributed::RankError& error) {
    std::cout << error.what() << std::endl;
  }
}

void MissingRank() {
  try {
    distributed::init();
  } catch (const distributed::RankError& error) {
    std::cout << error.what() << std::endl;
    std::_Exit(0);
  }
  Check(false, "no error");
}

}  // namespace

int main(int, char** argv) {
  const std::map<std::string, void (*)()> scenarios = {{"collectives", Collectives},
                                                       {"sizes", Sizes},
                                                       {"gradients", Gradients},
                                                       {"groups", Groups},
                                                       {"order", Order},
                                                       {"bits", Bits},
                                                       {"loops", Loops},
                                                       {"wrong_count", WrongCount},
                                                       {"leaves_step", LeavesStep},
                                                       {"unequal_steps", UnequalSteps},
                                                       {"own_device", OwnDevice},
                                                       {"wrong_shape", WrongShape},
                                                       {"wrong_order", WrongOrder},
                                                       {"wrong_branch", WrongBranch},
                                                       {"wrong_reduction", WrongReduction},
                                                       {"wrong_config", WrongConfig},
                                                       {"step_too_few", StepTooFew},
                                                       {"skipped_step", SkippedStep},
                                                       {"killed", Killed},
                                                       {"exited", Exited},
                                                       {"late", Late},
                                                       {"stopped", Stopped},
                                                       {"throws", Throws},
                                                       {"throws_before", ThrowsBefore},
                                                       {"slow_compile", SlowCompile},
                                                       {"training", Training},
                                                       {"buckets", Buckets},
                                                       {"captured", Captured},
                                                       {"gpu_collectives", GpuCollectives},
                                                       {"gpu_sizes", GpuSizes},
                                                       {"gpu_merges", GpuMerges},
                                                       {"gpu_staged_merges", MergesOnDevice},
                                                       {"gpu_staged", GpuStaged},
                                                       {"mixed_devices", MixedDevices},
                                                       {"killed_in_nccl", KilledInNccl},
                                                       {"cut_off", CutOff},
                                                       {"merges", Merges},
                                                       {"mpi_late", MpiLate},
                                                       {"missing_rank", MissingRank}};
  return RunScenario(scenarios, argv[1]);
}
