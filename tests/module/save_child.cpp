// Saves modules of equal values over one another until it is killed.

#include "hammock/hammock.h"
#include "hammock/module.h"

int main(int, char** argv) {
  using namespace hammock;
  for (double value = 0;; value += 1) {
    Module module("Saved");
    module.register_buffer("w", full({1 << 18}, value));
    save_module(module, argv[1]);
  }
}
