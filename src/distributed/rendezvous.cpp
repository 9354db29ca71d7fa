#include "distributed/rendezvous.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "base/throw.h"
#include "distributed/file_store.h"
#include "hammock/distributed.h"
#include "hammock/ir/hash.h"

namespace hammock::distributed {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPoll{2};

/// State and start time of a process; nothing if there is none.
std::optional<std::pair<char, int64_t>> ProcessOf(int64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  const size_t name_end = line.rfind(')');  // of the program, which may have spaces
  if (name_end == line.npos) return std::nullopt;
  std::istringstream fields(line.substr(name_end + 1));
  char state = '?';
  fields >> state;
  std::string skipped;
  for (int field = 4; field < 22; ++field) fields >> skipped;
  int64_t started = 0;
  fields >> started;
  return std::pair(state, started);
}

std::string ReadLink(const char* path) {
  char text[256];
  ssize_t size = readlink(path, text, sizeof(text));
  return size < 0 ? "" : std::string(text, static_cast<size_t>(size));
}

std::string Draw() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

}  // namespace

Member Member::Self() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  std::string id;
  boot >> id;
  auto process = ProcessOf(getpid());
  return {fmt::format("{}/{}/{}", name, id, ReadLink("/proc/self/ns/pid")), getpid(),
          process ? process->second : 0};
}

bool Member::MayRun() const {
  if (host != Self().host) return true;
  auto process = ProcessOf(pid);
  return process && process->second == started && process->first != 'Z' && process->first != 'X';
}

std::string Member::ToText() const { return fmt::format("{} {} {}", host, pid, started); }

Member Member::FromText(const std::string& text) {
  Member member;
  std::istringstream(text) >> member.host >> member.pid >> member.started;
  return member;
}

// Rank 0 collects the numbers that the ranks drew, and publishes their list; who finds its own in
// it takes the list for the attempt and says so. A number of an earlier attempt is replaced when
// its rank comes, and rank 0 publishes a new list. When all have taken the latest one, it is final.
Meeting Meet(std::shared_ptr<Store> root, const std::string& where, int rank, int size,
             std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  const std::string own = Draw();
  auto key = [](const char* what, int of) { return fmt::format("{}.{}", what, of); };
  const auto ranks = static_cast<size_t>(size);
  root->Set(key("join", rank), own);
  std::string list, attempt;
  std::vector<int> missing;
  auto take = [&](const std::string& text) {
    std::istringstream words(text);
    std::vector<std::string> numbers(ranks);
    for (std::string& number : numbers) words >> number;
    if (numbers[static_cast<size_t>(rank)] != own || text == list) return;
    list = text;
    attempt = ToString(HashString(text)).substr(0, 12) + "/";
    root->Set(attempt + key("member", rank), Member::Self().ToText());
  };
  for (;;) {
    missing.clear();
    std::vector<std::string> joined(ranks);
    for (int i = 0; i < size; ++i) {
      joined[static_cast<size_t>(i)] = root->Get(key("join", i)).value_or("");
      if (joined[static_cast<size_t>(i)].empty()) missing.push_back(i);
    }
    if (rank == 0 && missing.empty()) {
      std::string text = fmt::format("{}", fmt::join(joined, " "));
      if (text != list) root->Set("ranks", text);
      take(text);
    } else if (auto text = root->Get("ranks")) {
      take(*text);
    }
    if (!attempt.empty()) {
      Meeting meeting;
      missing.clear();
      for (int i = 0; i < size; ++i) {
        auto member = root->Get(attempt + key("member", i));
        if (member) meeting.members.push_back(Member::FromText(*member));
        if (!member) missing.push_back(i);
      }
      if (missing.empty()) {
        meeting.store = std::make_shared<PrefixStore>(root, attempt);
        return meeting;
      }
    }
    if (Clock::now() > deadline) {
      std::string who =
          missing.empty() ? "rank 0" : fmt::format("rank(s) {}", fmt::join(missing, ", "));
      throw RankError(
          fmt::format("distributed: {} did not come to '{}' within {} s; there are to be {} ranks",
                      who, where, timeout.count() / 1000.0, size),
          missing);
    }
    std::this_thread::sleep_for(kPoll);
  }
}

}  // namespace hammock::distributed
