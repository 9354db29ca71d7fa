// Groups whose ranks are threads of this process, over an engine of shared memory: for the thread
// sanitizer, and an example of an engine of one's own.

#include "distributed/group.h"

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <latch>
#include <map>
#include <stdexcept>
#include <thread>

#include "distributed/exchange.h"
#include "distributed/ranks.h"
#include "distributed/watchdog.h"
#include "hammock/config.h"
#include "parallel/checkpoint_files.h"

namespace hammock::distributed {
namespace {

/// Keys in memory.
class MemoryStore : public Store {
 public:
  void Set(const std::string& key, const std::string& value) override {
    std::lock_guard lock(mutex_);
    values_[key] = value;
  }
  std::optional<std::string> Get(const std::string& key) override {
    std::lock_guard lock(mutex_);
    auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }
  std::string SetOnce(const std::string& key, const std::string& value) override {
    std::lock_guard lock(mutex_);
    return values_.try_emplace(key, value).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> values_;
};

/// Messages between threads, by sender, receiver and tag.
struct Mailbox {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::array<int64_t, 3>, std::string> messages;
  bool closed = false;
};

/// Called by each rank in an AllGather, when it has sent its own part. Set before ranks start.
std::function<void(int rank)> when_sent;

/// Of what each rank sends; 0: no limit. Set before ranks start.
size_t bytes_per_second = 0;

class ThreadEngine : public Engine {
 public:
  ThreadEngine(std::shared_ptr<Mailbox> mailbox, int rank, int size)
      : owned_(std::move(mailbox)), mailbox_(*owned_), rank_(rank), size_(size) {}

  void AllGather(const void* in, void* out, size_t bytes, uint32_t tag) override {
    for (int i = 0; i < size_; ++i) Send(i, in, bytes, tag);
    if (when_sent) when_sent(rank_);
    for (int i = 0; i < size_; ++i) Receive(i, At(out, i, bytes), tag);
  }
  void AllToAll(const void* in, void* out, size_t bytes, uint32_t tag) override {
    for (int i = 0; i < size_; ++i) {
      if (i != rank_) Send(i, At(const_cast<void*>(in), i, bytes), bytes, tag);
    }
    for (int i = 0; i < size_; ++i) {
      if (i != rank_) Receive(i, At(out, i, bytes), tag);
    }
  }
  void Broadcast(void* data, size_t bytes, int root, uint32_t tag) override {
    for (int i = 0; rank_ == root && i < size_; ++i) Send(i, data, bytes, tag);
    Receive(root, data, tag);
  }
  void Permute(const void* in, int to, void* out, int from, size_t bytes, uint32_t tag) override {
    if (to >= 0) Send(to, in, bytes, tag);
    if (from >= 0) Receive(from, out, tag);
  }
  void Close() override {
    std::lock_guard lock(mailbox_.mutex);
    mailbox_.closed = true;
    mailbox_.changed.notify_all();
  }

 private:
  static char* At(void* bytes, int index, size_t size) {
    return static_cast<char*>(bytes) + static_cast<size_t>(index) * size;
  }
  void Send(int to, const void* data, size_t bytes, uint32_t tag) {
    if (bytes_per_second > 0 && to != rank_) {
      std::this_thread::sleep_for(std::chrono::microseconds(1000000 * bytes / bytes_per_second));
    }
    std::lock_guard lock(mailbox_.mutex);
    mailbox_.messages[{rank_, to, tag}].assign(static_cast<const char*>(data), bytes);
    mailbox_.changed.notify_all();
  }
  void Receive(int from, void* data, uint32_t tag) {
    std::unique_lock lock(mailbox_.mutex);
    const std::array<int64_t, 3> key = {from, rank_, tag};
    mailbox_.changed.wait(lock, [&] { return mailbox_.closed || mailbox_.messages.contains(key); });
    if (!mailbox_.messages.contains(key)) throw std::runtime_error("closed");
    const std::string message = std::move(mailbox_.messages.extract(key).mapped());
    std::memcpy(data, message.data(), message.size());
  }

