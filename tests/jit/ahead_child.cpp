// Runs an archive that was compiled ahead, where there is no LLVM. Status 0 if kernels were
// compiled code with `allow`, and interpreted without it.

#include <cstdio>
#include <string>

#include "hammock/hammock.h"
#include "hammock/metrics.h"
#include "hammock/module.h"

int main(int, char** argv) {
  using namespace hammock;
  config::Set("cpu.llvm_plugin", "none");
  bool allow = std::string(argv[2]) == "allow";
  ModulePtr module = load_module(argv[1], {.allow_native = allow, .require_native = allow});
  float first = (*module)(tensor({{1.0, 1.0, 1.0}, {1.0, 1.0, 1.0}})).to_vector<float>()[0];
  auto runs = [](const char* name) { return metrics::GetCounter(name).Value(); };
  int64_t compiled = runs("cpu::KernelRunsCompiled"),
          interpreted = runs("cpu::KernelRunsInterpreted");
  std::printf("%g, %lld compiled, %lld interpreted\n", first, static_cast<long long>(compiled),
              static_cast<long long>(interpreted));
  bool right = allow ? compiled > 0 && interpreted == 0 : compiled == 0 && interpreted > 0;
  return right ? 0 : 1;
}
