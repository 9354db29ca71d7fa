// A module that uses the library and is closed while steps are under way.

#include <hammock/hammock.h>

extern "C" __attribute__((visibility("default"))) void StartSteps() {
  using namespace hammock;
  Tensor x = randn({256, 256});
  for (int i = 0; i < 20; ++i) {
    x = matmul(x, x).tanh();
    mark_step();
  }
}
