// hammock-golden: replays a suite of op calls with known results on any device.

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>

#include "case_code.h"
#include "hammock/error.h"
#include "report.h"
#include "runner.h"

namespace hammock::golden {
namespace {

constexpr const char* kUsage = R"(usage: hammock-golden DIR [options]
Replays the suite in DIR (manifest.jsonl and data/) and prints a table by group. Exit status: 0 if
no case of a known op fails and the lists hold, 1 if not, 2 for a wrong command line or a broken
suite.

  --op NAME[,NAME]   only these groups
  --case ID          only this case
  --device NAME      run on this device instead of the default one
  --load FILE        first load a library, such as an out-of-tree backend
  --eager            run op by op
  --isolate          run each group in a process of its own, so that a crash is one result
  --verbose          print every case
  --list-unknown     print what is missing from the registry, with counts
  --expect FILE      groups that the suite has and that must pass, apart from known failures, one a
                     line
  --known FILE       cases that fail, one a line, and must be nearer to the values in f64 than the
                     suite's are; they never count as passed; may be repeated
  --json FILE        write the results
)";

struct CommandLine {
  RunOptions run;
  std::vector<std::string> ops;
  std::string case_id, expect, json;
  std::vector<std::string> libraries, known;
  bool verbose = false, list_unknown = false;
};

struct UsageError {
  std::string text;
};

std::vector<std::string> SplitList(const std::string& text) {
  std::vector<std::string> items;
  std::istringstream in(text);
  for (std::string item; std::getline(in, item, ',');) items.push_back(item);
  return items;
}

CommandLine ParseCommandLine(const std::vector<std::string>& arguments) {
  CommandLine line;
  size_t next = 0;
  auto value = [&](const std::string& option) {
    if (next == arguments.size()) throw UsageError{option + " needs a value"};
    return arguments[next++];
  };
  while (next < arguments.size()) {
    std::string option = arguments[next++];
    if (option == "--op") {
      line.ops = SplitList(value(option));
    } else if (option == "--case") {
      line.case_id = value(option);
    } else if (option == "--device") {
      line.run.device = value(option);
    } else if (option == "--load") {
      line.libraries.push_back(value(option));
    } else if (option == "--expect") {
      line.expect = value(option);
    } else if (option == "--known") {
      line.known.push_back(value(option));
    } else if (option == "--json") {
      line.json = value(option);
    } else if (option == "--eager") {
      line.run.eager = true;
    } else if (option == "--isolate") {
      line.run.isolate = true;
    } else if (option == "--verbose") {
      line.verbose = true;
    } else if (option == "--list-unknown") {
      line.list_unknown = true;
    } else if (option.starts_with("-") || !line.run.dir.empty()) {
      throw UsageError{"unknown argument " + option};
    } else {
      line.run.dir = option;
    }
  }
  if (line.run.dir.empty()) throw UsageError{"DIR is missing"};
  return line;
}

std::set<std::string> GroupsOf(const std::vector<Case>& cases) {
  std::set<std::string> groups;
  for (const Case& c : cases) groups.insert(c.op);
  return groups;
}

std::vector<Case> Select(std::vector<Case> cases, const CommandLine& line) {
  std::erase_if(cases, [&](const Case& c) {
    if (!line.case_id.empty() && c.id != line.case_id) return true;
    return !line.ops.empty() && std::find(line.ops.begin(), line.ops.end(), c.op) == line.ops.end();
  });
  return cases;
}

void LoadLibraries(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (!dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL)) throw UsageError{dlerror()};
  }
}

int Main(const CommandLine& line) {
  LoadLibraries(line.libraries);
  std::vector<std::string> expected, known;
  if (!line.expect.empty()) expected = ReadNames(line.expect);
  for (const std::string& file : line.known) {
    std::vector<std::string> names = ReadNames(file);
    known.insert(known.end(), names.begin(), names.end());
  }
  std::vector<Case> cases = ReadCases(line.run.dir);
  const std::set<std::string> groups = GroupsOf(cases);
  for (const std::string& op : line.ops) {
    if (!groups.contains(op)) throw UsageError{"no group " + op};
  }
  cases = Select(std::move(cases), line);
  if (cases.empty()) throw UsageError{"no case is selected"};

  Report report({known.begin(), known.end()});
  std::string code;  // of the first case that is wrong
  RunCases(cases, line.run, [&](const Case& c, const CaseResult& result) {
    report.Add(c, result);
    bool bad = result.outcome != Outcome::kPass && result.outcome != Outcome::kUnknown;
    if (!bad && !line.verbose) return;
    fmt::print("{} {}{}{}\n", NameOf(result.outcome), c.id, result.detail.empty() ? "" : ": ",
               result.detail);
    const bool whole = !result.detail.starts_with("suite:");
    if (bad && whole && code.empty()) code = CodeOf(c, line.run.dir, line.run.device);
  });
  fmt::print("{}", report.Table());
  if (!code.empty()) fmt::print("the first case that is wrong, as C++:\n{}", code);
  if (line.list_unknown) fmt::print("unknown:\n{}", report.UnknownText());
  if (!line.json.empty()) std::ofstream(line.json) << report.ToJson().dump(1) << '\n';
  std::string complaints = report.Unfounded() + report.Unmet(expected, groups);
  fmt::print("{}", complaints);
  return report.total().Bad() == 0 && complaints.empty() ? 0 : 1;
}

}  // namespace
}  // namespace hammock::golden

int main(int argc, char** argv) {
  using namespace hammock::golden;
  try {
    return Main(ParseCommandLine({argv + 1, argv + argc}));
  } catch (const UsageError& error) {
    fmt::print(stderr, "hammock-golden: {}\n{}", error.text, kUsage);
  } catch (const hammock::Error& error) {
    fmt::print(stderr, "hammock-golden: {}\n", error.what());
  }
  return 2;
}
