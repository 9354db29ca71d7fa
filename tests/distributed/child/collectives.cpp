// Scenarios of ranks that agree.

#include <hammock/control.h>
#include <hammock/distributed/data_parallel.h>
#include <sched.h>

#include <filesystem>
#include <future>
#include <iomanip>

#include "scenarios.h"

namespace hammock::testing {

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

namespace {

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

}  // namespace

Tensor SumsInLoop(const Tensor& x, int64_t count) {
  return for_loop(count,
                  [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
                    return {distributed::all_reduce(in[1])};
                  },
                  {x})[0];
}

namespace {

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

}  // namespace

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

namespace {

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

/// Threads that an engine starts do not preempt those that call it (StartDevice of the Gloo
/// plug-in).
void EngineThreads() {
  const bool is_allowed = std::async(std::launch::async, [] {
                            const sched_param none = {};
                            return sched_getscheduler(0) == SCHED_OTHER &&
                                   sched_setscheduler(0, SCHED_BATCH, &none) == 0 &&
                                   sched_getscheduler(0) == SCHED_BATCH;
                          }).get();
  if (!is_allowed) return;  // as in some sandboxes
  Group world = distributed::init();
  CheckEqual(distributed::all_reduce(Own({1})), {double(world.size())});
  int batch = 0;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    if (sched_getscheduler(std::stoi(thread.path().filename())) == SCHED_BATCH) ++batch;
  }
  Check(batch == 1, std::to_string(batch) + " batch threads");
  Check(sched_getscheduler(0) == SCHED_OTHER, "this thread is one");
  distributed::shutdown();
}

}  // namespace

Scenarios CollectivesScenarios() {
  return {
      {"collectives", Collectives},
      {"sizes", Sizes},
      {"gradients", Gradients},
      {"groups", Groups},
      {"order", Order},
      {"bits", Bits},
      {"loops", Loops},
      {"training", Training},
      {"buckets", Buckets},
      {"captured", Captured},
      {"merges", Merges},
      {"engine_threads", EngineThreads},
  };
}

}  // namespace hammock::testing
