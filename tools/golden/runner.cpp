#include "runner.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <optional>

#include "hammock/config.h"
#include "hammock/device.h"
#include "hammock/error.h"

namespace hammock::golden {
namespace {

Replayer MakeReplayer(const RunOptions& options) {
  config::Set<config::kEager>(options.eager);
  Device device = options.device.empty() ? Device() : Device(options.device);
  SetDefaultDevice(device);
  return Replayer(options.dir, device);
}

// A child writes one line to its pipe for each case that it has finished: the outcome, whether it
// is nearer to the exact value, the detail, with tabs between. The first case without a line is the
// one that killed it.

std::string OneLine(std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '\t') c = ' ';
  }
  return text;
}

[[noreturn]] void RunChild(const std::vector<Case>& cases, size_t begin, size_t end,
                           const RunOptions& options, FILE* out) {
  try {
    Replayer replayer = MakeReplayer(options);
    for (size_t i = begin; i < end; ++i) {
      alarm(static_cast<unsigned>(options.case_seconds));
      CaseResult result = replayer.Run(cases[i]);
      fmt::print(out, "{}\t{:d}\t{}\n", static_cast<int>(result.outcome), result.nearer,
                 OneLine(result.detail));
      std::fflush(out);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "hammock-golden: {}\n", error.what());
    _exit(2);
  }
  _exit(0);
}

std::optional<CaseResult> ReadResult(FILE* in) {
  std::string line;
  for (int c = std::fgetc(in); c != EOF; c = std::fgetc(in)) {
    if (c != '\n') {
      line += static_cast<char>(c);
      continue;
    }
    size_t first = line.find('\t'), second = line.find('\t', first + 1);
    if (second == std::string::npos) return std::nullopt;
    return CaseResult{static_cast<Outcome>(std::stoi(line)), line.substr(second + 1),
                      line[first + 1] == '1'};
  }
  return std::nullopt;
}

std::string DescribeDeath(int status, const RunOptions& options) {
  if (!WIFSIGNALED(status)) {
    return fmt::format("the process exits with {}", WEXITSTATUS(status));
  }
  int signal = WTERMSIG(status);
  if (signal == SIGALRM) return fmt::format("takes more than {} s", options.case_seconds);
  return fmt::format("the process dies: {}", strsignal(signal));
}

/// Runs cases [begin, end) in a child; returns how many have a result, at least one.
size_t RunIsolated(const std::vector<Case>& cases, size_t begin, size_t end,
                   const RunOptions& options, std::vector<CaseResult>* results,
                   const OnResult& on_result) {
  int ends[2];
  if (pipe(ends) != 0) {
    throw DeviceError(ErrorCode::kDevice, fmt::format("pipe: {}", std::strerror(errno)));
  }
  std::fflush(nullptr);
  pid_t child = fork();
  if (child < 0) {
    throw DeviceError(ErrorCode::kDevice, fmt::format("fork: {}", std::strerror(errno)));
  }
  if (child == 0) {
    close(ends[0]);
    RunChild(cases, begin, end, options, fdopen(ends[1], "w"));
  }
  close(ends[1]);
  FILE* in = fdopen(ends[0], "r");
  size_t at = begin;
  auto add = [&](CaseResult result) {
    results->push_back(std::move(result));
    on_result(cases[at++], results->back());
  };
  while (at < end) {
    std::optional<CaseResult> result = ReadResult(in);
    if (!result) break;
    add(std::move(*result));
  }
  std::fclose(in);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2) {
    throw ValueError(ErrorCode::kValue, "the runner could not start");
  }
  if (at < end) add({Outcome::kCrash, DescribeDeath(status, options)});
  return at - begin;
}

}  // namespace

std::vector<CaseResult> RunCases(const std::vector<Case>& cases, const RunOptions& options,
                                 const OnResult& on_result) {
  std::vector<CaseResult> results;
  results.reserve(cases.size());
  if (!options.isolate) {
    Replayer replayer = MakeReplayer(options);
    for (const Case& c : cases) {
      results.push_back(replayer.Run(c));
      on_result(c, results.back());
    }
    return results;
  }
  for (size_t begin = 0; begin < cases.size();) {
    size_t end = begin + 1;
    while (end < cases.size() && cases[end].op == cases[begin].op) ++end;
    begin += RunIsolated(cases, begin, end, options, &results, on_result);
  }
  return results;
}

}  // namespace hammock::golden
