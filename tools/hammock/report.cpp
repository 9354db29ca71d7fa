// hammock report: one page of a profile. What the page shows is worked out here; report/ draws it.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>

#include "advice.h"
#include "commands.h"
#include "graph_layout.h"
#include "model_file.h"
#include "profile_reader.h"
#include "report_page.h"

namespace hammock::tool {

namespace {

using GraphTimes = std::map<std::pair<int64_t, int64_t>, KernelTimes>;

/// Characters are about this wide in the page's two fonts.
constexpr double kOpCharacter = 7.4, kTypeCharacter = 6.7;

double Rounded(double number) { return std::round(number * 1000) / 1000; }

std::vector<LayoutNode> NodesOf(const Json& graph) {
  std::vector<LayoutNode> nodes;
  for (const Json& node : graph["nodes"]) {
    LayoutNode placed;
    for (const Json& input : node["in"]) placed.inputs.push_back(input.get<int>());
    placed.kernel = node.value("kernel", -1);
    double op = static_cast<double>(node.value("op", "").size()) * kOpCharacter;
    double type = static_cast<double>(std::min<size_t>(node.value("type", "").size(), 28));
    placed.width = std::max({op, type * kTypeCharacter, 40.0}) + 20;
    placed.height = 40;
    nodes.push_back(std::move(placed));
  }
  return nodes;
}

/// Where the nodes of a kernel were recorded, each place once: "encoder.0 at model.cpp:12".
Json SourcesOf(const Json& graph, int kernel) {
  Json sources = Json::array();
  for (const Json& node : graph["nodes"]) {
    if (node.value("kernel", -1) != kernel) continue;
    std::string module = node.value("module", ""), at = node.value("at", "");
    std::string source = module.empty() || at.empty() ? module + at : module + " at " + at;
    bool known = std::find(sources.begin(), sources.end(), source) != sources.end();
    if (!source.empty() && !known) sources.push_back(source);
  }
  return sources;
}

/// Adds places and times to a graph as it stands in a profile.
Json WithLayout(Json graph, const GraphTimes& times) {
  std::vector<LayoutNode> nodes = NodesOf(graph);
  Json& kernels = graph["kernels"];
  Layout layout = LayOut(nodes, static_cast<int>(kernels.size()));
  for (size_t i = 0; i < nodes.size(); ++i) {
    graph["nodes"][i]["box"] = {Rounded(nodes[i].x), Rounded(nodes[i].y), Rounded(nodes[i].width),
                                nodes[i].height};
  }
  for (size_t i = 0; i < kernels.size(); ++i) {
    const LayoutBox& box = layout.kernels[i];
    kernels[i]["box"] = {Rounded(box.x), Rounded(box.y), Rounded(box.width), Rounded(box.height)};
    kernels[i]["sources"] = SourcesOf(graph, static_cast<int>(i));
    auto found = times.find({graph.value("graph", int64_t{0}), static_cast<int64_t>(i)});
    if (found == times.end()) continue;
    kernels[i]["runs"] = found->second.runs;
    kernels[i]["total_us"] = Rounded(found->second.total);
    kernels[i]["median_us"] = Rounded(found->second.median);
    kernels[i]["min_us"] = Rounded(found->second.least);
  }
  graph["width"] = Rounded(layout.width);
  graph["height"] = Rounded(layout.height);
  return graph;
}

/// Profiles come from files: what the page relies on has to be there.
bool IsWhole(const Json& graph) {
  auto list = [&](const char* key) { return graph.contains(key) && graph[key].is_array(); };
  if (!list("nodes") || !list("kernels") || !list("outputs")) return false;
  int64_t kernels = static_cast<int64_t>(graph["kernels"].size());
  for (size_t i = 0; i < graph["nodes"].size(); ++i) {
    const Json& node = graph["nodes"][i];
    if (!node.is_object() || !node.contains("in") || !node["in"].is_array()) return false;
    for (const Json& input : node["in"]) {
      if (!input.is_number_unsigned() || input.get<size_t>() >= i) return false;
    }
    if (node.contains("kernel") &&
        !(node["kernel"].is_number_unsigned() && node["kernel"].get<int64_t>() < kernels)) {
      return false;
    }
  }
  return true;
}

/// "rank 1: main" -> {1, it is not main}
std::pair<int, bool> KeyOfThread(const std::string& name) {
  const bool of_rank = name.starts_with("rank ");
  const size_t colon = of_rank ? name.find(": ") : std::string::npos;
  if (colon == std::string::npos) return {0, name != "main"};
  return {std::atoi(name.c_str() + 5), name.substr(colon + 2) != "main"};
}

/// Spans of a thread with how deep they are nested: [category, name, start, duration, depth, args].
/// The longest are kept where there are very many.
Json ThreadsOf(const Profile& profile, int64_t* left_out) {
  constexpr size_t kMost = 40000;
  double shortest = -1;
  if (profile.spans.size() > kMost) {
    std::vector<double> durations;
    for (const ProfileSpan& span : profile.spans) durations.push_back(span.duration);
    std::nth_element(durations.begin(), durations.begin() + kMost, durations.end(),
                     std::greater<>());
    shortest = durations[kMost];
  }
  std::map<int64_t, Json> threads;
  std::map<int64_t, std::vector<double>> open;  // ends of the spans around
  for (const ProfileSpan& span : profile.spans) {
    if (span.duration <= shortest) {
      ++*left_out;
      continue;
    }
    auto& ends = open[span.thread];
    while (!ends.empty() && ends.back() <= span.start + 0.0015) ends.pop_back();
    Json& list = threads[span.thread];
    list.push_back({span.category, span.name, Rounded(span.start), Rounded(span.duration),
                    ends.size(), span.args});
    ends.push_back(span.start + span.duration);
  }
  Json result = Json::array();
  for (auto& [id, spans] : threads) {
    auto name = profile.thread_names.find(id);
    result.push_back(
        {{"name", name == profile.thread_names.end() ? std::to_string(id) : name->second},
         {"spans", std::move(spans)}});
  }
  // The program's own thread first; ranks stay in their order.
  std::stable_sort(result.begin(), result.end(), [](const Json& a, const Json& b) {
    return KeyOfThread(a["name"]) < KeyOfThread(b["name"]);
  });
  return result;
}

double TimeIn(const Profile& profile, std::string_view category, std::string_view name = {}) {
  double sum = 0;
  for (const ProfileSpan& span : profile.spans) {
    if (span.category == category && (name.empty() || span.name == name)) sum += span.duration;
  }
  return Rounded(sum);
}

Json TotalsOf(const Profile& profile) {
  int64_t ops = 0, hits = 0, syncs = 0, runs = 0, kernel_runs = 0, kernels = 0, fallbacks = 0,
          compiled = 0;
  for (const ProfileSpan& span : profile.spans) {
    if (span.category == "record") ops += span.args.value("ops", int64_t{0});
    hits += span.category == "cache" && span.args.value("found", "") == "yes";
    syncs += span.category == "sync";
    runs += span.category == "execute";
    kernel_runs += span.category == "kernel";
    compiled += span.category == "kernel compile";
  }
  for (const Json& graph : profile.graphs) {
    kernels += static_cast<int64_t>(graph.value("kernels", Json::array()).size());
    fallbacks += static_cast<int64_t>(graph.value("fallbacks", Json::array()).size());
  }
  int64_t peak = 0, planned = 0;
  for (const auto& [device, samples] : profile.memory) {
    for (const MemorySample& sample : samples) {
      peak = std::max(peak, sample.in_use);
      planned = std::max(planned, sample.planned);
    }
  }
  return {{"ops", ops},
          {"syncs", syncs},
          {"hits", hits},
          {"compiles", profile.misses.size()},
          {"graphs", profile.graphs.size()},
          {"runs", runs},
          {"kernels", kernels},
          {"kernel_runs", kernel_runs},
          {"kernels_compiled", compiled},
          {"fallbacks", fallbacks},
          {"peak", peak},
          {"planned", planned},
          {"record_us", TimeIn(profile, "record")},
          {"compile_us", TimeIn(profile, "compile", "compile")},
          {"kernel_compile_us", TimeIn(profile, "kernel compile")},
          {"execute_us", TimeIn(profile, "execute")},
          {"transfer_us", TimeIn(profile, "transfer")},
          {"wait_us", TimeIn(profile, "wait")}};
}

/// Thinned out where there are more samples than a screen has columns; extremes stay.
Json MemoryOf(const Profile& profile) {
  constexpr size_t kMost = 4000;
  Json devices = Json::array();
  for (const auto& [device, samples] : profile.memory) {
    size_t step = samples.size() / kMost + 1;
    Json list = Json::array();
    for (size_t i = 0; i < samples.size(); i += step) {
      MemorySample most = samples[i];
      for (size_t k = i; k < std::min(i + step, samples.size()); ++k) {
        most.in_use = std::max(most.in_use, samples[k].in_use);
        most.planned = std::max(most.planned, samples[k].planned);
      }
      list.push_back({Rounded(most.time), most.in_use, most.planned});
    }
    devices.push_back({{"device", device}, {"samples", std::move(list)}});
  }
  return devices;
}

Json MissesOf(const Profile& profile) {
  std::map<std::string, double> compile_us;  // by hash
  for (const Json& graph : profile.graphs) {
    compile_us[graph.value("hash", "")] = graph.value("compile_ms", 0.0) * 1000;
  }
  Json misses = Json::array();
  for (const Miss& miss : profile.misses) {
    Json json = miss.args;
    CompileCause cause{json.value("kind", ""), json.value("trigger", ""),
                       json.value("generalised", "")};
    json["time"] = Rounded(miss.time);
    auto compiled = compile_us.find(json.value("hash", "?"));
    if (compiled != compile_us.end()) json["compile_us"] = Rounded(compiled->second);
    json["avoidable"] = IsAvoidable(cause);
    json["advice"] = AdviceFor(cause);
    misses.push_back(std::move(json));
  }
  return misses;
}

Json RunsOf(const Profile& profile) {
  std::map<int64_t, std::pair<int64_t, double>> runs;
  for (const ProfileSpan& span : profile.spans) {
    if (span.category != "execute") continue;
    auto& [count, total] = runs[span.args.value("graph", int64_t{0})];
    ++count;
    total += span.duration;
  }
  Json json = Json::object();
  for (const auto& [graph, run] : runs) {
    json[std::to_string(graph)] = {{"runs", run.first}, {"total_us", Rounded(run.second)}};
  }
  return json;
}

Json ReportData(const Profile& profile) {
  GraphTimes times = TimesOfKernels(profile);
  Json graphs = Json::array();
  for (const Json& graph : profile.graphs) {
    if (IsWhole(graph)) graphs.push_back(WithLayout(graph, times));
  }
  int64_t spans_left_out = 0;
  Json threads = ThreadsOf(profile, &spans_left_out);
  return {{"program", profile.program},       {"started", profile.started},
          {"end_us", Rounded(profile.end)},   {"left_out", profile.left_out},
          {"spans_left_out", spans_left_out}, {"cut", profile.cut},
          {"totals", TotalsOf(profile)},      {"graphs", std::move(graphs)},
          {"runs", RunsOf(profile)},          {"threads", std::move(threads)},
          {"memory", MemoryOf(profile)},      {"misses", MissesOf(profile)}};
}

/// JSON that can stand in a script element, whatever is in it.
std::string ForScript(const Json& json) {
  std::string text = json.dump(-1, ' ', true, Json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (char c : text) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string Replace(std::string text, std::string_view mark, std::string_view with) {
  size_t at = text.find(mark);
  return at == std::string::npos ? text : text.replace(at, mark.size(), with);
}

std::string FilesThatEndIn(std::string_view ending) {
  std::string all;
  for (const auto& [name, text] : ReportFiles()) {
    if (name.ends_with(ending)) all.append(text).append("\n");
  }
  return all;
}

}  // namespace

int Report(const ReportOptions& options) {
  std::vector<Profile> profiles;
  for (const std::string& path : options.profiles) {
    profiles.push_back(ParseProfile(ReadFile(path), path));
  }
  Profile profile = profiles.size() == 1 ? std::move(profiles[0]) : MergeRanks(std::move(profiles));
  Json data = ReportData(profile);
  // The data last: it may hold anything, also the marks.
  std::string page = Replace(FilesThatEndIn(".html"), "/*STYLE*/", FilesThatEndIn(".css"));
  page = Replace(std::move(page), "/*SCRIPT*/", FilesThatEndIn(".js"));
  page = Replace(std::move(page), "/*DATA*/", ForScript(data));
  WriteFile(options.output, page);
  std::cout << fmt::format("{}: {} graphs, {} compiles, {} spans{}\n", options.output,
                           profile.graphs.size(), profile.misses.size(), profile.spans.size(),
                           profile.cut ? "; the profile ends in the middle of an event" : "");
  return 0;
}

}  // namespace hammock::tool
