/// init, groups and the end.

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <thread>

#include "base/location_scope.h"
#include "base/never_destroyed.h"
#include "base/throw.h"
#include "distributed/environment.h"
#include "distributed/file_store.h"
#include "distributed/group.h"
#include "distributed/stores.h"
#include "hammock/config.h"

namespace hammock::distributed {
namespace {

constinit config::Option<std::string> kStore({
    .name = "distributed.store",
    .default_value = "",
    .doc = "Folder in which ranks meet, which all of them see, or a Redis server, "
           "`redis://host:port`; "
           "empty: a folder below the system's one for temporary files, for ranks on one host.",
});

constexpr const char* kWorld = "world";

struct World {
  std::mutex mutex;
  std::shared_ptr<Group::State> state;
  bool initialized = false;
  int local_rank = 0;
  int attempts = 0;
};

World& TheWorld() {
  static auto& world = NeverDestroyed<World>();
  return world;
}

std::shared_ptr<Group::State> WorldOfOne() {
  return std::make_shared<Group::State>(kWorld, 0, std::vector{0}, std::vector{Member::Self()},
                                        nullptr);
}

std::string PlaceOf(const InitOptions& options) {
  const std::string& chosen = options.store.empty() ? config::Get<kStore>() : options.store;
  if (!chosen.empty()) return chosen;
  return fmt::format("{}/hammock-{}", std::filesystem::temp_directory_path().string(), getuid());
}

/// The name of an attempt as one that files can have.
std::string NameOf(const std::string& job, int attempt) {
  std::string name;
  for (char c : job.empty() ? std::string("job") : job) {
    name +=
        std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.' ? c : '_';
  }
  return fmt::format("{}.{}", name, attempt);
}

/// A server may start later than the ranks.
std::shared_ptr<Store> AwaitStore(const std::string& place, const std::string& name) {
  const auto end = std::chrono::steady_clock::now() + Timeout();
  for (;;) {
    try {
      return OpenStore(place, name);
    } catch (const DeviceError&) {
      if (std::chrono::steady_clock::now() > end) throw;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace

std::shared_ptr<Group::State> WorldState() {
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  if (!world.state) {
    world.state = WorldOfOne();
  }
  return world.state;
}

Group init(const InitOptions& options, Location at) {
  LocationScope scope(at);
  World& world = TheWorld();
  std::unique_lock lock(world.mutex);
  if (world.initialized) Throw(ErrorCode::kValue, "distributed: init was called before");
  Environment environment = ReadEnvironment();
  if (options.rank >= 0) environment.rank = environment.local_rank = options.rank;
  if (options.size >= 0) environment.size = options.size;
  if (options.local_rank >= 0) environment.local_rank = options.local_rank;
  if (environment.rank >= environment.size) {
    Throw(ErrorCode::kValue, "distributed: rank {} of {} ranks", environment.rank,
          environment.size);
  }
  const std::string job = options.job.empty() ? environment.job : options.job;
  std::shared_ptr<Group::State> state;
  if (environment.size == 1) {
    state = WorldOfOne();
  } else {
    const std::string place = PlaceOf(options), name = NameOf(job, world.attempts++);
    Meeting meeting = Meet(AwaitStore(place, name), place + "/" + name, environment.rank,
                           environment.size, Timeout());
    std::vector<int> ranks;
    for (int i = 0; i < environment.size; ++i) ranks.push_back(i);
    state = std::make_shared<Group::State>(kWorld, environment.rank, std::move(ranks),
                                           std::move(meeting.members), std::move(meeting.store));
    state->Connect();
  }
  ChooseDevice(environment.local_rank);
  world.state = state;
  world.local_rank = environment.local_rank;
  world.initialized = true;
  return Group(std::move(state));
}

void EndWorld() {
  World& world = TheWorld();
  std::shared_ptr<Group::State> state;
  {
    std::lock_guard lock(world.mutex);
    if (!world.initialized) return;
    state = std::exchange(world.state, nullptr);
    world.initialized = false;
    world.local_rank = 0;
  }
  struct Leaving {
    Group::State& state;
    ~Leaving() { state.Leave(); }
  } leaving{*state};
  if (!state->failure()) state->Agree("shutdown");
}

bool is_initialized() {
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  return world.initialized;
}

Group world() { return Group(WorldState()); }
int rank() { return WorldState()->rank; }
int size() { return WorldState()->size(); }
int local_rank() {
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  return world.local_rank;
}

const std::string& Group::name() const { return state_->name; }
int Group::rank() const { return state_->rank; }
int Group::size() const { return state_->size(); }
const std::vector<int>& Group::world_ranks() const { return state_->world_ranks; }
int64_t Group::steps() const { return state_->steps.load(); }
bool Group::failed() const { return state_->failure() != nullptr; }

void Group::barrier(Location at) const {
  LocationScope scope(at);
  state_->Agree("barrier");
}

namespace {

/// A group of these ranks of `parent`, which is not connected yet.
std::shared_ptr<Group::State> PartOf(Group::State& parent, const std::string& name,
                                     const std::vector<int>& ranks) {
  std::vector<int> world_ranks;
  std::vector<Member> members;
  int own = -1;
  for (int rank : ranks) {
    if (rank == parent.rank) own = static_cast<int>(world_ranks.size());
    world_ranks.push_back(parent.world_ranks[static_cast<size_t>(rank)]);
    members.push_back(parent.members[static_cast<size_t>(rank)]);
  }
  std::shared_ptr<Store> store;
  if (parent.store) store = std::make_shared<PrefixStore>(parent.store, name + "/");
  return std::make_shared<Group::State>(name, own, std::move(world_ranks), std::move(members),
                                        std::move(store));
}

/// Connects the ranks of a group, all of which call it now.
Group Connected(std::shared_ptr<Group::State> state) {
  state->Connect();
  AddGroup(state);
  return Group(std::move(state));
}

}  // namespace

Group Group::split(int64_t color, int64_t key, Location at) const {
  LocationScope scope(at);
  State& parent = *state_;
  const std::string name = fmt::format("{}/{}.{}", parent.name, parent.splits++, color);
  if (parent.size() == 1) return Connected(PartOf(parent, name, {0}));
  struct Choice {
    int64_t color, key;
  };
  const Choice own = {color, key};
  std::vector<Choice> choices(static_cast<size_t>(parent.size()));
  AgreementPtr agreement = parent.Agree("split");
  parent.Call("split", [&](Engine& engine) {
    engine.AllGather(&own, choices.data(), sizeof(Choice), agreement->NextTag());
  });
  std::vector<int> ranks;
  for (int i = 0; i < parent.size(); ++i) {
    if (choices[static_cast<size_t>(i)].color == color) ranks.push_back(i);
  }
  std::ranges::stable_sort(ranks, {}, [&](int i) { return choices[static_cast<size_t>(i)].key; });
  return Connected(PartOf(parent, name, ranks));
}

// Ranks sign a list in the store. Whoever has seen all that are not known to have gone, or has
// waited long enough, proposes the list; the first proposal counts for all.
Group Group::survivors(Location at) const {
  LocationScope scope(at);
  State& parent = *state_;
  auto failure = parent.failure();
  if (!failure) {
    Throw(ErrorCode::kValue,
          "distributed: group '{}' has not failed, so all of its ranks are there", parent.name);
  }
  const std::string name = parent.name + "+";
  if (parent.size() == 1) return Connected(PartOf(parent, name, {0}));
  Store& store = *parent.store;
  auto signature = [](int rank) { return fmt::format("survivor.{}", rank); };
  store.Set(signature(parent.rank), "here");
  const auto end = std::chrono::steady_clock::now() + Timeout();
  auto is_awaited = [&](int rank) {
    if (!parent.members[static_cast<size_t>(rank)].MayRun()) return false;
    if (auto report = store.Get(fmt::format("report.{}", rank))) return *report != "left";
    // It has not heard of the failure yet, or did not answer for the whole time limit.
    auto* error = dynamic_cast<const RankError*>(failure.get());
    return !parent.timed_out() || !error || std::ranges::count(error->ranks(), rank) == 0;
  };
  std::vector<int> here;
  for (;;) {
    here.clear();
    bool all = true;
    for (int i = 0; i < parent.size(); ++i) {
      if (store.Get(signature(i))) {
        here.push_back(i);
      } else if (is_awaited(i)) {
        all = false;
      }
    }
    if (all || store.Get("survivors") || std::chrono::steady_clock::now() > end) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  const std::string list = store.SetOnce("survivors", fmt::format("{}", fmt::join(here, " ")));
  std::istringstream words(list);
  here.clear();
  for (int rank; words >> rank;) here.push_back(rank);
  if (!std::ranges::count(here, parent.rank)) {
    throw RankError(fmt::format("group '{}': rank {} came too late, ranks {} went on without it",
                                parent.name, parent.rank, fmt::join(here, ", ")),
                    {parent.rank});
  }
  std::shared_ptr<State> state = PartOf(parent, name, here);
  state->steps = parent.steps.load();  // which tells whether their values belong together
  try {
    return Connected(state);
  } catch (const RankError&) {
    // A rank may have died since it signed. The others hear of it in the new group, as this one.
    if (std::ranges::all_of(state->members, &Member::MayRun)) throw;
    return Group(std::move(state)).survivors(at);
  }
}

}  // namespace hammock::distributed
