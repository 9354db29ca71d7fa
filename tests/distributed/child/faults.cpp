// Scenarios of ranks that fail.

#include <hammock/boxing.h>
#include <hammock/custom_call.h>
#include <hammock/distributed/checkpoint.h>
#include <hammock/op_builder.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "scenarios.h"

using std::chrono::steady_clock;

namespace hammock::testing {
namespace {

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

}  // namespace

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
      Check(waited != text.npos && text.find("faults.cpp:", waited) != text.npos, text);
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

namespace {

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
    kept = distributed::all_reduce(x);
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
    kept = distributed::all_reduce(ones({2}));
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

/// Over MPI a late rank is an error of all, after which there is no other group.
void MpiLate() {
  config::Set("distributed.timeout", kPatient);
  Group world = distributed::init();
  kept = distributed::all_reduce(ones({3}));
  mark_step(true);
  world.barrier();
  config::Set("distributed.timeout", std::to_string(kTimeout));
  try {
    if (world.rank() == world.size() - 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2 * kTimeout));
    }
    kept = distributed::all_reduce(ones({3}));
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

Scenarios FaultsScenarios() {
  return {
      {"leaves_step", LeavesStep},
      {"unequal_steps", UnequalSteps},
      {"killed", Killed},
      {"exited", Exited},
      {"late", Late},
      {"stopped", Stopped},
      {"throws", Throws},
      {"throws_before", ThrowsBefore},
      {"slow_compile", SlowCompile},
      {"cut_off", CutOff},
      {"mpi_late", MpiLate},
      {"missing_rank", MissingRank},
  };
}

}  // namespace hammock::testing
