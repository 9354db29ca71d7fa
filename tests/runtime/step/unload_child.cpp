// unload_child MODULE: opens unload_module.cpp, starts steps and closes it at once.

#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <thread>

int main(int, char** argv) {
  for (int i = 0; i < 3; ++i) {
    void* module = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!module) return std::fprintf(stderr, "%s\n", dlerror()), 1;
    reinterpret_cast<void (*)()>(dlsym(module, "StartSteps"))();
    dlclose(module);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  // Its code is still there.
  return dlopen("libhammock.so.0.1", RTLD_NOW | RTLD_NOLOAD) ? 0 : 1;
}
