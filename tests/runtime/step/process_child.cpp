// process_child MODE: programs that end in awkward moments, and forks. Exit code 0 if all is well.

#include <hammock/hammock.h>
#include <hammock/lazy/backend_interface.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <thread>

using namespace hammock;

namespace {

/// Whether this process is a forked child: gone are the threads through which memory was reached.
bool forked = false;

int Fail(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  return 1;
}

Tensor Big() { return ones({400, 400}, f32, "reference"); }

/// Work for the queue, enough that some is left when main returns.
void Queue(int steps) {
  Tensor x = Big();
  for (int i = 0; i < steps; ++i) {
    x = x + 1.0f;
    mark_step();
  }
}

Tensor global;
thread_local Tensor of_thread;

int InFlight() {
  Queue(20);
  return 0;
}

int Pending() {
  global = Big() + 1.0f;
  global.view({160000}).add_(1.0f);
  return 0;
}

int GlobalInFlight() {
  global = Big() + 1.0f;
  mark_step();
  of_thread = global * 2.0f;
  mark_step();
  return 0;
}

int DetachedThread() {
  std::thread([] {
    for (;;) Queue(1);
  }).detach();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  return 0;
}

int WaitingThread() {
  std::thread([] {
    for (;;) (Big() + 1.0f).host();
  }).detach();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  return 0;
}

int ExitInAThread() {
  Queue(5);
  std::thread([] {
    Queue(5);
    std::exit(0);
  }).join();
  return 1;
}

int UnseenError() {
  global = gather(Big(), 0, full({1, 1}, 1000, i64, "reference"));
  mark_step(Device("null"));
  Tensor other = Big() + 1.0f;
  try {
    mark_step();
  } catch (const Error&) {
  }
  return 0;
}

int Closures() {
  for (int i = 0; i < 5; ++i) {
    Tensor x = Big() + 1.0f;
    add_step_closure([x] { x.host(); }, true);
    mark_step();
  }
  return 0;
}

int ThreadsThatEnded() {
  for (int i = 0; i < 50; ++i) {
    std::thread([] {
      of_thread = Big() + 1.0f;
      if (of_thread.id() % 3 == 0) mark_step();
    }).join();
  }
  return 0;
}

int AtExit() {
  Queue(2);
  std::atexit([] {
    // The runtime has been told to end; it still answers.
    if (ones({2}, f32, "reference").sum().item<float>() != 2) std::_Exit(3);
  });
  return 0;
}

int AtExitBefore() {
  std::atexit([] {
    if (ones({2}, f32, "reference").sum().item<float>() != 2) std::_Exit(3);
    global = Big() + 1.0f;
    add_step_closure([] { global.host(); });
    mark_step();
  });
  Queue(2);
  return 0;
}

/// Runs `child` in a fork; its exit code.
int InFork(const std::function<int()>& child) {
  pid_t pid = fork();
  if (pid == 0) {
    forked = true;
    std::exit(child());
  }
  int status = 0;
  waitpid(pid, &status, 0);
  if (WIFSIGNALED(status)) return 100 + WTERMSIG(status);
  return WEXITSTATUS(status);
}

int ExpectForked(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const DeviceError& error) {
    return error.code() == ErrorCode::kForked ? 0 : Fail(error.what());
  } catch (const std::exception& error) {
    return Fail(std::string("another error: ") + error.what());
  }
  return Fail("no error");
}

int ForkAfterUse() {
  global = Big() + 1.0f;
  global.host();
  Queue(3);  // the queue's thread runs
  Tensor ready = tensor({1.0, 2.0}, std::nullopt, "reference") * 2.0f;
  ready.host();
  int code = InFork([&] {
    if (ExpectForked([&] { ready.host(); })) return 11;
    if (ExpectForked([] { (Big() + 1.0f).host(); })) return 12;
    if (ExpectForked([] {
          Tensor x = Big() + 1.0f;
          mark_step();
        })) {
      return 13;
    }
    if (ExpectForked([] { wait_device_ops(); })) return 14;
    Tensor recorded = ready + 1.0f;  // recording touches no device
    if (recorded.sizes() != Dims({2})) return 15;
    if (recorded.summary().empty()) return 16;
    metrics::Report();
    return 0;
  });
  if (code) return Fail("child: " + std::to_string(code));
  if (ready.to_vector<float>()[1] != 4) return Fail("the parent's value");
  return (global + 1.0f).sum().item<float>() == 480000 ? 0 : Fail("the parent goes on");
}

int ForkBeforeUse() {
  int code = InFork([] {
    Queue(3);
    return (Big() + 1.0f).sum().item<float>() == 320000 ? 0 : 21;
  });
  if (code) return Fail("child: " + std::to_string(code));
  Queue(3);
  return (Big() + 1.0f).sum().item<float>() == 320000 ? 0 : Fail("the parent");
}

int ForkAfterRecording() {
  // Backends are registered and ops recorded, but nothing has run: the child starts afresh.
  Tensor x = Big();
  Tensor y = x + 1.0f;
  Devices();
  int code = InFork([&] { return y.sum().item<float>() == 320000 ? 0 : 31; });
  if (code) return Fail("child: " + std::to_string(code));
  return y.sum().item<float>() == 320000 ? 0 : Fail("the parent");
}

int ForkInAGrandchild() {
  return InFork([] {
    Queue(3);
    return InFork([] { return ExpectForked([] { (Big() + 1.0f).host(); }); });
  });
}

int NoBackends() {
  for (const std::string& name : lazy::BackendNames()) lazy::UnregisterBackend(name);
  if (lazy::hasBackend() || !Devices().empty()) return Fail("some are left");
  for (auto use : {+[] { ones({2}); }, +[] { lazy::getBackend(); }}) {
    try {
      use();
      return Fail("no error");
    } catch (const NotSupported& error) {
      if (error.code() != ErrorCode::kNotRegistered) return Fail("another code");
      if (error.message() != "Lazy tensor backend not registered.") return Fail(error.what());
    }
  }
  try {
    ones({2}, f32, "reference");
    return Fail("no error");
  } catch (const ValueError& error) {
    std::string expected = "unknown device 'reference'; no backend is registered";
    if (error.message() != expected) return Fail(error.what());
  }
  mark_step();
  wait_device_ops();
  return 0;
}

}  // namespace

/// Asked by the leak sanitizer when the process ends.
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off() { return forked; }

int main(int argc, char** argv) {
  const std::map<std::string, int (*)()> modes = {
      {"in_flight", InFlight},
      {"pending", Pending},
      {"global_in_flight", GlobalInFlight},
      {"detached_thread", DetachedThread},
      {"waiting_thread", WaitingThread},
      {"exit_in_a_thread", ExitInAThread},
      {"unseen_error", UnseenError},
      {"closures", Closures},
      {"threads_that_ended", ThreadsThatEnded},
      {"at_exit", AtExit},
      {"at_exit_before", AtExitBefore},
      {"no_backends", NoBackends},
      {"fork_after_use", ForkAfterUse},
      {"fork_before_use", ForkBeforeUse},
      {"fork_after_recording", ForkAfterRecording},
      {"fork_in_a_grandchild", ForkInAGrandchild},
  };
  auto mode = modes.find(argc > 1 ? argv[1] : "");
  if (mode == modes.end()) return Fail("unknown mode");
  return mode->second();
}
