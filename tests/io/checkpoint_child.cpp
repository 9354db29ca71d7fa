// checkpoint_child save FILE: saves checkpoints over one another until it is killed.
// checkpoint_child resume FROM TO: five more steps of a run.

#include <cstring>
#include <filesystem>

#include "io/checkpoint_run.h"

int main(int, char** argv) {
  using namespace hammock;
  if (std::strcmp(argv[1], "resume") == 0) {
    TrainingRun run("cpu");
    run.checkpoint().load(argv[2]);
    run.Train(5);
    run.checkpoint().save(argv[3]);
    return 0;
  }
  double value = 0;
  Tensor weight = zeros({1 << 18});
  Checkpoint checkpoint({{"weight", weight}, {"value", value}});
  if (std::filesystem::exists(argv[2])) checkpoint.load(argv[2]);
  for (;; value += 1) {
    weight.copy_(full({1 << 18}, value));
    checkpoint.save(argv[2]);
  }
}
