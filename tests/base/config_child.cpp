// Prints options as the environment set them; see config_test.cpp.
#include <cstdio>

#include "hammock/config.h"

int main(int argc, char** argv) {
  using namespace hammock;
  for (int i = 1; i + 1 < argc; i += 2) config::Set(argv[i], argv[i + 1]);
  std::printf("time_kernels %s\n", config::GetText("cpu.time_kernels").c_str());
  std::printf("<%d %ld %s>\n", config::Get<config::kEager>(),
              static_cast<long>(config::Get<config::kMaxAsyncQueue>()),
              config::Get<config::kDevice>().c_str());
}
