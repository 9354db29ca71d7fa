// Scenarios of ranks that disagree.

#include "scenarios.h"

namespace hammock::testing {
namespace {

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

void WrongShape() {
  Diverge([](Group& world) {
    kept = distributed::all_reduce(world.rank() == 1 ? ones({3}) : ones({4}));
  });
}
void WrongOrder() {
  Diverge([](Group& world) {
    Tensor a, b;
    if (world.rank() == 1) b = distributed::all_gather(ones({2}));
    a = distributed::all_reduce(ones({2}));
    if (world.rank() != 1) b = distributed::all_gather(ones({2}));
    kept = sum(a) + sum(b);
  });
}
void WrongBranch() {
  Diverge([](Group& world) {
    Tensor x = ones({4});
    x = world.rank() == 1 ? exp(x) : x * Scalar(2.0);
    if (world.rank() == 1) {
      kept = distributed::all_reduce(x, Reduction::kMax);
    } else {
      kept = distributed::all_reduce(x);
    }
  });
}
void WrongReduction() {
  Diverge([](Group& world) {
    kept =
        distributed::all_reduce(ones({4}), world.rank() == 1 ? Reduction::kMean : Reduction::kSum);
  });
}
void WrongCount() {
  Diverge([](Group& world) { kept = SumsInLoop(ones({4}), world.rank() == 1 ? 3 : 2); });
}
/// Options that decide what is sent.
void WrongConfig() {
  Diverge([](Group& world) {
    if (world.rank() == 1) config::Set("distributed.bucket_bytes", "8");
    kept = distributed::all_reduce(std::vector<Tensor>{ones({4}), ones({2})})[0];
  });
}
void StepTooFew() {
  Diverge([](Group& world) {
    if (world.rank() == 1) distributed::shutdown();
    kept = distributed::all_reduce(ones({4}));
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

}  // namespace

Scenarios DivergenceScenarios() {
  return {
      {"wrong_count", WrongCount},         {"wrong_shape", WrongShape},
      {"wrong_order", WrongOrder},         {"wrong_branch", WrongBranch},
      {"wrong_reduction", WrongReduction}, {"wrong_config", WrongConfig},
      {"step_too_few", StepTooFew},        {"skipped_step", SkippedStep},
  };
}

}  // namespace hammock::testing
