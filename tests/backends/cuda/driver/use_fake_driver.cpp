// Linked into a program, it makes the device "fake:0", which is a GPU of the fake driver. The
// folder of that is in LD_LIBRARY_PATH.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/driver/fake_driver.h"
#include "backends/cuda/driver/gpu_machine.h"
#include "backends/cuda/emulation/emulated_machine.h"
#include "backends/cuda/emulation/fibres.h"

namespace hammock::cuda {
namespace {

const bool made = [] {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  void* set = library ? dlsym(library, "set_fake_kernels") : nullptr;
  if (!set) {
    std::fprintf(stderr, "the fake driver was not found\n");
    std::_Exit(3);
  }
  reinterpret_cast<SetFakeKernels>(set)(
      {&RunBlocks, &CurrentEmulatedThread(), EmulationPrelude().c_str()});
  lazy::RegisterBackend(MakeBackend({MakeGpuMachine(0)}, "fake", 102).release());
  return true;
}();

}  // namespace
}  // namespace hammock::cuda
