// What checkpoints of ranks refuse.

#include "parallel/checkpoint_files.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "distributed/ranks.h"
#include "hammock/distributed/checkpoint.h"

namespace hammock::distributed {
namespace {

using ::hammock::testing::TemporaryFolder;

template <class Fn>
std::string ErrorOf(const Fn& fn) {
  try {
    fn();
  } catch (const ValueError& error) {
    return error.message();
  }
  return "none";
}

Inventory Of(int64_t steps, int64_t start, int64_t count) {
  Inventory inventory;
  inventory.steps = steps;
  inventory.generation = "step-" + std::to_string(steps);
  inventory.pieces["w"] = {DType::kF32, {3, 4}, {start}, {count}, true};
  return inventory;
}

TEST(RanksCheckpoint, RefusesRanksOfDifferentSteps) {
  const std::vector<Inventory> all = {Of(7, 0, 6), Of(8, 6, 6)};
  EXPECT_EQ(ErrorOf([&] { CheckSteps(all, world()); }),
            "checkpoint: the ranks of group 'world' have not made the same number of steps, so "
            "that their parts do not belong together: rank 0 made 7, rank 1 made 8");
  EXPECT_EQ(ErrorOf([&] { CheckSteps({Of(7, 0, 6), Of(7, 6, 6)}, world()); }), "none");
}

TEST(RanksCheckpoint, NamesWhatNoRankHas) {
  EXPECT_EQ(ErrorOf([&] { CheckWhole({Of(7, 0, 6), Of(7, 6, 6), Of(7, 6, 6)}); }), "none");
  EXPECT_EQ(ErrorOf([&] {
              CheckWhole({Of(7, 0, 6), Of(7, 6, 3)});
            }),
            "checkpoint: parts of tensors are on no rank of the group, such as those that only a "
            "rank had which has gone:\n  w: 3 of 12 elements; there are elements 0 to 6, elements "
            "6 to 9");
}

TEST(RanksCheckpoint, SaysTheSameOfItselfAfterATripThroughText) {
  const Inventory all = Of(3, 2, 5), again = Inventory::FromText(all.ToText());
  EXPECT_EQ(again.steps, 3);
  EXPECT_EQ(again.generation, all.generation);
  EXPECT_EQ(again.pieces, all.pieces);
}

HostTensor Numbers(int64_t begin, int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(begin + i));
  return HostTensor::From(values, {count});
}

ReadTensors Reads(int64_t begin, int64_t count) {
  return [=] { return io::NamedHostTensors{{"w", Numbers(begin, count)}}; };
}

/// A checkpoint of two ranks, of which each has made its number of steps.
void Write(const std::string& folder, int64_t first_steps, int64_t second_steps) {
  WriteTogether(folder, "step-1", world(), Of(second_steps, 6, 6), Reads(6, 6));
  std::filesystem::rename(folder + "/step-1/rank-0.safetensors", folder + "/second");
  WriteTogether(folder, "step-2", world(), Of(first_steps, 0, 6), Reads(0, 6));
  std::filesystem::rename(folder + "/second", folder + "/step-2/rank-1.safetensors");
  nlohmann::json index = {{"format", "hammock checkpoint of ranks 1"},
                          {"generation", "step-2"},
                          {"steps", first_steps},
                          {"ranks", 2}};
  std::ofstream(folder + "/checkpoint.json") << index;
}

TEST(RanksCheckpoint, KeepsTheOldOneWhereValuesCannotBeRead) {
  TemporaryFolder folder;
  WriteTogether(folder.path(), "step-1", world(), Of(1, 0, 12), Reads(0, 12));
  const std::string error = ErrorOf([&] {
    WriteTogether(folder.path(), "step-2", world(), Of(2, 0, 12),
                  []() -> io::NamedHostTensors { throw std::runtime_error("no memory"); });
  });
  EXPECT_NE(error.find("rank 0 could not write: no memory"), std::string::npos) << error;
  EXPECT_EQ(SavedParts(folder.path()).steps(), 1);
}

TEST(RanksCheckpoint, PutsPartsTogether) {
  TemporaryFolder folder;
  Write(folder.path(), 4, 4);
  const SavedParts saved(folder.path());
  EXPECT_EQ(saved.steps(), 4);
  HostTensor whole = saved.Read("w");
  EXPECT_EQ(whole.shape(), Shape(DType::kF32, {3, 4}));
  for (int i = 0; i < 12; ++i) EXPECT_EQ(whole.values<float>()[static_cast<size_t>(i)], i);
}

TEST(RanksCheckpoint, RefusesFilesOfDifferentSteps) {
  TemporaryFolder folder;
  Write(folder.path(), 4, 5);
  const std::string error = ErrorOf([&] { SavedParts saved(folder.path()); });
  EXPECT_NE(
      error.find("rank-1.safetensors: its part is of step 5, but the checkpoint is of step 4"),
      std::string::npos)
      << error;
}

TEST(RanksCheckpoint, RefusesDamage) {
  TemporaryFolder folder;
  Write(folder.path(), 4, 4);
  const std::string file = folder.path() + "/step-2/rank-1.safetensors";
  {
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(-2, std::ios::end);
    bytes << "x";
  }
  EXPECT_NE(ErrorOf([&] { SavedParts saved(folder.path()); }).find("damaged"), std::string::npos);
  std::filesystem::remove(file);
  EXPECT_NE(ErrorOf([&] { SavedParts saved(folder.path()); }), "none");
}

}  // namespace
}  // namespace hammock::distributed
