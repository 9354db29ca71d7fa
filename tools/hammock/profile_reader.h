#pragma once
/// Profiles as they were written, in parts that commands look at.

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace hammock::tool {

using Json = nlohmann::ordered_json;

/// Times are in microseconds since the profile began.
struct ProfileSpan {
  int64_t thread = 0;
  std::string category;
  std::string name;
  double start = 0;
  double duration = 0;
  Json args;
};

struct MemorySample {
  double time = 0;
  int64_t in_use = 0;
  int64_t planned = 0;
};

struct Miss {
  double time = 0;
  Json args;  ///< as CompileMiss::ToJson
};

struct Profile {
  std::string program;
  int64_t started = 0;    ///< seconds since 1970; 0: unknown
  double started_us = 0;  ///< the same in microseconds
  int64_t left_out = 0;
  bool cut = false;  ///< the file ends in the middle of an event
  std::map<int64_t, std::string> thread_names;
  std::vector<ProfileSpan> spans;  ///< by start
  std::map<std::string, std::vector<MemorySample>> memory;
  std::vector<Miss> misses;
  std::vector<Json> graphs;  ///< as they were written
  double end = 0;
};

/// ValueError where it is no profile. A file that was cut is read up to there.
Profile ParseProfile(const std::string& text, const std::string& path);

/// The profiles of the ranks of a program, at least one, on one time line, by their hosts' clocks;
/// one whose start is not known begins with the first. Threads, devices and graphs are those of a
/// rank: "rank 1: main".
Profile MergeRanks(std::vector<Profile> ranks);

/// How often a kernel ran, and how long.
struct KernelTimes {
  int64_t runs = 0;
  double total = 0;
  double least = 0;
  double median = 0;
};
/// By graph and kernel number.
std::map<std::pair<int64_t, int64_t>, KernelTimes> TimesOfKernels(const Profile& profile);

}  // namespace hammock::tool
