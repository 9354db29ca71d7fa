#include "distributed/environment.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <thread>

#include "distributed/file_store.h"
#include "distributed/ranks.h"
#include "distributed/rendezvous.h"
#include "hammock/distributed.h"
#include "hammock/hammock.h"

namespace hammock::distributed {
namespace {

Environment Read(const std::map<std::string, std::string>& variables) {
  return ReadEnvironment([&](const char* name) -> std::optional<std::string> {
    auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(Environment, OfNoLauncherIsAWorldOfOne) {
  Environment none = Read({});
  EXPECT_EQ(none.size, 1);
  EXPECT_EQ(none.launcher, "");
}

TEST(Environment, KnowsLaunchers) {
  Environment torchrun =
      Read({{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"MASTER_PORT", "29500"}});
  EXPECT_EQ(torchrun.rank, 3);
  EXPECT_EQ(torchrun.size, 8);
  EXPECT_EQ(torchrun.local_rank, 1);
  EXPECT_EQ(torchrun.job, "29500");
  Environment slurm = Read({{"SLURM_PROCID", "2"},
                            {"SLURM_NTASKS", "4"},
                            {"SLURM_LOCALID", "0"},
                            {"SLURM_JOB_ID", "77"},
                            {"SLURM_STEP_ID", "1"}});
  EXPECT_EQ(slurm.launcher, "Slurm");
  EXPECT_EQ(slurm.rank, 2);
  EXPECT_EQ(slurm.job, "77-1");
  EXPECT_EQ(Read({{"OMPI_COMM_WORLD_RANK", "1"},
                  {"OMPI_COMM_WORLD_SIZE", "2"},
                  {"SLURM_PROCID", "0"},
                  {"SLURM_NTASKS", "1"}})
                .launcher,
            "Open MPI");
  EXPECT_EQ(Read({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}).rank, 1);
}

TEST(Environment, RefusesNonsense) {
  EXPECT_THROW(Read({{"RANK", "x"}, {"WORLD_SIZE", "8"}}), ValueError);
  EXPECT_THROW(Read({{"RANK", "8"}, {"WORLD_SIZE", "8"}}), ValueError);
}

TEST(FileStore, KeepsTheFirstOfSetOnce) {
  testing::TemporaryFolder folder;
  FileStore store(folder.path() + "/a/b");
  EXPECT_EQ(store.Get("key"), std::nullopt);
  store.Set("a key/with %", "1");
  EXPECT_EQ(store.Get("a key/with %"), "1");
  EXPECT_EQ(store.SetOnce("once", "first"), "first");
  EXPECT_EQ(store.SetOnce("once", "second"), "first");
}

TEST(Meeting, IgnoresFilesOfEarlierAttempts) {
  testing::TemporaryFolder folder;
  std::vector<std::string> keys;
  for (int attempt = 0; attempt < 3; ++attempt) {
    std::vector<std::optional<Meeting>> meetings(3);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&, rank] {
        // The last rank comes late, when rank 0 has long seen its old number.
        if (rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(50));
        meetings[static_cast<size_t>(rank)] =
            Meet(folder.path(), rank, 3, std::chrono::seconds(30));
      });
    }
    for (std::thread& thread : threads) thread.join();
    meetings[0]->store->Set("key", std::to_string(attempt));
    for (auto& meeting : meetings) EXPECT_EQ(meeting->store->Get("key"), std::to_string(attempt));
  }
}

TEST(Member, KnowsWhetherItsProcessRuns) {
  Member self = Member::Self();
  EXPECT_TRUE(Member::FromText(self.ToText()).MayRun());
  ++self.started;  // another process had this number
  EXPECT_FALSE(self.MayRun());
  self.host = "elsewhere";
  EXPECT_TRUE(self.MayRun());
}

TEST(World, OfOneNeedsNoEngine) {
  EXPECT_EQ(size(), 1);
  Group world = init();
  Tensor x = ones({3});
  EXPECT_EQ(sum(all_reduce(x)).item().ToDouble(), 3);
  EXPECT_EQ(all_gather(x).sizes(), (Dims{3}));
  EXPECT_EQ(sum(distributed::permute(x, {})).item().ToDouble(), 0);
  world.barrier();
  EXPECT_EQ(world.split(7).size(), 1);
  EXPECT_EQ(world.steps(), 2);  // nobody has asked for what was gathered
  shutdown();
}

TEST(Collectives, RefuseWhatTheyCannotDo) {
  EXPECT_THROW(all_reduce(ones({2}, DType::kI64), Reduction::kMean), TypeError);
  EXPECT_THROW(broadcast(ones({2}), 1), ValueError);
  EXPECT_THROW(distributed::permute(ones({2}), {{0, 0}, {0, 0}}), ValueError);
}

}  // namespace
}  // namespace hammock::distributed
