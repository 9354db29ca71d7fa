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

std::string Quoted(const std::string& text) {
  std::string quoted = "'";
  for (char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

}  // namespace

std::string ReplaysGoldenSuite(const Subject& subject) {
  if (subject.golden.empty()) throw SkippedRule{"no suite is given: --golden FOLDER"};
  const Device device = Open(subject);
  std::string command =
      fmt::format("HAMMOCK_PLUGINS={} {} {} --isolate --device {}", Quoted(subject.plugin),
                  Quoted(FindReplayer().string()), Quoted(subject.golden), Quoted(device.type()));
  const fs::path known = fs::path(subject.golden) / "known_failures.txt";
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
