/// Runs cached steps of a chain of additions on a device.
///   step_program DEVICE NODES STEPS

#include <hammock/hammock.h>

#include <cstdlib>

using namespace hammock;

int main(int, char** argv) {
  Device device(argv[1]);
  const int nodes = std::atoi(argv[2]);
  const int steps = std::atoi(argv[3]);
  Tensor x = ones({16}, f32, device);
  Tensor one = ones({16}, f32, device);
  mark_step(true);
  for (int i = 0; i < steps; ++i) {
    Tensor y = x;
    for (int k = 0; k < nodes; ++k) y = y + one;
    LazyGraphExecutor::Get()->SyncTensorsGraph(std::span(&y, 1));
  }
  return 0;
}
