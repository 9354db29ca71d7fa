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

/// As many elements as are needed, but not all of them.
TEST(RanksCheckpoint, SeesGapsBehindPiecesThatOverlap) {
  EXPECT_EQ(ErrorOf([&] {
              CheckWhole({Of(7, 0, 6), Of(7, 3, 6)});
            }),
            "checkpoint: parts of tensors are on no rank of the group, such as those that only a "
            "rank had which has gone:\n  w: 3 of 12 elements; there are elements 0 to 6, elements "
            "3 to 9");
  EXPECT_EQ(ErrorOf([&] { CheckWhole({Of(7, 0, 8), Of(7, 6, 6)}); }), "none");
}

TEST(RanksCheckpoint, RefusesPartsOfDifferentTensors) {
  Inventory other = Of(7, 6, 6);
  other.pieces["w"].whole = {2, 6};
  EXPECT_EQ(ErrorOf([&] {
              CheckWhole({Of(7, 0, 6), other});
            }),
            "checkpoint: 'w' is a part of f32[3,4] on one rank, of f32[2,6] on another");
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
  nlohmann::json index = {{"format", "hammock checkpoint of ranks 2"},
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
  HostTensor whole = saved.Read("w", Shape(DType::kF32, {3, 4}));
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

/// Changes a byte of the last tensor of a file.
void Damage(const std::string& file) {
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekp(-2, std::ios::end);
  bytes << "x";
}

TEST(RanksCheckpoint, RefusesDamage) {
  TemporaryFolder folder;
  Write(folder.path(), 4, 4);
  const std::string file = folder.path() + "/step-2/rank-1.safetensors";
  Damage(file);
  const std::string error = ErrorOf([&] {
    SavedParts(folder.path()).Read("w", Shape(DType::kF32, {3, 4}));
  });
  EXPECT_NE(error.find("rank-1.safetensors: damaged"), std::string::npos) << error;
  std::filesystem::remove(file);
  EXPECT_NE(ErrorOf([&] { SavedParts saved(folder.path()); }), "none");
}

TEST(RanksCheckpoint, RefusesDamagedTexts) {
  TemporaryFolder folder;
  Write(folder.path(), 4, 4);
  std::fstream file(folder.path() + "/step-2/rank-1.safetensors",
                    std::ios::in | std::ios::out | std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t count = text.find("\\\"start\\\":[6]");
  ASSERT_NE(count, std::string::npos) << text;
  file.seekp(static_cast<std::streamoff>(text.find("6]", count)));
  file << "5" << std::flush;
  EXPECT_NE(ErrorOf([&] { SavedParts saved(folder.path()); }).find("damaged"), std::string::npos);
}

/// What lies in files that a rank needs nothing of is not touched.
TEST(RanksCheckpoint, ReadsThePiecesOfItsPartAlone) {
  TemporaryFolder folder;
  Write(folder.path(), 4, 4);
  Damage(folder.path() + "/step-2/rank-1.safetensors");
  const SavedParts saved(folder.path());
  const Shape part(DType::kF32, {5});
  const Shard first = {.whole = {3, 4}, .start = {1}, .flat = true},
              behind = {.whole = {3, 4}, .start = {2}, .flat = true};
  EXPECT_TRUE(saved.Read("w", part, first).SameBits(Numbers(1, 5)));
  EXPECT_NE(ErrorOf([&] { saved.Read("w", part, behind); }).find("damaged"), std::string::npos);
}

/// Any part of a tensor is made of any other parts.
TEST(RanksCheckpoint, CutsBoxesAndRangesFromEachOther) {
  const Dims whole = {4, 3, 6};
  const HostTensor all(Shape(DType::kF32, whole), Numbers(0, 72).storage());
  struct Cut {
    Shape shape;
    Shard shard;
  };
  auto box = [&](const Dims& start, const Dims& sizes) {
    return Cut{Shape(DType::kF32, sizes), {.whole = whole, .start = start}};
  };
  auto range = [&](int64_t start, int64_t count) {
    return Cut{Shape(DType::kF32, {count}), {.whole = whole, .start = {start}, .flat = true}};
  };
  const std::vector<std::vector<Cut>> cuts = {
      {box({0, 0, 0}, {4, 3, 6})},
      {box({0, 0, 0}, {4, 3, 2}), box({0, 0, 2}, {4, 3, 4})},
      {box({0, 0, 0}, {4, 1, 6}), box({0, 1, 0}, {4, 2, 6})},
      {box({0, 0, 0}, {1, 3, 6}), box({1, 0, 0}, {3, 3, 6})},
      {range(0, 25), range(25, 25), range(50, 25)}};  // with padding
  auto expected = [&](const Cut& cut) {
    std::vector<float> values;
    const Dims &start = cut.shard.start, &sizes = cut.shape.sizes();
    if (cut.shard.flat) {
      for (int64_t i = 0; i < sizes[0]; ++i) {
        values.push_back(start[0] + i < 72 ? static_cast<float>(start[0] + i) : 0.0f);
      }
      return HostTensor::From(values, sizes);
    }
    for (int64_t i = 0; i < sizes[0]; ++i) {
      for (int64_t j = 0; j < sizes[1]; ++j) {
        for (int64_t k = 0; k < sizes[2]; ++k) {
          const int64_t at = ((start[0] + i) * 3 + start[1] + j) * 6 + start[2] + k;
          values.push_back(all.values<float>()[static_cast<size_t>(at)]);
        }
      }
    }
    return HostTensor::From(values, sizes);
  };
  for (const std::vector<Cut>& saved_cuts : cuts) {
    TemporaryFolder folder;
    std::vector<Inventory> inventories;
    for (size_t rank = 0; rank < saved_cuts.size(); ++rank) {
      const Cut& cut = saved_cuts[rank];
      Inventory written;
      written.generation = "step-0";
      written.pieces["w"] = Piece::Of(cut.shape, cut.shard);
      WriteTogether(folder.path(), "step-0", world(), written, [&] {
        return io::NamedHostTensors{{"w", expected(cut)}};
      });
      std::filesystem::rename(folder.path() + "/step-0/rank-0.safetensors",
                              folder.path() + "/" + std::to_string(rank));
      inventories.push_back(written);
    }
    EXPECT_EQ(ErrorOf([&] { CheckWhole(inventories); }), "none");
    for (size_t rank = 0; rank < saved_cuts.size(); ++rank) {
      std::filesystem::rename(
          folder.path() + "/" + std::to_string(rank),
          folder.path() + "/step-0/rank-" + std::to_string(rank) + ".safetensors");
    }
    std::ofstream(folder.path() + "/checkpoint.json")
        << nlohmann::json{{"format", "hammock checkpoint of ranks 2"},
                          {"generation", "step-0"},
                          {"steps", 0},
                          {"ranks", saved_cuts.size()}};
    const SavedParts saved(folder.path());
    EXPECT_TRUE(saved.Read("w", all.shape()).SameBits(all));
    for (const std::vector<Cut>& read_cuts : cuts) {
      for (const Cut& cut : read_cuts) {
        EXPECT_TRUE(saved.Read("w", cut.shape, cut.shard).SameBits(expected(cut)))
            << cut.shape.to_string() << " at " << ToString(cut.shard.start);
      }
    }
  }
}

}  // namespace
}  // namespace hammock::distributed
