#include "distributed/environment.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <thread>

#include "distributed/file_store.h"
#include "distributed/ranks.h"
#include "distributed/rendezvous.h"
#include "distributed/stores.h"
#include "hammock/distributed.h"
#include "hammock/hammock.h"
#include "hammock/ir/function.h"
#include "hammock/ir/graph.h"

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
            Meet(OpenStore(folder.path(), "job"), "here", rank, 3, std::chrono::seconds(30));
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
  // A ring of more ranks than a shape has dims is a permutation as any other.
  Graph ring = ParseGraph(R"(
    %0 = input : f32[2]
    %1 = collective_permute %0 {pairs=[0,1,1,2,2,3,3,4,4,5,5,0], group="g", size=6} : f32[2]
    return %1)");
  EXPECT_NO_THROW(Verify(ring));
  for (const char* merged :
       {R"(kind="scan", splits=[2,3])", R"(kind="all_reduce", splits=[7,-2])",
        R"(kind="all_reduce", splits=[4611686018427387904,4611686018427387904,5])",
        R"(kind="all_reduce", splits=[2])"}) {
    EXPECT_THROW(Verify(ParseGraph(fmt::format(R"(
      %0 = input : f32[5]
      %1 = _merged_collective %0 {{{}, reduction="sum", group="g", size=2}} : f32[5]
      return %1)",
                                               merged))),
                 Error)
        << merged;
  }
  // By name: the next whole step would have to run what is recorded.
  EXPECT_THROW(CallOp("all_gather", {Any(ones({2})), Any("world"), Any(int64_t{1} << 31)}),
               ValueError);
  EXPECT_THROW(CallOp("all_reduce", {Any(ones({2})), Any("sum"), Any("nobody"), Any(int64_t{1})}),
               ValueError);
}

TEST(Collectives, OfAFailedValueHoldUpNoStep) {
  Tensor failed = linalg_cholesky(-eye(2));
  EXPECT_THROW(failed.host(), Error);
  Tensor reduced = all_reduce(failed);
  all_gather(failed);  // nobody keeps it
  Tensor other = ones({2}) + 1;
  mark_step(/*wait=*/true);
  EXPECT_FALSE(other.is_pending());
  EXPECT_THROW(sum(reduced).item(), Error);
  EXPECT_EQ(sum(all_reduce(other)).item().ToDouble(), 4);
}

}  // namespace
}  // namespace hammock::distributed
