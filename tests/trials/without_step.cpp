// Training loops that never say `step`: they compile few graphs, and then record and run as much as
// loops that do, whatever the size of the loop's body.
#include "check.h"

using namespace hammock;
using namespace trial;

namespace {

struct Trainer {
  explicit Trainer(int layers) {
    for (int i = 0; i < layers; ++i) {
      net->push_back(nn::Linear(32, 32));
      net->push_back(nn::Tanh());
    }
    net->push_back(nn::Linear(32, 10));
    optimizer.emplace(net->parameters(), optim::AdamOptions{.lr = 1e-3});
  }
  nn::Sequential net;
  std::optional<optim::Adam> optimizer;
  Tensor loss;

  void Body() {
    optimizer->zero_grad();
    Tensor x = randn({16, 32});
    Tensor value = cross_entropy(net(x), argmax(x.slice(1, 0, 10), 1));
    value.backward();
    optimizer->step();
    loss = value.detach();
  }
};

struct Counts {
  double first_compiles;  // in the first loops
  double compiles;        // in the loops after that
  double ops;             // recorded, for each pass through a loop's body
  double runs;            // of compiled graphs
  double kernels;         // that these ran; 0 on devices without kernels
};

/// Counts of loops that read once, at their end.
Counts Measure(int layers, int steps, bool with_step) {
  manual_seed(5);
  Trainer trainer(layers);
  auto run = [&] {
    for (int i = 0; i < steps; ++i) {
      if (with_step) {
        step([&] { trainer.Body(); });
      } else {
        trainer.Body();
      }
    }
    return trainer.loss.item<double>();
  };
  auto runs = [] { return metrics::MetricValue("ExecuteTime")->samples; };
  int64_t before = Compiles();
  for (int i = 0; i < 3; ++i) run();
  const int64_t first_compiles = Compiles() - before;
  Activity activity;
  int64_t runs_before = runs();
  for (int i = 0; i < 5; ++i) run();
  const double bodies = 5.0 * steps;
  const ActivityTotals totals = activity.totals();
  return {.first_compiles = static_cast<double>(first_compiles),
          .compiles = static_cast<double>(totals.graphs_compiled),
          .ops = static_cast<double>(totals.ops_traced) / bodies,
          .runs = static_cast<double>(runs() - runs_before) / bodies,
          .kernels = static_cast<double>(totals.kernels_run) / bodies};
}

}  // namespace

int main() {
  for (int layers : {1, 4, 16}) {
    const int steps = 600 / layers;
    const Counts with = Measure(layers, steps, true);
    const Counts without = Measure(layers, steps, false);
    std::printf("%d layers\n", layers);
    // Without the initial state, which the loops with `step` have compiled.
    CheckAtMost(without.first_compiles, 4, "compiles of a loop without step");
    CheckAtMost(without.compiles, 0, "compiles of later loops");
    CheckAtMost(without.ops / with.ops, 1.01, "ops recorded, against a loop with step");
    CheckAtMost(without.runs / with.runs, 1.1, "runs, against a loop with step");
    CheckAtMost(without.kernels / std::max(with.kernels, 1.0), 1.1,
                "kernels, against a loop with step");
  }
  return Result();
}
