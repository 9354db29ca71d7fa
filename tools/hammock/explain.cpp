// hammock explain: which graphs were compiled, why, and what to do about it, from a log or a
// profile.

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <sstream>

#include "advice.h"
#include "commands.h"
#include "hammock/error.h"
#include "model_file.h"
#include "profile_reader.h"

namespace hammock::tool {

namespace {

struct FoundCompile {
  std::string number, device, trigger, where, kind, detail, generalised;
};

std::string After(const std::string& text, const std::string& prefix) {
  return text.starts_with(prefix) ? text.substr(prefix.size()) : "";
}

/// "mark_step at train.cpp:12"
void SplitTrigger(const std::string& text, FoundCompile& compile) {
  size_t at = text.rfind(" at ");
  compile.trigger = text.substr(0, at);
  if (at != std::string::npos) compile.where = text.substr(at + 4);
}

/// Blocks as CompileMiss::ToText prints them, wherever they stand in a log.
std::vector<FoundCompile> FromLog(const std::string& text) {
  std::vector<FoundCompile> compiles;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    size_t start = line.find("compile ");
    size_t on = start == std::string::npos ? start : line.find(" on ", start);
    size_t colon = on == std::string::npos ? on : line.find(": ", on);
    if (colon != std::string::npos && line.find(", hash ", colon) != std::string::npos) {
      compiles.push_back({});
      compiles.back().number = line.substr(start + 8, on - start - 8);
      compiles.back().device = line.substr(on + 4, colon - on - 4);
      continue;
    }
    if (compiles.empty()) continue;
    FoundCompile& compile = compiles.back();
    if (std::string rest = After(line, "  triggered by "); !rest.empty()) {
      SplitTrigger(rest, compile);
    } else if (rest = After(line, "  why: "); !rest.empty()) {
      size_t end = rest.find(": ");
      compile.kind = rest.substr(0, end);
      compile.detail = end == std::string::npos ? "" : rest.substr(end + 2);
    } else if (rest = After(line, "  compiled "); !rest.empty()) {
      compile.generalised = rest;
    }
  }
  return compiles;
}

std::vector<FoundCompile> FromProfile(const Profile& profile) {
  std::vector<FoundCompile> compiles;
  for (const Miss& miss : profile.misses) {
    auto text = [&](const char* key) { return miss.args.value(key, std::string()); };
    compiles.push_back({std::to_string(miss.args.value("number", int64_t{0})), text("device"),
                        text("trigger"), text("where"), text("kind"), text("detail"),
                        text("generalised")});
  }
  return compiles;
}

std::vector<FoundCompile> Read(const std::string& path) {
  std::string text = ReadFile(path);
  if (text.starts_with("[") && text.find("\"ph\"") != std::string::npos) {
    return FromProfile(ParseProfile(text, path));
  }
  return FromLog(text);
}

CompileCause CauseOf(const FoundCompile& compile) {
  return {compile.kind, compile.trigger, compile.generalised};
}

Json ToJson(const FoundCompile& compile) {
  return {{"number", compile.number},
          {"device", compile.device},
          {"trigger", compile.trigger},
          {"where", compile.where},
          {"kind", compile.kind},
          {"detail", compile.detail},
          {"generalised", compile.generalised},
          {"avoidable", IsAvoidable(CauseOf(compile))},
          {"advice", AdviceFor(CauseOf(compile))}};
}

void Print(const std::vector<FoundCompile>& compiles) {
  if (compiles.empty()) {
    std::cout << "no compiles found; a log has them if the program ran with "
                 "HAMMOCK_EXPLAIN_MISSES=1, a profile always has\n";
    return;
  }
  std::vector<std::pair<std::string, int>> advice;  // with how often it applies
  for (const FoundCompile& compile : compiles) {
    std::cout << fmt::format("{}. {} on {}{}: {}\n", compile.number,
                             compile.trigger.empty() ? "compiled" : compile.trigger, compile.device,
                             compile.where.empty() ? "" : " at " + compile.where, compile.kind);
    if (!compile.detail.empty()) std::cout << "   " << compile.detail << "\n";
    if (!compile.generalised.empty()) std::cout << "   compiled " << compile.generalised << "\n";
    std::string text = fmt::format("{}: {}", compile.kind, AdviceFor(CauseOf(compile)));
    if (compile.trigger == "eager op") text = AdviceFor(CauseOf(compile));
    auto known = std::find_if(advice.begin(), advice.end(),
                              [&](const auto& entry) { return entry.first == text; });
    if (known == advice.end()) known = advice.insert(advice.end(), {text, 0});
    ++known->second;
  }
  std::cout << "\nwhat to do\n";
  for (const auto& [text, count] : advice) std::cout << fmt::format("  {} x  {}\n", count, text);
}

}  // namespace

int Explain(const ExplainOptions& options) {
  std::vector<FoundCompile> compiles = Read(options.log);
  if (options.json) {
    Json json = Json::array();
    for (const FoundCompile& compile : compiles) json.push_back(ToJson(compile));
    std::cout << json.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
  } else {
    Print(compiles);
  }
  bool avoidable = std::any_of(compiles.begin(), compiles.end(), [](const FoundCompile& compile) {
    return IsAvoidable(CauseOf(compile));
  });
  return avoidable ? kFoundRecompiles : 0;
}

}  // namespace hammock::tool
