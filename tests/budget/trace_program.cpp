/// Records chains of additions; with a third argument, also runs each chain on the null backend.
///   trace_program OPS REPEATS [sync]

#include <hammock/hammock.h>

#include <cstdlib>

using namespace hammock;

int main(int argc, char** argv) {
  int ops = std::atoi(argv[1]);
  int repeats = std::atoi(argv[2]);
  Device device("null");
  Tensor start = zeros({16}, f32, device);
  Tensor one = ones({16}, f32, device);
  mark_step(true);
  for (int i = 0; i < repeats; ++i) {
    Tensor end = start;
    for (int k = 0; k < ops; ++k) end = end + one;
    if (argc > 3) LazyGraphExecutor::Get()->SyncTensorsGraph(std::span(&end, 1));
  }
  return 0;
}
