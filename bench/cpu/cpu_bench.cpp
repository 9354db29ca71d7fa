/// The speed of the compiled CPU backend, beside libtorch (eager and lazy) and beside what the
/// hardware allows.
///
///   cpu_bench [--threads N] [--filter TEXT] [--quick] [--text] [--no-peer]
///
/// Each row runs in processes of its own, one for each setting of the peer, whose pools of threads
/// and allocator are sensitive to it; in a process all sides take turns. The table has each side's
/// best median. Without --threads there are two tables, for two threads and for one.

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "measure.h"
#include "peer.h"

using namespace bench;

namespace {

struct Setting {
  const char* name;
  bool passive;       // threads without work sleep at once
  bool keeps_memory;  // freed memory stays in the process
  bool one_openmp;    // all threads are OpenBLAS's
};
constexpr Setting kSettings[] = {
    {"passive", true, true, false},
    {"default", false, false, false},
    {"active", false, true, false},
    {"one_openmp", true, true, true},
};

struct Arguments {
  int threads = 0;
  std::string filter;
  bool quick = false;
  bool text = false;
  bool peer = true;
  std::string child;  // the one row that this process measures
};

Arguments Parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    std::string name = argv[i];
    bool has_value = i + 1 < argc;
    if (name == "--quick") {
      arguments.quick = true;
    } else if (name == "--text") {
      arguments.text = true;
    } else if (name == "--no-peer") {
      arguments.peer = false;
    } else if (name == "--threads" && has_value && std::atoi(argv[i + 1]) > 0) {
      arguments.threads = std::atoi(argv[++i]);
    } else if (name == "--filter" && has_value) {
      arguments.filter = argv[++i];
    } else if (name == "--child" && has_value) {
      arguments.child = argv[++i];
    } else {
      std::fprintf(
          stderr,
          "usage: cpu_bench [--threads N] [--filter TEXT] [--quick] [--text] [--no-peer]\n");
      std::exit(2);
    }
  }
  return arguments;
}

std::string OneLine(std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '\t') c = ' ';
  }
  return text;
}

int RunChild(const Arguments& arguments) {
  Options options;
  options.threads = arguments.threads;
  options.text = arguments.text;
  options.peer = arguments.peer;
  if (arguments.quick) options.budget = 0.15;
  for (const Row& row : Rows()) {
    if (arguments.child != row.name) continue;
    Result result = Measure(row, options);
    for (const auto& [side, times] : result.times) {
      if (times) std::printf("time\t%s\t%.9g\t%.9g\n", side.c_str(), times.min, times.median);
    }
    for (const auto& [name, note] : result.notes) {
      std::printf("note\t%s\t%s\n", name.c_str(), OneLine(note).c_str());
    }
  }
  std::fflush(stdout);
  std::_Exit(0);  // the peer's threads are left alone
}

std::string Command(const Row& row, const Arguments& arguments, const Setting& setting) {
  std::string threads = std::to_string(arguments.threads);
  std::string command = "env OPENBLAS_NUM_THREADS=" + threads;
  command += " OMP_NUM_THREADS=" + (setting.one_openmp ? "1" : threads);
  if (setting.passive) command += " OMP_WAIT_POLICY=passive";
  if (setting.keeps_memory) {
    command +=
        " MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=17179869184"
        " MALLOC_TOP_PAD_=67108864";
  }
  command += " timeout 300 " + std::filesystem::read_symlink("/proc/self/exe").string();
  command += " --threads " + threads + " --child '" + row.name + "'";
  if (arguments.quick) command += " --quick";
  if (arguments.text) command += " --text";
  if (!arguments.peer) command += " --no-peer";
  return command;
}

Result RunInChild(const Row& row, const Arguments& arguments, const Setting& setting) {
  Result result;
  FILE* pipe = popen(Command(row, arguments, setting).c_str(), "r");
  if (!pipe) return result;
  char line[4096];
  while (std::fgets(line, sizeof line, pipe)) {
    std::istringstream fields(line);
    std::string kind, name, rest;
    std::getline(fields, kind, '\t');
    std::getline(fields, name, '\t');
    if (kind == "time") {
      Times& times = result.times[name];
      fields >> times.min >> times.median;
    } else if (kind == "note") {
      std::getline(fields, result.notes[name]);
    }
  }
  int status = pclose(pipe);
  if (status != 0 && !result.notes.count("error")) {
    result.notes["error"] = "the process ended with status " + std::to_string(status);
  }
  return result;
}

