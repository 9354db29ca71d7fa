#include "profile_reader.h"

#include <algorithm>
#include <cmath>

#include "hammock/error.h"

namespace hammock::tool {

namespace {

/// 0 where it is no number, or none of 64 bits.
int64_t IntOf(const Json& event, const char* key) {
  auto found = event.find(key);
  if (found == event.end() || !found->is_number()) return 0;
  if (!found->is_number_float()) return found->get<int64_t>();
  const double number = found->get<double>();
  return std::abs(number) < 0x1p63 ? static_cast<int64_t>(number) : 0;
}

double NumberOf(const Json& event, const char* key) {
  auto found = event.find(key);
  return found != event.end() && found->is_number() ? found->get<double>() : 0.0;
}

std::string TextOf(const Json& event, const char* key) {
  auto found = event.find(key);
  return found != event.end() && found->is_string() ? found->get<std::string>() : "";
}

Json ArgsOf(const Json& event) {
  auto found = event.find("args");
  return found != event.end() && found->is_object() ? *found : Json::object();
}

void AddMetadata(Profile& profile, const Json& event) {
  std::string name = TextOf(event, "name");
  Json args = ArgsOf(event);
  if (name == "thread_name") profile.thread_names[IntOf(event, "tid")] = TextOf(args, "name");
  if (name == "process_name" && profile.program.empty()) profile.program = TextOf(args, "name");
  if (name == "hammock_profile") {
    profile.started = IntOf(args, "started");
    profile.started_us = args.contains("started_us")
                             ? static_cast<double>(IntOf(args, "started_us"))
                             : static_cast<double>(profile.started) * 1e6;
  }
  if (name == "hammock_left_out") profile.left_out += IntOf(args, "events");
  if (name == "hammock_graph") profile.graphs.push_back(std::move(args));
}

void AddEvent(Profile& profile, const Json& event) {
  if (!event.is_object()) return;
  std::string phase = TextOf(event, "ph");
  double time = NumberOf(event, "ts");
  if (phase == "M") return AddMetadata(profile, event);
  profile.end = std::max(profile.end, time + NumberOf(event, "dur"));
  if (phase == "X") {
    profile.spans.push_back({IntOf(event, "tid"), TextOf(event, "cat"), TextOf(event, "name"), time,
                             NumberOf(event, "dur"), ArgsOf(event)});
  } else if (phase == "C" && TextOf(event, "name").starts_with("memory of ")) {
    Json args = ArgsOf(event);
    profile.memory[TextOf(event, "name").substr(10)].push_back(
        {time, IntOf(args, "in use"), IntOf(args, "planned")});
  } else if (phase == "i" && TextOf(event, "cat") == "recompile") {
    profile.misses.push_back({time, ArgsOf(event)});
  }
}

/// One event a line, as we write them; the last may be cut.
bool ReadLines(Profile& profile, const std::string& text) {
  for (size_t at = text.find('\n') + 1; at < text.size();) {
    size_t end = text.find('\n', at);
    bool last = end == std::string::npos;
    std::string_view line(text.data() + at, (last ? text.size() : end) - at);
    at = last ? text.size() : end + 1;
    if (line.ends_with(",")) line.remove_suffix(1);
    if (line.empty() || line == "]") continue;
    Json event = Json::parse(line, nullptr, false);
    if (event.is_discarded()) {
      if (!last) return false;
      profile.cut = true;
      break;
    }
    AddEvent(profile, event);
  }
  return true;
}

void ReadWhole(Profile& profile, const std::string& text, const std::string& path) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_object() && json.contains("traceEvents")) json = Json(json["traceEvents"]);
  if (!json.is_array()) {
    throw ValueError(
        ErrorCode::kParse,
        path + ": it is no profile; run the program with HAMMOCK_PROFILE_FILE=profile.json");
  }
  for (const Json& event : json) AddEvent(profile, event);
}

}  // namespace

Profile ParseProfile(const std::string& text, const std::string& path) {
  Profile profile;
  if (!text.starts_with("[\n") || !ReadLines(profile, text)) {
    profile = Profile();
    ReadWhole(profile, text, path);
  }
  std::stable_sort(profile.spans.begin(), profile.spans.end(),
                   [](const ProfileSpan& a, const ProfileSpan& b) { return a.start < b.start; });
  return profile;
}

namespace {

constexpr int64_t kOfRank = 1'000'000;  // numbers of threads and graphs, which ranks have many of

/// `key` of what a rank wrote, as a number that no other rank has.
void MakeDistinct(Json& args, const char* key, int64_t rank) {
  if (args.contains(key)) args[key] = IntOf(args, key) + rank * kOfRank;
}

void AddRank(Profile& all, Profile profile, int64_t rank, double shift) {
  const std::string of_rank = "rank " + std::to_string(rank) + ": ";
  for (ProfileSpan& span : profile.spans) {
    span.thread += rank * kOfRank;
    span.start += shift;
    MakeDistinct(span.args, "graph", rank);
    all.spans.push_back(std::move(span));
  }
  for (auto& [thread, name] : profile.thread_names) {
    all.thread_names[thread + rank * kOfRank] = of_rank + name;
  }
  for (auto& [device, samples] : profile.memory) {
    for (MemorySample& sample : samples) sample.time += shift;
    all.memory[of_rank + device] = std::move(samples);
  }
  for (Miss& miss : profile.misses) {
    miss.time += shift;
    all.misses.push_back(std::move(miss));
  }
  for (Json& graph : profile.graphs) {
    MakeDistinct(graph, "graph", rank);
    all.graphs.push_back(std::move(graph));
  }
  all.left_out += profile.left_out;
  all.cut = all.cut || profile.cut;
  all.end = std::max(all.end, profile.end + shift);
}

}  // namespace

Profile MergeRanks(std::vector<Profile> ranks) {
  Profile all;
  all.program = ranks[0].program;
  for (const Profile& profile : ranks) {
    if (profile.started_us <= 0) continue;
    if (all.started_us > 0 && all.started_us <= profile.started_us) continue;
    all.started = profile.started;
    all.started_us = profile.started_us;
  }
  for (size_t i = 0; i < ranks.size(); ++i) {
    const double shift = ranks[i].started_us > 0 ? ranks[i].started_us - all.started_us : 0;
    AddRank(all, std::move(ranks[i]), static_cast<int64_t>(i), shift);
  }
  std::ranges::stable_sort(all.spans, {}, &ProfileSpan::start);
  std::ranges::stable_sort(all.misses, {}, &Miss::time);
  return all;
}

std::map<std::pair<int64_t, int64_t>, KernelTimes> TimesOfKernels(const Profile& profile) {
  std::map<std::pair<int64_t, int64_t>, std::vector<double>> samples;
  for (const ProfileSpan& span : profile.spans) {
    if (span.category != "kernel") continue;
    samples[{IntOf(span.args, "graph"), IntOf(span.args, "kernel")}].push_back(span.duration);
  }
  std::map<std::pair<int64_t, int64_t>, KernelTimes> times;
  for (auto& [key, list] : samples) {
    std::sort(list.begin(), list.end());
    KernelTimes& kernel = times[key];
    kernel.runs = static_cast<int64_t>(list.size());
    for (double value : list) kernel.total += value;
    kernel.least = list.front();
    kernel.median = list[list.size() / 2];
  }
  return times;
}

}  // namespace hammock::tool
