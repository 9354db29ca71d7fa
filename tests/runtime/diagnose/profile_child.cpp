// profile_child MODE: programs that end in awkward moments while they write the profile that the
// option `profile_file` names.

#include <hammock/hammock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

using namespace hammock;

namespace {

void Work(int steps) {
  Tensor x = from_host(HostTensor(Shape(DType::kF32, {64, 64})), "reference");
  for (int i = 0; i < steps; ++i) {
    x = x * 0.5f + 1.0f;
    mark_step(true);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string mode = argc > 1 ? argv[1] : "";
  Work(3);
  if (mode == "kill") {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    Work(3);
    kill(getpid(), SIGKILL);
  }
  if (mode == "abort") std::abort();
  if (mode == "throw") throw std::runtime_error("nobody catches it");
  if (mode == "fork") {
    if (fork() == 0) {
      profile::Mark("of the child");
      profile::Stop();
      profile::Start(std::string(argv[2]) + ".child");  // one of its own
      profile::Mark("of the child's own");
      profile::Stop();
      _exit(0);
    }
    wait(nullptr);
    profile::Mark("of the parent");
  }
  return 0;
}