/// Seconds that all cores have been busy, and those of the processes that this one waited for.
struct Busy {
  double all = 0, mine = 0;
  static Busy Now() {
    double user = 0, nice = 0, system = 0;
    std::string cpu;
    std::ifstream("/proc/stat") >> cpu >> user >> nice >> system;
    rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    return {(user + nice + system) / static_cast<double>(sysconf(_SC_CLK_TCK)),
            seconds(usage.ru_utime) + seconds(usage.ru_stime)};
  }
};

/// Cores that others kept busy meanwhile.
double ForeignLoad(const Busy& before, double wall) {
  Busy now = Busy::Now();
  return std::max(0.0, (now.all - before.all) - (now.mine - before.mine)) / wall;
}

void TakeBetter(Times& best, const Times& times) {
  if (times && (!best || times.median < best.median)) best = times;
}

/// Each side at its best; the floor is that of the run in which we were best.
Result Best(const Row& row, const Arguments& arguments) {
  Result best;
  Busy before = Busy::Now();
  auto start = std::chrono::steady_clock::now();
  for (const Setting& setting : kSettings) {
    Result result = RunInChild(row, arguments, setting);
    bool ours_better =
        result.times["ours"] &&
        (!best.times["ours"] || result.times["ours"].median < best.times["ours"].median);
    if (ours_better) {
      for (const char* side : {"ours", "trace", "floor"}) best.times[side] = result.times[side];
    }
    for (const char* side : {"eager", "lazy"}) TakeBetter(best.times[side], result.times[side]);
    for (const auto& [name, note] : result.notes) best.notes[name] = note;
    bool alone = row.work >= Work::kCompile || !peer::Name() || !arguments.peer;
    if (arguments.quick || (alone && &setting != &kSettings[0])) break;
  }
  std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  double load = ForeignLoad(before, wall.count());
  if (load > 0.1) best.notes["load"] = std::to_string(load).substr(0, 3);
  return best;
}

std::string Duration(double seconds) {
  char text[32];
  bool small = seconds < 1e-4;
  std::snprintf(text, sizeof text, "%.3g %s", seconds * (small ? 1e6 : 1e3), small ? "us" : "ms");
  return text;
}

std::string Milliseconds(const Times& times) {
  if (!times) return "-";
  char text[64];
  double scale = times.median < 1e-4 ? 1e6 : 1e3;
  std::snprintf(text, sizeof text, "%.3g/%.3g %s", times.min * scale, times.median * scale,
                scale == 1e6 ? "us" : "ms");
  return text;
}

std::string Ratio(double ratio) {
  char text[32];
  std::snprintf(text, sizeof text, ratio >= 100 ? "%.0fx" : "%.2fx", ratio);
  return text;
}

struct Verdict {
  std::string goal, value, verdict;
};

/// `at_most`: a value below the goal meets it.
Verdict Judge(double value, double goal, bool at_most, std::string value_text,
              std::string goal_text) {
  Verdict v{(at_most ? "<= " : ">= ") + goal_text, std::move(value_text), "met"};
  double missing = at_most ? value / goal : goal / value;
  if (missing > 1) v.verdict = "MISSED by " + Ratio(missing);
  return v;
}

/// By medians; by minima where others used the machine.
Verdict JudgeRow(const Row& row, const Result& result, double f32) {
  auto of = [&](const char* side) {
    auto found = result.times.find(side);
    if (found == result.times.end()) return 0.0;
    return result.notes.count("load") ? found->second.min : found->second.median;
  };
  double ours = of("ours"), eager = of("eager"), floor = of("floor");
  if (ours == 0) return {"", "-", "no result"};
  if (row.of_floor > 0 && floor / ours >= row.of_floor) {
    return Judge(floor / ours, row.of_floor, false, Ratio(floor / ours), Ratio(row.of_floor));
  }
  switch (row.goal) {
    case Goal::kTime:
      return Judge(ours, row.target, true, Duration(ours), Duration(row.target));
    case Goal::kOverFloor:
      return Judge(ours / floor, row.target, true, Ratio(ours / floor), Ratio(row.target));
    case Goal::kOverEager:
      if (eager == 0) return {">= " + Ratio(row.target), "-", "no peer"};
      return Judge(eager / ours, row.target, false, Ratio(eager / ours), Ratio(row.target));
    case Goal::kOfPeak:
      return Judge(floor / ours, row.target, false, Ratio(floor / ours), Ratio(row.target));
    case Goal::kOverF32:
      if (f32 == 0) return {">= " + Ratio(row.target), "-", "f32 not measured"};
      return Judge(f32 / ours, row.target, false, Ratio(f32 / ours), Ratio(row.target));
  }
  return {};
}

