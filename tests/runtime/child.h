#pragma once
/// Runs a helper program and waits for it, but not for ever.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

namespace hammock::testing {

struct ChildResult {
  bool exited = false;  ///< by itself
  int code = -1;        ///< exit code
  int signal = 0;       ///< that ended it; SIGKILL if it took too long
  std::string output;   ///< stdout and stderr
};

/// `stack_kb` is the limit of its stack, 0 for the usual one.
inline ChildResult RunChild(const std::vector<std::string>& command, int seconds = 120,
                            rlim_t stack_kb = 0) {
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) return {};
  pid_t pid = fork();
  if (pid == 0) {
    if (stack_kb) {
      rlimit limit{stack_kb * 1024, stack_kb * 1024};
      setrlimit(RLIMIT_STACK, &limit);
    }
    dup2(pipe_ends[1], 1);
    dup2(pipe_ends[1], 2);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    alarm(static_cast<unsigned>(seconds));
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  close(pipe_ends[1]);
  ChildResult result;
  char buffer[4096];
  for (ssize_t got; (got = read(pipe_ends[0], buffer, sizeof(buffer))) > 0;) {
    result.output.append(buffer, static_cast<size_t>(got));
  }
  close(pipe_ends[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  result.exited = WIFEXITED(status);
  if (result.exited) result.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

/// Whether it ended by itself with code 0.
inline ::testing::AssertionResult Succeeded(const ChildResult& result) {
  if (result.exited && result.code == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << (result.exited              ? "exit code " + std::to_string(result.code)
             : result.signal == SIGALRM ? std::string("it took too long")
                                        : "signal " + std::to_string(result.signal))
         << "\n"
         << result.output;
}

}  // namespace hammock::testing
