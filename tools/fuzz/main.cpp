// hammock-fuzz: random graphs on the CPU backend, held against the reference interpreter.
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>

#include "fuzz/generate.h"
#include "fuzz/judge.h"
#include "fuzz/shrink.h"
#include "hammock/error.h"

namespace hammock::fuzz {
namespace {

constexpr const char* kUsage =
    R"(usage: hammock-fuzz [--graphs N] [--seed S] [--interpreted|--compiled|--both] [--shrink]
                    [--keep-going] [--apart] [--out FILE]
       hammock-fuzz --replay FILE [--interpreted|--compiled|--both] [--shrink] [--apart]

Runs N graphs (1000), those of the seeds S, S+1, ... (1), and holds what the CPU backend computes
against the reference interpreter. A graph that fails is printed, with --shrink as small as it can
be made, and written to FILE (failure.txt), from where --replay runs it again. With --apart each graph is
run in a process of its own, so that crashes are reported and shrunk too.
Status 0: all graphs are right; 1: one is not; 2: wrong arguments.
)";

struct Options {
  int64_t graphs = 1000;
  uint64_t seed = 1;
  Tiers tiers;
  bool shrink = false;
  bool keep_going = false;
  bool apart = false;
  std::string replay;
  std::string out = "failure.txt";
};

struct WrongUse {
  std::string text;
};

template <class T>
T Number(std::string_view text) {
  T value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw WrongUse{fmt::format("'{}' is no number", text)};
  }
  return value;
}

Options ParseOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string_view option = argv[i];
    auto value = [&]() -> std::string_view {
      if (i + 1 >= argc) throw WrongUse{fmt::format("{} needs a value", option)};
      return argv[++i];
    };
    if (option == "--graphs") {
      options.graphs = Number<int64_t>(value());
    } else if (option == "--seed") {
      options.seed = Number<uint64_t>(value());
    } else if (option == "--replay") {
      options.replay = value();
    } else if (option == "--out") {
      options.out = value();
    } else if (option == "--shrink") {
      options.shrink = true;
    } else if (option == "--apart") {
      options.apart = true;
    } else if (option == "--keep-going") {
      options.keep_going = true;
    } else if (option == "--interpreted") {
      options.tiers = {true, false};
    } else if (option == "--compiled") {
      options.tiers = {false, true};
    } else if (option == "--both") {
      options.tiers = {true, true};
    } else {
      throw WrongUse{fmt::format("unknown option '{}'", option)};
    }
  }
  return options;
}

volatile uint64_t running_seed = 0;

/// A crash says which graph it was.
void PrintSeed(int signal) {
  char text[] = "\nhammock-fuzz: crashed, repeat with --graphs 1 --seed ....................\n";
  char* digit = text + sizeof(text) - 3;
  for (uint64_t seed = running_seed;; seed /= 10) {
    *digit-- = static_cast<char>('0' + seed % 10);
    if (seed < 10) break;
  }
  while (*digit == '.') *digit-- = ' ';
  [[maybe_unused]] ssize_t written = write(2, text, sizeof(text) - 1);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

/// Empty if the case is right; reports it otherwise.
std::string Check(Case test, const Options& options) {
  auto judge = [&](const Case& c) {
    auto find = [&] { return FindDifference(c, options.tiers); };
    return options.apart ? RunApart(find) : find();
  };
  std::string difference = judge(test);
  if (difference.empty()) return "";
  if (options.shrink) {
    test = Shrink(test, [&](const Case& c) { return !judge(c).empty(); });
    difference = judge(test);
  }
  std::ofstream(options.out) << ToText(test);
  std::cout << difference << "\n" << hammock::ToText(test.graph) << "\n";
  return difference;
}

int Run(const Options& options) {
  if (!options.replay.empty()) {
    std::ifstream file(options.replay);
    if (!file) throw WrongUse{fmt::format("cannot read '{}'", options.replay)};
    std::stringstream text;
    text << file.rdbuf();
    return Check(ParseCase(text.str()), options).empty() ? 0 : 1;
  }
  int64_t failures = 0;
  int64_t nodes = 0;
  auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < options.graphs; ++i) {
    running_seed = options.seed + static_cast<uint64_t>(i);
    Case test = GenerateCase(running_seed);
    nodes += test.graph.size();
    if (Check(test, options).empty()) continue;
    std::cout << "seed " << running_seed << "\n\n" << std::flush;
    ++failures;
    if (!options.keep_going) break;
  }
  std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  std::cout << fmt::format(
      "{} graphs of {} nodes in {:.1f} s, {} failed; kernels: {} interpreted, {} compiled\n",
      options.graphs, nodes, time.count(), failures, CountsOf(false).kernels,
      CountsOf(true).kernels);
  return failures == 0 ? 0 : 1;
}

int Main(int argc, char** argv) {
  try {
    Options options = ParseOptions(argc, argv);
    if (options.tiers.compiled) {
      if (std::string reason = WhyNotCompiled(); !reason.empty()) {
        std::cout << "skipped: " << reason << "\n";
        return 77;
      }
    }
    for (int signal : {SIGSEGV, SIGFPE, SIGABRT, SIGBUS, SIGILL}) std::signal(signal, PrintSeed);
    return Run(options);
  } catch (const WrongUse& wrong) {
    std::cerr << wrong.text << "\n" << kUsage;
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
  }
  return 2;
}

}  // namespace
}  // namespace hammock::fuzz

int main(int argc, char** argv) { return hammock::fuzz::Main(argc, argv); }