std::string OverOurs(const Result& result, const char* side) {
  auto ours = result.times.find("ours"), other = result.times.find(side);
  bool both =
      ours != result.times.end() && other != result.times.end() && ours->second && other->second;
  return both ? Ratio(other->second.median / ours->second.median) : "-";
}

void PrintRow(const Row& row, Result& result, const Verdict& verdict) {
  std::printf("%-21s %-17s %-17s %-7s %-17s %-7s %-17s %-7s | %-10s %-9s %s\n", row.name,
              Milliseconds(result.times["ours"]).c_str(),
              Milliseconds(result.times["eager"]).c_str(), OverOurs(result, "eager").c_str(),
              Milliseconds(result.times["lazy"]).c_str(), OverOurs(result, "lazy").c_str(),
              Milliseconds(result.times["floor"]).c_str(), OverOurs(result, "floor").c_str(),
              verdict.goal.c_str(), verdict.value.c_str(), verdict.verdict.c_str());
  if (result.notes.count("load")) {
    std::printf("    disturbed, minima are judged: others kept %s cores busy\n",
                result.notes["load"].c_str());
  }
  for (const char* name : {"error", "peer_error"}) {
    if (result.notes.count(name)) {
      std::printf("    %s: %.300s\n", name, result.notes[name].c_str());
    }
  }
  if (result.notes.count("steps")) {
    std::printf("    %s; results differ by %s\n", result.notes["steps"].c_str(),
                result.notes.count("difference") ? result.notes["difference"].c_str() : "?");
  }
}

void PrintTraceShare(const Result& result) {
  double step = result.times.at("ours").median, trace = result.times.at("trace").median;
  Verdict v = Judge(trace / step, 0.005, true, "", "0.5%");
  std::printf("%-21s %s of the step is tracing; goal %s: %s\n", "  tracing",
              (std::to_string(100 * trace / step).substr(0, 5) + "%").c_str(), v.goal.c_str(),
              v.verdict.c_str());
}

bool IsWanted(const Row& row, const std::string& filter) {
  return std::strstr(row.name, filter.c_str()) != nullptr;
}

void PrintTable(Arguments arguments, int threads) {
  arguments.threads = threads;
  std::printf("\n%d thread%s: min/median; x = median over ours\n", threads,
              threads == 1 ? "" : "s");
  std::printf("%-21s %-17s %-17s %-7s %-17s %-7s %-17s %-7s | %-10s %-9s\n", "", "hammock", "eager",
              "x", "lazy", "x", "floor", "x", "goal", "measured");
  std::map<std::vector<int64_t>, double> f32;  // by sizes
  for (const Row& row : Rows()) {
    if (!IsWanted(row, arguments.filter)) continue;
    Result result = Best(row, arguments);
    if (row.work == Work::kMatmul) {
      const Times& times = result.times["ours"];
      f32[row.dims] = result.notes.count("load") ? times.min : times.median;
    }
    auto same = f32.find(row.dims);
    PrintRow(row, result, JudgeRow(row, result, same == f32.end() ? 0 : same->second));
    if (row.work == Work::kEncoderTrain && result.times["ours"]) PrintTraceShare(result);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments = Parse(argc, argv);
  if (!arguments.child.empty()) return RunChild(arguments);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::printf("compiled CPU backend; peer: %s; 4096x1024 f32 unless named\n",
              peer::Name() ? peer::Name() : "none found");
  if (arguments.threads > 0) {
    PrintTable(arguments, arguments.threads);
  } else {
    PrintTable(arguments, 2);
    if (!arguments.quick) PrintTable(arguments, 1);
  }
  return 0;
}
