// The golden suite, by the program that replays it.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>

#include "conform/check_functions.h"
#include "conform/rule_kit.h"

namespace hammock::tool {
namespace {

namespace fs = std::filesystem;

/// Beside this program, where both are installed, or in the tree that they were built in.
fs::path FindReplayer() {
  const fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
  for (const fs::path& path :
       {folder / "hammock-golden", folder.parent_path() / "golden" / "hammock-golden"}) {
    if (fs::exists(path)) return path;
  }
  throw SkippedRule{"hammock-golden is not beside this program"};
}

/// The sample that is installed with this program, or lies in the build tree.
fs::path FindSample() {
  fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
  for (int up = 0; up < 3; ++up, folder = folder.parent_path()) {
    const fs::path sample = folder / "share" / "hammock" / "golden";
    if (fs::exists(sample / "manifest.jsonl")) return sample;
  }
  throw SkippedRule{"no golden suite is installed with this program, and none is given (--golden)"};
}

/// The groups that a suite has data of: its manifest may name more.
std::string GroupsOf(const fs::path& suite) {
  std::string groups;
  for (const auto& file : fs::directory_iterator(suite / "data")) {
    groups += (groups.empty() ? "" : ",") + file.path().stem().string();
  }
  return groups;
}

std::string Quoted(const std::string& text) {
  std::string quoted = "'";
  for (char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

}  // namespace

std::string ReplaysGoldenSuite(const Subject& subject) {
  const fs::path suite = subject.golden.empty() ? FindSample() : fs::path(subject.golden);
  const Device device = Open(subject);
  std::string command =
      fmt::format("HAMMOCK_PLUGINS={} {} {} --isolate --device {}", Quoted(subject.plugin),
                  Quoted(FindReplayer().string()), Quoted(suite.string()), Quoted(device.type()));
  if (subject.golden.empty()) command += " --op " + Quoted(GroupsOf(suite));
  const fs::path known = suite / "known_failures.txt";
  if (fs::exists(known)) command += " --known " + Quoted(known.string());
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (!pipe) return "hammock-golden cannot be started";
  std::string output;
  std::array<char, 4096> part;
  while (fgets(part.data(), part.size(), pipe)) output += part.data();
  const int status = pclose(pipe);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  return output;
}

}  // namespace hammock::tool
