// hammock conform: whether a plug-in keeps the rules, each checked in a process of its own.

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <string_view>
#include <vector>

#include "commands.h"
#include "conform/rule_kit.h"
#include "hammock/error.h"

namespace hammock::tool {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kLevels[] = {"bronze", "silver", "gold"};
constexpr int kSkipped = 77;
constexpr char kMeasure[] = "measurements";  // in place of a rule
constexpr std::string_view kGolden = "golden";
constexpr std::string_view kLoads = "loads";

enum class Outcome { kPassed, kFailed, kSkipped };

struct Finding {
  const ConformRule* rule;
  Outcome outcome = Outcome::kPassed;
  std::string text;
  double seconds = 0;
};

ConformLevel LevelOf(const std::string& name) {
  for (size_t i = 0; i < std::size(kLevels); ++i) {
    if (name == kLevels[i]) return static_cast<ConformLevel>(i);
  }
  throw ValueError(ErrorCode::kValue, "conform: levels are bronze, silver and gold");
}

/// A crash, or the end of a rule that hangs, prints the program that was run.
void PrintProgram(int signal) {
  const std::string& text = ShownText();
  [[maybe_unused]] const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

/// In the process of the rule: prints what is wrong.
int CheckHere(const ConformOptions& options) {
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM}) {
    std::signal(signal, PrintProgram);
  }
  if (options.rule == kMeasure) {
    std::cout << Measurements({options.plugin, options.golden});
    return 0;
  }
  for (const ConformRule& rule : ConformRules()) {
    if (options.rule != rule.name) continue;
    std::string wrong;
    try {
      wrong = rule.check({options.plugin, options.golden});
    } catch (const SkippedRule& skipped) {
      std::cout << skipped.why;
      return kSkipped;
    } catch (const std::exception& error) {
      wrong = std::string(error.what()) + "\n";
    }
    if (!wrong.empty()) std::cout << wrong << ShownText();
    return wrong.empty() ? 0 : 1;
  }
  throw ValueError(ErrorCode::kUnknownName, "conform: there is no rule '" + options.rule + "'");
}

struct Ended {
  int status = 0;  // of waitpid
  bool in_time = true;
  std::string output;
};

/// Runs this program again with a rule. What it prints and how it ends is all that comes back.
Ended RunApart(const ConformOptions& options, const std::string& rule) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    throw DeviceError(ErrorCode::kDevice, fmt::format("conform: pipe: {}", std::strerror(errno)));
  }
  const pid_t child = fork();
  if (child < 0) {
    throw DeviceError(ErrorCode::kDevice, fmt::format("conform: fork: {}", std::strerror(errno)));
  }
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    setenv("HAMMOCK_LOG_LEVEL", "error", /*replace=*/0);
    execl("/proc/self/exe", "hammock", "conform", "--plugin", options.plugin.c_str(), "--golden",
          options.golden.c_str(), "--in-process", rule.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  close(ends[1]);
  Ended ended;
  auto deadline = Clock::now() + std::chrono::seconds(options.timeout);
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd readable = {ends[0], POLLIN, 0};
    if (left.count() <= 0 || poll(&readable, 1, static_cast<int>(left.count())) == 0) {
      kill(child, ended.in_time ? SIGTERM : SIGKILL);
      if (!ended.in_time) break;
      ended.in_time = false;  // what it prints of its program is waited for
      deadline = Clock::now() + std::chrono::seconds(2);
      continue;
    }
    char bytes[4096];
    const ssize_t count = read(ends[0], bytes, sizeof(bytes));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    ended.output.append(bytes, static_cast<size_t>(count));
  }
  close(ends[0]);
  while (waitpid(child, &ended.status, 0) < 0 && errno == EINTR) {
  }
  return ended;
}

