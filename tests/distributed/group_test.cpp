// Groups whose ranks are threads of this process, over an engine of shared memory: for the thread
// sanitizer, and an example of an engine of one's own.

#include "distributed/group.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <stdexcept>
#include <thread>

#include "distributed/exchange.h"
#include "distributed/watchdog.h"
#include "hammock/config.h"

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

class ThreadEngine : public Engine {
 public:
  ThreadEngine(std::shared_ptr<Mailbox> mailbox, int rank, int size)
      : owned_(std::move(mailbox)), mailbox_(*owned_), rank_(rank), size_(size) {}

  void AllGather(const void* in, void* out, size_t bytes, uint32_t tag) override {
    for (int i = 0; i < size_; ++i) Send(i, in, bytes, tag);
    for (int i = 0; i < size_; ++i) Receive(i, At(out, i, bytes), tag);
  }
  void AllToAll(const void* in, void* out, size_t bytes, uint32_t tag) override {
    for (int i = 0; i < size_; ++i) Send(i, At(const_cast<void*>(in), i, bytes), bytes, tag);
    for (int i = 0; i < size_; ++i) Receive(i, At(out, i, bytes), tag);
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

/// Runs `body` as each rank of a group.
void AsRanks(const std::function<void(Group::State&)>& body) {
  static std::shared_ptr<Mailbox> mailbox;
  static const bool registered = [] {
    RegisterEngine("threads", [](const EngineSpec& spec) -> std::unique_ptr<Engine> {
      return std::make_unique<ThreadEngine>(mailbox, spec.rank, spec.size);
    });
    return true;
  }();
  ASSERT_TRUE(registered);
  EXPECT_THROW(RegisterEngine("threads", nullptr), ValueError);
  mailbox = std::make_shared<Mailbox>();
  config::Override engine("distributed.engine", "threads");
  auto store = std::make_shared<MemoryStore>();
  std::vector<std::shared_ptr<Group::State>> groups;
  for (int i = 0; i < kRanks; ++i) {
    groups.push_back(std::make_shared<Group::State>("g", i, std::vector{0, 1, 2},
                                                    std::vector(kRanks, Member::Self()), store));
    groups.back()->Connect();
  }
  std::vector<std::thread> threads;
  for (auto& group : groups) threads.emplace_back([&body, &group] { body(*group); });
  for (std::thread& thread : threads) thread.join();
  groups.clear();
}

TEST(GroupOfThreads, AgreesOnManyStepsAhead) {
  AsRanks([](Group::State& group) {
    std::vector<RoundPtr> rounds;
    for (uint64_t i = 0; i < 200; ++i) {
      rounds.push_back(group.Begin(HashOf(i), "step", [] { return RoundText{}; }));
    }
    for (size_t i = 0; i < rounds.size(); ++i) {
      rounds[i]->Await();
      const size_t count = i * 37;
      std::vector<float> values(count, static_cast<float>(group.rank));
      AllReduce(*rounds[i], group, "all_reduce", values.data(), values.data(), count, DType::kF32,
                Reduction::kSum);
      EXPECT_EQ(values, std::vector<float>(count, 3));
    }
  });
}

TEST(GroupOfThreads, RaisesTheSameDifferenceEverywhere) {
  std::mutex mutex;
  std::vector<std::string> errors;
  AsRanks([&](Group::State& group) {
    const bool differs = group.rank == 2;
    auto round = group.Begin(HashOf(differs), "step", [differs] {
      return RoundText{{"a [at x.cpp:1]", differs ? "b [at x.cpp:2]" : "c [at x.cpp:3]"}, {}};
    });
    try {
      round->Await();
    } catch (const DivergedError& error) {
      std::lock_guard lock(mutex);
      errors.push_back(error.message());
    }
  });
  const std::string expected =
      "group 'g': its ranks do not do the same in round 0: rank 2 against ranks 0, 1\n"
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

TEST(GroupOfThreads, WaitsForARankThatIsBusy) {
  config::Override timeout("distributed.timeout", "2000");
  AsRanks([](Group::State& group) {
    if (group.rank == 1) {
      Group::State::Busy busy(group);
      std::this_thread::sleep_for(std::chrono::milliseconds(3000));
    }
    group.Agree("barrier");
  });
}

TEST(TimeLimit, IsCalledOnceAndNotAfterTheEnd) {
  std::atomic<int> calls = 0, looks = 0;
  {
    TimeLimit late(std::chrono::milliseconds(20), [&] { ++calls; });
    TimeLimit goes_on(
        std::chrono::milliseconds(5), [&] { ++calls; }, [&] { return ++looks > 0; });
    TimeLimit early(std::chrono::hours(1), [&] { ++calls; });
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
  EXPECT_EQ(calls, 1);
  EXPECT_GT(looks, 1);
}

}  // namespace
}  // namespace hammock::distributed
