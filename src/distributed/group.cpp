#include "distributed/group.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <thread>

#include "base/location_scope.h"
#include "base/log.h"
#include "base/never_destroyed.h"
#include "base/throw.h"
#include "distributed/watchdog.h"
#include "hammock/config.h"
#include "hammock/metric.h"

namespace hammock::distributed {
namespace {

constinit config::Option<int64_t> kTimeout({
    .name = "distributed.timeout",
    .default_value = 60000,
    .doc = "Milliseconds in which a rank must come to a collective that others wait in, or send "
           "the next 4 MB of it, and in which ranks must meet; compiling does not count.",
    .min = 1,
});

constinit config::Option<std::string> kInterface({
    .name = "distributed.interface",
    .default_value = "",
    .doc = "Network interface by which ranks on several hosts connect, such as `eth0`; empty: the "
           "one of the host's name.",
});

constinit const metrics::DeclaredMetric kAgreementTime({
    .name = "distributed::AgreementTime",
    .kind = metrics::Kind::kTime,
    .doc = "Time that steps waited before their first collective for all ranks to agree on them.",
});

using Clock = std::chrono::steady_clock;

struct Table {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Group::State>> groups;
};

Table& Groups() {
  static auto& table = NeverDestroyed<Table>();
  return table;
}

constexpr const char* kDiverged = "diverged";  // a report

std::string Key(const char* what, int rank) { return fmt::format("{}.{}", what, rank); }

/// The message that ranks exchange before an operation.
struct Note {
  uint64_t number;
  Hash128 hash;
  // How the rank runs the collectives, in which ranks may differ: a hash of the type of the device,
  // and of what is merged.
  uint64_t device : 16;
  uint64_t merges : 48;

