/// Adds a tensor's bytes to what its thread holds, looks whether that is much, and takes them out
/// again: what keeping the sum costs an op.
///   accounting_program OPS

#include <hammock/hammock.h>

#include <cstdlib>

#include "trace/held_bytes.h"

using namespace hammock;

int main(int, char** argv) {
  config::Set("device", "null");
  Tensor x = zeros({16, 16}) + 1;
  ThreadContext& context = Context();
  int looks = 0;
  for (int64_t i = std::atoll(argv[1]); i > 0; --i) {
    AddHeldBytes(context, *x.impl());
    looks += IsTimeToLook(context) ? 1 : 0;
    RemoveHeldBytes(context, *x.impl());
    asm volatile("" ::: "memory");  // nothing is known of the next one
  }
  return looks;
}