  const std::shared_ptr<Mailbox> owned_;  // a group may outlive its test, on its own thread
  Mailbox& mailbox_;
  const int rank_, size_;
};

constexpr int kRanks = 3;

/// The mailbox of a group, whose ranks have a store together.
std::shared_ptr<Mailbox> MailboxOf(Store& store) {
  static std::mutex mutex;
  static std::vector<std::shared_ptr<Mailbox>> mailboxes;
  std::lock_guard lock(mutex);
  mailboxes.push_back(std::make_shared<Mailbox>());
  const std::string number = store.SetOnce("mailbox", std::to_string(mailboxes.size() - 1));
  return mailboxes[std::stoul(number)];
}

/// No group with a rank of this number can connect.
std::atomic<int> refused_rank = -1;

/// A group of threads for each rank, by `body`.
void AsRanks(const std::vector<Member>& members, const std::function<void(Group::State&)>& body) {
  static const bool registered = [] {
    RegisterEngine("threads", [](const EngineSpec& spec) -> std::unique_ptr<Engine> {
      if (refused_rank >= 0 && spec.size > refused_rank) throw std::runtime_error("refused");
      return std::make_unique<ThreadEngine>(MailboxOf(*spec.store), spec.rank, spec.size);
    });
    return true;
  }();
  ASSERT_TRUE(registered);
  EXPECT_THROW(RegisterEngine("threads", nullptr), ValueError);
  config::Override engine("distributed.engine", "threads");
  auto store = std::make_shared<MemoryStore>();
  std::vector<std::shared_ptr<Group::State>> groups;
  for (int i = 0; i < kRanks; ++i) {
    groups.push_back(std::make_shared<Group::State>("g", i, std::vector{0, 1, 2}, members, store));
    groups.back()->Connect();
  }
  std::vector<std::thread> threads;
  for (auto& group : groups) threads.emplace_back([&body, &group] { body(*group); });
  for (std::thread& thread : threads) thread.join();
  groups.clear();
}
void AsRanks(const std::function<void(Group::State&)>& body) {
  AsRanks(std::vector(kRanks, Member::Self()), body);
}

TEST(GroupOfThreads, AgreesOnManyStepsAhead) {
  AsRanks([](Group::State& group) {
    std::vector<AgreementPtr> agreements;
    for (uint64_t i = 0; i < 200; ++i) {
      agreements.push_back(group.Begin(HashOf(i), "step", [] { return OperationText{}; }));
    }
    for (size_t i = 0; i < agreements.size(); ++i) {
      agreements[i]->Await();
      const size_t count = i * 37;
      std::vector<float> values(count, static_cast<float>(group.rank));
      std::vector<char> scratch(AllReduceScratch(count, DType::kF32, kRanks));
      AllReduce(*agreements[i], group, "all_reduce", values.data(), values.data(), count,
                DType::kF32, Reduction::kSum, scratch.data());
      EXPECT_EQ(values, std::vector<float>(count, 3));
    }
  });
}

TEST(GroupOfThreads, RaisesTheSameDifferenceEverywhere) {
  std::mutex mutex;
  std::vector<std::string> errors;
  AsRanks([&](Group::State& group) {
    const bool differs = group.rank == 2;
    auto agreement = group.Begin(HashOf(differs), "step", [differs] {
      return OperationText{{"a [at x.cpp:1]", differs ? "b [at x.cpp:2]" : "c [at x.cpp:3]"}, {}};
    });
    try {
      agreement->Await();
    } catch (const DivergedError& error) {
      std::lock_guard lock(mutex);
      errors.push_back(error.message());
    }
  });
  const std::string expected =
      "group 'g': its ranks do not do the same in operation 0: rank 2 against ranks 0, 1\n"
      "  first collective that differs:\n"
      "    rank 2: b [at x.cpp:2]\n"
      "    ranks 0, 1: c [at x.cpp:3]";
  EXPECT_EQ(errors, std::vector<std::string>(kRanks, expected));
}

TEST(GroupOfThreads, HearsOfARankThatFails) {
  AsRanks([](Group::State& group) {
    if (group.rank == 1) return group.Abort("it is ill");
    try {
      group.Agree("barrier");
      FAIL() << "no error";
    } catch (const RankError& error) {
      EXPECT_EQ(error.ranks(), std::vector{1});
      EXPECT_NE(error.message().find("rank 1 failed: it is ill"), std::string::npos);
    }
  });
}

TEST(GroupOfThreads, GivesUpAfterTheTimeLimit) {
  config::Override timeout("distributed.timeout", "400");
  AsRanks([](Group::State& group) {
    if (group.rank == 1) return;
    EXPECT_THROW(group.Agree("barrier"), RankError);
  });
}

/// Each message takes longer than the time limit, and bytes arrive all the time.
TEST(GroupOfThreads, DoesNotTakeASlowNetworkForALateRank) {
  config::Override timeout("distributed.timeout", "3000");  // of which a rank waits 1875
  constexpr size_t kBytes = size_t{16} << 20, kWords = kBytes / 4;
  bytes_per_second = size_t{13} << 20;
  AsRanks([&](Group::State& group) {
    auto agreement = group.Begin(HashOf(1), "step", [] { return OperationText{}; });
    agreement->Await();
    auto is_filled = [](std::span<const float> values, int with) {
      return std::ranges::count(values, static_cast<float>(with)) == std::ssize(values);
    };
    std::vector<float> own(2 * kWords, static_cast<float>(group.rank)), all(kRanks * kWords);
    auto part = [&](int rank) {
      return std::span(all).subspan(static_cast<size_t>(rank) * kWords, kWords);
    };
    AllGather(*agreement, group, "all_gather", own.data(), all.data(), kBytes);
    for (int i = 0; i < kRanks; ++i) EXPECT_TRUE(is_filled(part(i), i)) << i;

    std::vector<float> sent(kRanks * kWords, static_cast<float>(group.rank));
    std::ranges::fill(all, -1.0f);
    AllToAll(*agreement, group, "all_to_all", sent.data(), all.data(), kBytes);
    for (int i = 0; i < kRanks; ++i) EXPECT_TRUE(is_filled(part(i), i)) << i;

    const int next = (group.rank + 1) % kRanks, last = (group.rank + kRanks - 1) % kRanks;
    Permute(*agreement, group, "permute", own.data(), next, all.data(), last, 2 * kBytes);
    EXPECT_TRUE(is_filled(std::span(all).first(2 * kWords), last));

    std::vector<char> scratch(AllReduceScratch(own.size(), DType::kF32, kRanks));
    AllReduce(*agreement, group, "all_reduce", own.data(), own.data(), own.size(), DType::kF32,
              Reduction::kSum, scratch.data());
    EXPECT_TRUE(is_filled(own, 3));

    std::ranges::fill(own, static_cast<float>(group.rank));
    Broadcast(*agreement, group, "broadcast", own.data(), 2 * kBytes, 1);
    EXPECT_TRUE(is_filled(own, 1));
  });
  bytes_per_second = 0;
}

/// The first piece of a sum is held up until the second is gathered.
TEST(GroupOfThreads, HasTwoPiecesOfAnAllReduceUnderWay) {
  std::latch second_is_sent(1);
  std::atomic<int> gathers = 0;
  std::atomic<bool> held_up = false;
  when_sent = [&](int rank) {
    if (rank != 0) return;
    const int number = gathers++;  // that of the agreement is the first
    if (number == 2) second_is_sent.count_down();
    if (number != 1) return;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!second_is_sent.try_wait() && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    held_up = !second_is_sent.try_wait();
  };
  AsRanks([&](Group::State& group) {
    auto agreement = group.Begin(HashOf(1), "step", [] { return OperationText{}; });
    agreement->Await();
    std::vector<float> values(size_t{3} << 20, static_cast<float>(group.rank));
    std::vector<char> scratch(AllReduceScratch(values.size(), DType::kF32, kRanks));
    AllReduce(*agreement, group, "all_reduce", values.data(), values.data(), values.size(),
              DType::kF32, Reduction::kSum, scratch.data());
    EXPECT_EQ(std::ranges::count(values, 3.0f), std::ssize(values));
  });
  when_sent = nullptr;
  EXPECT_FALSE(held_up) << "the second piece waits for the first";
}

TEST(GroupOfThreads, WaitsForARankThatIsBusy) {
  config::Override timeout("distributed.timeout", "2000");
  std::latch is_busy(1);
  AsRanks([&](Group::State& group) {
    if (group.rank == 1) {
      Group::State::Busy busy(group);
      is_busy.count_down();
      std::this_thread::sleep_for(std::chrono::milliseconds(3000));
    } else {
      is_busy.wait();
    }
    group.Agree("barrier");
  });
}

/// A barrier holds no graph mutex while steps begin on another thread: for race detectors.
TEST(GroupOfThreads, HasBarriersWhileStepsBegin) {
  auto group = std::make_shared<Group::State>("g", 0, std::vector{0}, std::vector{Member::Self()},
                                              std::make_shared<MemoryStore>());
  constexpr int kTimes = 100;
  std::thread steps([&] {
    for (int i = 0; i < kTimes; ++i) {
      group->Begin(HashOf(i), "step", nullptr, {.device = "a device of some name:0"})->Await();
    }
  });
  for (int i = 0; i < kTimes; ++i) group->Agree("barrier");
  steps.join();
}

/// A step that ranks have agreed on may still run when they differ in the next one.
TEST(GroupOfThreads, EndsAnOperationThatIsUnderWayWhenTheNextDiffers) {
  AsRanks([](Group::State& group) {
    auto first = group.Begin(HashOf(1), "step", [] { return OperationText{}; });
    auto second = group.Begin(HashOf(group.rank), "step", [] { return OperationText{}; });
    EXPECT_THROW(second->Await(), DivergedError);
    first->Await();
    std::vector<float> values = {1};
    std::vector<char> scratch(AllReduceScratch(1, DType::kF32, kRanks));
    AllReduce(*first, group, "all_reduce", values.data(), values.data(), 1, DType::kF32,
              Reduction::kSum, scratch.data());
    EXPECT_EQ(values[0], kRanks);
    EXPECT_THROW(group.Agree("barrier"), DivergedError);
  });
}

/// Rank 1 fails before it has all descriptions, the others have them.
TEST(GroupOfThreads, DoesNotMissRanksThatHaveFoundADifference) {
  std::latch have_diverged(2);
  std::atomic<int> gathers = 0;
  when_sent = [&](int rank) {
    // The notes of the operation, then sizes and texts of collectives and of ops.
    if (rank != 1 || ++gathers < 5) return;
    have_diverged.wait();
    throw std::runtime_error("gone");
  };
  AsRanks([&](Group::State& group) {
    auto agreement = group.Begin(HashOf(group.rank), "step", [] { return OperationText{}; });
    if (group.rank != 1) {
      EXPECT_THROW(agreement->Await(), DivergedError);
      return have_diverged.count_down();
    }
    try {
      agreement->Await();
      FAIL() << "no error";
    } catch (const RankError& error) {
      EXPECT_EQ(error.ranks(), std::vector<int>()) << error.message();
    }
  });
  when_sent = nullptr;
}

/// A rank that computes something else hears of a failure at its next operation.
TEST(GroupOfThreads, WaitsInSurvivorsForARankThatHasNotHeardOfTheFailure) {
  std::latch has_raised(1);
  AsRanks([&](Group::State& group) {
    if (group.rank == 1) return group.Leave();
    if (group.rank == 2) has_raised.wait();
    try {
      group.Agree("barrier");
      FAIL() << "no error";
    } catch (const RankError& error) {
      EXPECT_EQ(error.ranks(), std::vector{1}) << error.message();
    }
    if (group.rank == 0) {
      has_raised.count_down();
    } else {  // so that a rank which does not wait is first
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    const Group rest = Group(group.shared_from_this()).survivors();
    EXPECT_EQ(rest.world_ranks(), (std::vector{0, 2}));
    rest.barrier();
  });
}

/// A process of this host that has ended.
Member Ended() {
  const pid_t pid = fork();
  if (pid == 0) _exit(0);
  Member member = Member::Self();
  member.pid = pid;
  waitpid(pid, nullptr, 0);
  return member;
}

TEST(GroupOfThreads, SurvivesARankThatDiesBetweenSigningAndConnecting) {
  std::vector<Member> members(kRanks, Member::Self());
  members[2] = Ended();
  AsRanks(members, [&](Group::State& group) {
    if (group.rank == 2) return;
    group.store->Set("survivor.2", "here");
    group.Abort("it is ill");
    refused_rank = 2;
    const Group rest = Group(group.shared_from_this()).survivors();
    EXPECT_EQ(rest.world_ranks(), (std::vector{0, 1}));
    rest.barrier();
  });
  refused_rank = -1;
}

// ---- checkpoints

using ::hammock::testing::TemporaryFolder;

/// Saves the rank's part of a vector with 2 elements for each rank.
void Save(const std::string& folder, const Group& group, int64_t steps) {
  const int64_t all = 2 * group.size(), begin = 2 * group.rank();
  Inventory written;
  written.steps = steps;
  written.pieces["w"] = {DType::kF32, {all}, {begin}, {2}, true};
  WriteTogether(folder, "step-" + std::to_string(steps), group, written, [&] {
    const std::vector<float> values(2, static_cast<float>(steps));
    return io::NamedHostTensors{{"w", HostTensor::From(values, {2})}};
  });
}

/// The steps of the checkpoint that is there, which must be whole.
int64_t StepsIn(const std::string& folder) {
  const SavedParts saved(folder);
  const HostTensor whole = saved.Read("w", saved.Shapes().at("w"));
  for (float value : whole.values<float>()) EXPECT_EQ(value, static_cast<float>(saved.steps()));
  return saved.steps();
}

bool Names(const std::string& folder, const std::string& generation) {
  std::ifstream index(folder + "/checkpoint.json");
  const std::string text{std::istreambuf_iterator<char>(index), {}};
  return text.find(generation) != std::string::npos;
}

/// Rank 0 has heard from all ranks that their files are written, and rank 1 hears of a failure
/// before it has: the files are the checkpoint.
TEST(GroupOfThreads, LeavesTheFilesOfASaveThatOneRankTakesForFailed) {
  TemporaryFolder folder;
  std::atomic<int> gathers = -1;  // those of rank 1 in the second save
  when_sent = [&](int rank) {
    // Agreement, sizes and texts: with these rank 0 knows that all have written.
    if (rank != 1 || gathers < 0 || ++gathers != 3) return;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!Names(folder.path(), "step-5") && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    throw std::runtime_error("gone");
  };
  AsRanks([&](Group::State& state) {
    const Group group(state.shared_from_this());
    Save(folder.path(), group, 4);
    group.barrier();
    if (group.rank() == 1) gathers = 0;
    EXPECT_THROW(Save(folder.path(), group, 5), RankError);
  });
  when_sent = nullptr;
  EXPECT_EQ(StepsIn(folder.path()), 5);
}

/// Rank 0 is held up before it replaces the index; meanwhile the others have gone on without it.
TEST(GroupOfThreads, DoesNotReplaceTheCheckpointOfThoseWhoWentOn) {
  TemporaryFolder folder;
  std::latch has_saved(1);
  std::atomic<int> gathers[kRanks] = {};
  when_sent = [&](int rank) {
    const int number = ++gathers[rank];
    if (rank == 0 && number == 3) has_saved.wait();
    if (rank == 1 && number == 4) throw std::runtime_error("gone");
  };
  AsRanks([&](Group::State& state) {
    const Group group(state.shared_from_this());
    EXPECT_THROW(Save(folder.path(), group, 5), RankError);
    if (group.rank() != 1) return;
    Save(folder.path(), world(), 9);
    has_saved.count_down();
  });
  when_sent = nullptr;
  EXPECT_EQ(StepsIn(folder.path()), 9);
}

TEST(GroupOfThreads, RaisesOnAllRanksWhatOneCannotRead) {
  std::atomic<int> loads = 0;
  AsRanks([&](Group::State& state) {
    const Group group(state.shared_from_this());
    try {
      ReadTogether("folder", group, [&] {
        ++loads;
        if (group.rank() == 1) throw std::out_of_range("no such piece");
      });
      ADD_FAILURE() << "no error on rank " << group.rank();
    } catch (const std::out_of_range&) {
      EXPECT_EQ(group.rank(), 1);
    } catch (const ValueError& error) {
      EXPECT_NE(group.rank(), 1);
      EXPECT_EQ(error.message(), "checkpoint 'folder': rank 1 could not read: no such piece");
    }
    ReadTogether("folder", group, [] {});
  });
  EXPECT_EQ(loads, kRanks);
}

TEST(TimeLimit, IsCalledOnceAndNotAfterTheEnd) {
  std::atomic<int> calls = 0, looks = 0;
  {
    TimeLimit late(std::chrono::milliseconds(20), [&] { ++calls; });
    TimeLimit goes_on(
        std::chrono::milliseconds(5), [&] { ++calls; }, [&] { return ++looks > 0; });
    TimeLimit early(std::chrono::hours(1), [&] { ++calls; });
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while ((calls == 0 || looks < 2) && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // for a second call, if one came
  }
  EXPECT_EQ(calls, 1);
  EXPECT_GT(looks, 1);
}

TEST(TimeLimit, WakesNobodyForCallsThatAreShort) {
  auto waits = [] {
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nvcsw;
  };
  auto limit = [] { TimeLimit limit(std::chrono::hours(1), [] {}); };
  limit();
  const long before = waits();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 2000; ++i) {
    limit();
    std::this_thread::sleep_for(std::chrono::microseconds(10));
  }
  // The sleeps of this thread and the looks at limits, one in 5 ms.
  const auto looks = (std::chrono::steady_clock::now() - begin) / std::chrono::milliseconds(5);
  EXPECT_LT(waits() - before, 3000 + looks);
}

}  // namespace
}  // namespace hammock::distributed