Finding Check(const ConformRule& rule, const ConformOptions& options) {
  const auto begin = Clock::now();
  Ended ended = RunApart(options, rule.name);
  Finding finding{&rule, Outcome::kPassed, std::move(ended.output),
                  std::chrono::duration<double>(Clock::now() - begin).count()};
  if (!ended.in_time) {
    finding.outcome = Outcome::kFailed;
    finding.text += fmt::format("hangs: not done within {} s\n", options.timeout);
  } else if (WIFSIGNALED(ended.status)) {
    finding.outcome = Outcome::kFailed;
    finding.text += fmt::format("crashes: {}\n", strsignal(WTERMSIG(ended.status)));
  } else if (WEXITSTATUS(ended.status) == kSkipped) {
    finding.outcome = Outcome::kSkipped;
  } else if (WEXITSTATUS(ended.status) != 0) {
    finding.outcome = Outcome::kFailed;
  }
  return finding;
}

const char* NameOf(Outcome outcome) {
  constexpr const char* kNames[] = {"pass", "FAIL", "skip"};
  return kNames[static_cast<size_t>(outcome)];
}

struct Score {
  int passed = 0, failed = 0, skipped = 0;
};

std::map<std::string, Score> ScoresOf(const std::vector<Finding>& findings) {
  std::map<std::string, Score> scores;
  for (const Finding& finding : findings) {
    Score& score = scores[finding.rule->area];
    score.passed += finding.outcome == Outcome::kPassed;
    score.failed += finding.outcome == Outcome::kFailed;
    score.skipped += finding.outcome == Outcome::kSkipped;
  }
  return scores;
}

struct Verdict {
  bool kept;  ///< the level that was asked for, or the one rule
  std::string text;
};

/// The highest level whose rules are all kept, and what the next one lacks. A device whose values
/// were compared with no golden suite is not gold.
Verdict Judge(const std::vector<Finding>& findings, const ConformOptions& options) {
  std::vector<std::string> broken[std::size(kLevels)];
  std::string skipped;
  for (const Finding& finding : findings) {
    if (finding.outcome == Outcome::kFailed) {
      broken[static_cast<size_t>(finding.rule->level)].push_back(finding.rule->name);
    } else if (finding.outcome == Outcome::kSkipped && finding.rule->name == kGolden) {
      skipped = finding.text;
    }
  }
  if (!options.only.empty()) {
    constexpr const char* kSays[] = {"keeps the rule ",
                                     "breaks rules: ", "was not checked by the rule "};
    const Outcome outcome = findings[0].outcome;
    return {outcome != Outcome::kFailed, kSays[static_cast<size_t>(outcome)] + options.only};
  }
  const auto asked = static_cast<size_t>(LevelOf(options.level));
  std::string reached = "not bronze";
  for (size_t level = 0; level <= asked; ++level) {
    if (!broken[level].empty()) {
      return {false, fmt::format("is {}: breaks rules of level {}: {}", reached, kLevels[level],
                                 fmt::join(broken[level], ", "))};
    }
    if (level == static_cast<size_t>(ConformLevel::kGold) && !skipped.empty()) {
      return {false,
              fmt::format("is {}: no gold while the rule golden is skipped: {}", reached, skipped)};
    }
    reached = kLevels[level];
  }
  return {true, fmt::format("is {0}: keeps the rules of level {0}", reached)};
}

/// For XML and HTML; characters that XML has no place for become '?'.
std::string Escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += code < 0x20 && c != '\n' && c != '\t' ? '?' : c;
    }
  }
  return out;
}

void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  if (!out.flush()) {
    throw ValueError(ErrorCode::kValue, fmt::format("conform: cannot write '{}'", path));
  }
}

std::string ToJUnit(const std::vector<Finding>& findings) {
  Score all;
  for (const auto& [area, score] : ScoresOf(findings)) {
    all.failed += score.failed;
    all.skipped += score.skipped;
  }
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"hammock conform\" "
      "tests=\"{}\" "
      "failures=\"{}\" skipped=\"{}\">\n",
      findings.size(), all.failed, all.skipped);
  for (const Finding& finding : findings) {
    text += fmt::format("  <testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\">",
                        finding.rule->area, finding.rule->name, finding.seconds);
    if (finding.outcome == Outcome::kFailed) {
      text += fmt::format("<failure message=\"{}\">{}</failure>", Escaped(finding.rule->doc),
                          Escaped(finding.text));
    } else if (finding.outcome == Outcome::kSkipped) {
      text += fmt::format("<skipped message=\"{}\"/>", Escaped(finding.text));
    }
    text += "</testcase>\n";
  }
  return text + "</testsuite>\n";
}