  bool Agrees(const Note& other) const { return number == other.number && hash == other.hash; }
};
static_assert(sizeof(Note) == 32);

// Tags: agreements and their descriptions have those below kCalls, calls of operations the others.
constexpr uint32_t kCalls = 0x10000000;
constexpr uint32_t kTagsOfAgreement = 8;
constexpr uint32_t kAgreements = kCalls / kTagsOfAgreement;

uint32_t AgreementTag(uint64_t number) {
  return static_cast<uint32_t>(number % kAgreements) * kTagsOfAgreement;
}

bool IsDiverged(const std::shared_ptr<const Error>& error) {
  return dynamic_cast<const DivergedError*>(error.get()) != nullptr;
}

std::string RankList(const std::vector<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

}  // namespace

std::chrono::milliseconds Timeout() { return std::chrono::milliseconds(config::Get<kTimeout>()); }

namespace {

/// For reports of the others to come.
std::chrono::milliseconds GraceTime() {
  return std::min(Timeout() / 4, std::chrono::milliseconds(1000));
}

}  // namespace

std::chrono::milliseconds WaitTime() { return Timeout() - GraceTime() * 3 / 2; }

std::shared_ptr<Group::State> FindGroup(const std::string& name) {
  if (name == "world") return WorldState();
  Table& table = Groups();
  std::lock_guard lock(table.mutex);
  auto found = table.groups.find(name);
  if (found != table.groups.end()) return found->second;
  Throw(ErrorCode::kUnknownName, "distributed: this process has no group '{}'", name);
}

void AddGroup(const std::shared_ptr<Group::State>& group) {
  Table& table = Groups();
  std::lock_guard lock(table.mutex);
  table.groups[group->name] = group;
}

Group::State::State(std::string name_in, int rank_in, std::vector<int> world_ranks_in,
                    std::vector<Member> members_in, std::shared_ptr<Store> store_in)
    : name(std::move(name_in)),
      rank(rank_in),
      world_ranks(std::move(world_ranks_in)),
      members(std::move(members_in)),
      store(std::move(store_in)),
      progress_("distributed " + name, 1 << 20) {}

Group::State::~State() {
  Close();
  attached_.reset();  // its threads use the group
}

void Group::State::Connect() {
  if (size() == 1) return;
  EngineSpec spec;
  spec.rank = rank;
  spec.size = size();
  spec.store = store.get();
  spec.interface = config::Get<kInterface>();
  spec.timeout = WaitTime();
  spec.one_host = std::ranges::all_of(
      members, [&](const Member& member) { return member.host == members[0].host; });
  try {
    engine_ = ConnectEngine(spec);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    Fail("the connections", error.what(), "could not connect");
    failure()->Raise();
  }
}

Engine& Group::State::engine() {
  if (auto error = failure()) error->Raise();
  HAMMOCK_CHECK(engine_, "group '{}' has one rank", name);
  return *engine_;
}

std::shared_ptr<const Error> Group::State::failure() {
  std::lock_guard lock(mutex_);
  return failure_;
}

void Group::State::Close() {
  if (engine_) engine_->Close();
  std::shared_ptr<DeviceConnections> attached;
  {
    std::lock_guard lock(mutex_);
    attached = attached_;
  }
  if (attached) attached->Close();
}

void Group::State::Attach(std::shared_ptr<DeviceConnections> connections) {
  bool is_late = false;
  {
    std::lock_guard lock(mutex_);
    attached_ = connections;
    is_late = is_failing_ && !IsDiverged(failure_);
  }
  if (is_late) connections->Close();
}

// ---- agreement

// Connections between devices are made once: a rank that uses a second device runs the collectives
// of that one on the host, and so do the others.
uint16_t Group::State::DeviceWord(const std::string& device) {
  if (device.empty()) return 0;  // a barrier holds no graph mutex
  if (device_.empty()) device_ = device;
  if (device != device_) return 0;
  return static_cast<uint16_t>(HashString(device.substr(0, device.find(':'))).lo | 1);
}

AgreementPtr Group::State::Begin(Hash128 hash, std::string what,
                                 std::function<OperationText()> text, const CollectivePlan& plan) {
  auto agreement = std::make_shared<Agreement>();
  agreement->group_ = shared_from_this();
  agreement->hash_ = hash;
  agreement->what_ = std::move(what);
  agreement->text_ = std::move(text);
  agreement->device_ = DeviceWord(plan.device);
  agreement->merges_ = plan.merges & ((uint64_t{1} << 48) - 1);
  agreement->number_ = agreements_.fetch_add(1);
  if (size() == 1) {
    agreement->is_done_ = agreement->is_merged_alike_ = true;
    return agreement;
  }
  progress_.Push([agreement] {
    std::shared_ptr<const Error> error;
    try {
      agreement->group_->Exchange(*agreement);
    } catch (const Error& raised) {
      error = raised.Clone();
    } catch (const std::exception& raised) {
      error = std::make_shared<InternalError>(ErrorCode::kInternal, raised.what());
    }
    std::lock_guard lock(agreement->mutex_);
    agreement->error_ = std::move(error);
    agreement->is_done_ = true;
    agreement->done_.notify_all();
  });
  return agreement;
}

void Agreement::Await() {
  std::unique_lock lock(mutex_);
  if (!std::exchange(is_awaited_, true) && group_->size() > 1) {
    const auto begin = Clock::now();
    done_.wait(lock, [&] { return is_done_; });
    const auto waited = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin);
    metrics::Get<kAgreementTime>().AddSample(static_cast<double>(waited.count()));
  }
  done_.wait(lock, [&] { return is_done_; });
  if (error_) error_->Raise();
}

uint32_t Agreement::NextTag() {
  constexpr uint32_t kMostCalls = 1 << 12;  // of operations that are under way at the same time
  return kCalls + static_cast<uint32_t>(number_ % 256) * kMostCalls + calls_++ % kMostCalls;
}

AgreementPtr Group::State::Agree(const char* what) {
  if (auto error = failure()) error->Raise();
  const std::string where = CurrentWhere();
  std::string text = where.empty() ? what : fmt::format("{} [at {}]", what, where);
  AgreementPtr agreement = Begin(HashString(what), text, [text] {
    return OperationText{{text}, {}};
  });
  agreement->Await();
  return agreement;
}

void Group::State::Exchange(Agreement& agreement) {
  const Note own = {agreement.number_, agreement.hash_, agreement.device_, agreement.merges_};
  std::vector<Note> notes(static_cast<size_t>(size()));
  Engine& connections = engine();
  try {
    TimeLimit limit(
        WaitTime(),
        [&] {
          timed_out_ = true;
          Close();
        },
        [&] { return OthersAreBusy(); });
    connections.AllGather(&own, notes.data(), sizeof(Note), AgreementTag(agreement.number_));
  } catch (const std::exception& error) {
    Fail(agreement.what_, error.what(), "waits in " + agreement.what_)->Raise();
  }
  if (!std::ranges::all_of(notes, [&](const Note& note) { return note.Agrees(own); })) {
    std::vector<std::string> texts;
    for (const Note& note : notes) {
      texts.push_back(fmt::format("{} {}", note.number, ToString(note.hash)));
    }
    RaiseDiverged(agreement, texts);
  }
  agreement.is_on_one_device_type_ =
      own.device != 0 &&
      std::ranges::all_of(notes, [&](const Note& note) { return note.device == own.device; });
  agreement.is_merged_alike_ =
      std::ranges::all_of(notes, [&](const Note& note) { return note.merges == own.merges; });
}

std::vector<std::string> Group::State::Gather(const std::string& own, uint32_t tag) {
  std::vector<uint64_t> sizes(static_cast<size_t>(size()));
  const uint64_t own_size = own.size();
  std::vector<std::string> texts;
  Call("the descriptions of all ranks", [&](Engine& engine) {
    engine.AllGather(&own_size, sizes.data(), sizeof(uint64_t), tag);
    const size_t most = *std::ranges::max_element(sizes);
    std::string padded = own, all(most * sizes.size(), '\0');
    padded.resize(most);
    engine.AllGather(padded.data(), all.data(), most, tag + 1);
    for (size_t i = 0; i < sizes.size(); ++i) texts.push_back(all.substr(i * most, sizes[i]));
  });
  return texts;
}

namespace {

std::string Joined(const std::vector<std::string>& lines) {
  return fmt::format("{}", fmt::join(lines, "\n"));
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

/// A line without its place, which ranks may differ in.
std::string WithoutPlace(const std::string& line) { return line.substr(0, line.find(" [at ")); }

/// The ranks that have the same text, fewest first; among equals those of the higher rank first, so
/// that rank 0 is taken for right.
std::vector<std::vector<int>> Camps(const std::vector<std::string>& texts) {
  std::map<std::string, std::vector<int>> by_text;
  for (size_t i = 0; i < texts.size(); ++i) by_text[texts[i]].push_back(static_cast<int>(i));
  std::vector<std::vector<int>> camps;
  for (auto& [text, ranks] : by_text) camps.push_back(ranks);
  std::ranges::sort(camps, [](const auto& a, const auto& b) {
    return a.size() != b.size() ? a.size() < b.size() : a[0] > b[0];
  });
  return camps;
}

/// "rank 2: add f32[4] [at a.cpp:7]; ranks 0, 1: ..." for the first line that differs; empty if
/// none does.
std::string FirstDifference(const std::vector<std::vector<std::string>>& lines) {
  size_t most = 0;
  for (const auto& of_rank : lines) most = std::max(most, of_rank.size());
  for (size_t at = 0; at < most; ++at) {
    std::vector<std::string> texts;
    for (const auto& of_rank : lines) {
      texts.push_back(at < of_rank.size() ? WithoutPlace(of_rank[at]) : "nothing more");
    }
    auto camps = Camps(texts);
    if (camps.size() == 1) continue;
    std::string text;
    for (const std::vector<int>& camp : camps) {
      const auto& of_rank = lines[static_cast<size_t>(camp[0])];
      text += fmt::format("\n    {}: {}", RankList(camp),
                          at < of_rank.size() ? of_rank[at] : "nothing more");
    }
    return text;
  }
  return "";
}

}  // namespace

// Every rank has the same notes and gets the same texts, so all raise the same error.
void Group::State::RaiseDiverged(Agreement& agreement, const std::vector<std::string>& notes) {
  OperationText text = agreement.text_();
  const uint32_t tag = AgreementTag(agreement.number_);
  std::vector<std::vector<std::string>> collectives, ops;
  std::vector<std::string> first = Gather(Joined(text.collectives), tag + 1);
  for (const std::string& all : first) collectives.push_back(Lines(all));
  for (const std::string& all : Gather(Joined(text.ops), tag + 3)) ops.push_back(Lines(all));
  const std::vector<std::vector<int>> camps = Camps(notes);
  std::string message =
      fmt::format("group '{}': its ranks do not do the same in operation {}: {} against {}", name,
                  agreement.number_, RankList(camps.front()), RankList(camps.back()));
  std::string collective = FirstDifference(collectives), op = FirstDifference(ops);
  if (!collective.empty()) message += "\n  first collective that differs:" + collective;
  if (!op.empty()) message += "\n  first op that differs:" + op;
  auto error = std::make_shared<DivergedError>(ErrorCode::kDevice, message);
  // Ranks that another one's death keeps from all texts must not take this one for dead too.
  Write(Key("report", rank), kDiverged);
  {
    std::lock_guard lock(mutex_);
    if (!failure_) failure_ = error;
    is_failing_ = true;
  }
  diagnosed_.notify_all();
  // Connections are left to the others, who may not have all texts yet, and to earlier operations.
  throw *error;
}

// ---- failure

void Group::State::Call(const std::string& what, const std::function<void(Engine&)>& call) {
  // Ranks that differ in an operation have agreed on the one before, which may still run: a rank
  // that gave it up would leave the others waiting in it.
  auto error = failure();
  if (error && !IsDiverged(error)) error->Raise();
  HAMMOCK_CHECK(engine_, "group '{}' has one rank", name);
  Engine& connections = *engine_;
  try {
    TimeLimit limit(WaitTime(), [&] {
      timed_out_ = true;
      Close();
    });
    call(connections);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    Fail(what, error.what(), "waits in " + what)->Raise();
  }
}

void Group::State::RaiseFailure() {
  std::shared_ptr<const Error> error;
  {
    std::unique_lock lock(mutex_);
    diagnosed_.wait_for(lock, GraceTime() * 2, [&] { return failure_ != nullptr; });
    error = failure_;
  }
  if (error) error->Raise();
}

void Group::State::CheckOthers() {
  for (int other = 0; other < size(); ++other) {
    if (other == rank) continue;
    const auto report = Read(Key("report", other));
    const bool has_ended =
        report && *report != kDiverged;  // that one still runs what was agreed on
    if (has_ended || !members[static_cast<size_t>(other)].MayRun()) {
      throw std::runtime_error(fmt::format("rank {} has ended", other));
    }
  }
}

void Group::State::Abort(const std::string& reason) {
  if (size() > 1) Fail("", reason, "failed: " + reason);
}

void Group::State::Leave() {
  if (size() == 1) return;
  Write(Key("report", rank), "left");
  {
    std::lock_guard lock(mutex_);
    if (!failure_) {
      failure_ = std::make_shared<ValueError>(
          ErrorCode::kValue, fmt::format("distributed: group '{}' has ended", name));
    }
    is_failing_ = true;
  }
  diagnosed_.notify_all();
  Close();
}

std::optional<std::string> Group::State::Read(const std::string& key) {
  try {
    return store->Get(key);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

void Group::State::Write(const std::string& key, const std::string& value) {
  try {
    store->Set(key, value);
  } catch (const std::exception& error) {
    Log(LogLevel::kWarn, "distributed: {}", error.what());
  }
}

bool Group::State::OthersAreBusy() {
  for (int other = 0; other < size(); ++other) {
    if (other == rank) continue;
    if (Read(Key("busy", other)) == "yes" && members[static_cast<size_t>(other)].MayRun()) {
      return true;
    }
  }
  return false;
}

Group::State::Busy::Busy(State& state) : state_(state) {
  if (state_.size() > 1) state_.Write(Key("busy", state_.rank), "yes");
}

Group::State::Busy::~Busy() {
  if (state_.size() > 1) state_.Write(Key("busy", state_.rank), "no");
}

std::shared_ptr<const Error> Group::State::Fail(const std::string& what, const std::string& reason,
                                                const std::string& report) {
  {
    std::unique_lock lock(mutex_);
    if (is_failing_) {  // another thread finds out why
      diagnosed_.wait(lock, [&] { return failure_ != nullptr; });
      return failure_;
    }
    is_failing_ = true;
  }
  Write(Key("report", rank), report);
  Close();
  std::shared_ptr<const Error> error;
  if (what.empty()) {
    error = std::make_shared<RankError>(
        fmt::format("group '{}' has ended: this rank failed: {}", name, reason),
        std::vector<int>{rank});
  } else {
    error = Diagnose(what, reason);
  }
  std::lock_guard lock(mutex_);
  failure_ = error;
  diagnosed_.notify_all();
  return error;
}

std::shared_ptr<const Error> Group::State::Diagnose(const std::string& what,
                                                    const std::string& reason) {
  const auto end = Clock::now() + GraceTime();
  std::map<int, std::string> reports;
  std::vector<int> silent;
  for (;;) {
    silent.clear();
    bool all_known = true;
    for (int other = 0; other < size(); ++other) {
      if (other == rank || reports.contains(other)) continue;
      const bool may_run = members[static_cast<size_t>(other)].MayRun();
      if (auto report = Read(Key("report", other))) {
        reports[other] = *report;
        continue;
      }
      silent.push_back(other);
      all_known = all_known && !may_run;
    }
    if (all_known || Clock::now() > end) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  std::vector<int> culprits;
  std::string who;
  auto blame = [&](int other, const std::string& why) {
    culprits.push_back(other);
    who += fmt::format("{}rank {} {}", who.empty() ? "" : "; ", other, why);
  };
  for (const auto& [other, report] : reports) {
    if (report == "left") blame(other, "has left");
    if (report.starts_with("failed: ")) blame(other, report);
  }
  std::erase_if(silent, [&](int other) {
    const Member& member = members[static_cast<size_t>(other)];
    if (member.MayRun()) return false;
    blame(other, fmt::format("has died (process {})", member.pid));
    return true;
  });
  // The others may be busy elsewhere, and hear of it later. They are to blame if they had the whole
  // time, or if nobody else can be.
  const bool is_explained = !culprits.empty() && !timed_out_;
  for (int other : silent) {
    if (is_explained) break;
    const Member& member = members[static_cast<size_t>(other)];
    blame(other, fmt::format("does not answer (process {} on {})", member.pid,
                             member.host.substr(0, member.host.find('/'))));
  }
  if (who.empty()) who = "all ranks answer, but connections between them broke";
  const std::string limit =
      timed_out_ ? fmt::format(" for {} ms", WaitTime().count()) : fmt::format(" ({})", reason);
  return std::make_shared<RankError>(
      fmt::format("group '{}': {}; rank {} waited in {}{}", name, who, rank, what, limit),
      culprits);
}

}  // namespace hammock::distributed