std::string ToHtml(const std::vector<Finding>& findings, const std::string& plugin,
                   const Verdict& verdict, const std::string& measured) {
  std::string text = fmt::format(
      "<!doctype html>\n<meta charset=\"utf-8\">\n<title>hammock "
      "conform</title>\n<style>body{{font:"
      "15px sans-serif;margin:2em}}td,th{{text-align:left;vertical-align:top;padding:.3em 1em}}"
      ".FAIL{{color:#b00}}pre{{margin:0}}</style>\n<h1>{}</h1>\n<p class=\"{}\">It {}.</p>\n"
      "<table>\n<tr><th>area<th>kept<th>skipped</tr>\n",
      Escaped(plugin), verdict.kept ? "pass" : "FAIL", Escaped(verdict.text));
  for (const auto& [area, score] : ScoresOf(findings)) {
    text += fmt::format("<tr><td>{}<td>{} of {}<td>{}</tr>\n", area, score.passed,
                        score.passed + score.failed, score.skipped);
  }
  text += "</table>\n<table>\n<tr><th>area<th>rule<th>outcome<th>seconds<th>what it says</tr>\n";
  for (const Finding& finding : findings) {
    text += fmt::format("<tr><td>{}<td>{}<td class=\"{}\">{}<td>{:.1f}<td>{}<pre>{}</pre></tr>\n",
                        finding.rule->area, finding.rule->name, NameOf(finding.outcome),
                        NameOf(finding.outcome), finding.seconds, Escaped(finding.rule->doc),
                        Escaped(finding.text));
  }
  return text + fmt::format("</table>\n<pre>{}</pre>\n", Escaped(measured));
}

int ListRules() {
  for (const ConformRule& rule : ConformRules()) {
    std::cout << fmt::format("{:10} {:20} {:8} {}\n", rule.area, rule.name,
                             kLevels[static_cast<size_t>(rule.level)], rule.doc);
  }
  return 0;
}

}  // namespace

int Conform(const ConformOptions& options) {
  if (options.list) return ListRules();
  if (options.plugin.empty()) {
    throw ValueError(ErrorCode::kValue, "conform: which plug-in? conform --plugin libx.so");
  }
  if (!options.rule.empty()) return CheckHere(options);
  const ConformLevel level = LevelOf(options.level);
  std::vector<Finding> findings;
  for (const ConformRule& rule : ConformRules()) {
    if (options.only.empty() ? rule.level > level : options.only != rule.name) continue;
    findings.push_back(Check(rule, options));
    const Finding& finding = findings.back();
    std::cout << fmt::format("{} {:10} {:20} {}\n", NameOf(finding.outcome), rule.area, rule.name,
                             rule.doc)
              << std::flush;
    if (!finding.text.empty()) std::cout << finding.text << "\n";
    if (rule.name == kLoads && finding.outcome == Outcome::kFailed) break;  // as all others would
  }
  if (findings.empty()) {
    throw ValueError(ErrorCode::kUnknownName, "conform: there is no rule '" + options.only + "'");
  }
  std::cout << "\n";
  for (const auto& [area, score] : ScoresOf(findings)) {
    std::cout << fmt::format("{:12} {} of {}", area, score.passed, score.passed + score.failed)
              << (score.skipped ? fmt::format(", {} skipped", score.skipped) : "") << "\n";
  }
  std::string measured;
  if (options.measure) {
    measured = RunApart(options, kMeasure).output;
    std::cout << "\n" << measured;
  }
  const Verdict verdict = Judge(findings, options);
  if (!options.junit.empty()) WriteFile(options.junit, ToJUnit(findings));
  if (!options.html.empty())
    WriteFile(options.html, ToHtml(findings, options.plugin, verdict, measured));
  std::cout << fmt::format("\n{} {}\n", options.plugin, verdict.text);
  return verdict.kept ? 0 : 1;
}

}  // namespace hammock::tool
