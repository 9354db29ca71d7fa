#include <gtest/gtest.h>

#include <complex>
#include <random>
#include <string>

#include "expect_error.h"
#include "hammock/ir/graph.h"
#include "sample_graph.h"
#include "test_records.h"

namespace hammock {
namespace {

// What a hostile writer would do: the damage and a checksum that fits it.
void FixChecksum(std::string& bytes) {
  if (bytes.size() < 8) return;
  uint64_t checksum = HashString(std::string_view(bytes).substr(0, bytes.size() - 8)).lo;
  for (int i = 0; i < 8; ++i) {
    bytes[bytes.size() - 8 + i] = static_cast<char>(checksum >> (8 * i));
  }
}

std::string ReadError(const std::string& bytes) {
  return MessageOf<ValueError>([&] { DeserializeGraph(bytes); });
}

TEST(Serialize, RoundTrips) {
  Graph graph = GraphOfAllForms();
  Verify(graph);
  std::string bytes = Serialize(graph);
  Graph again = DeserializeGraph(bytes);
  EXPECT_EQ(again, graph);
  EXPECT_EQ(ToText(again, {.locations = true}), ToText(graph, {.locations = true}));
  EXPECT_EQ(Serialize(again), bytes);
}

TEST(Serialize, KeepsBothPartsOfComplexNumbers) {
  Graph graph = ParseGraph(
      "%0 = constant {value=(1.5,-2.0), dtype=c128} : c128[]\n"
      "%1 = constant {value=(0.1,inf):c64, dtype=c64} : c64[]\n"
      "%2 = constant {value=(-0.0,nan(0xfff8000000000001)), dtype=c128} : c128[]\n"
      "return %0, %1, %2\n");
  EXPECT_EQ(graph[NodeId(0)].attrs[0].scalar().As<std::complex<double>>(),
            std::complex<double>(1.5, -2));
  EXPECT_EQ(ParseGraph(ToText(graph)), graph);
  EXPECT_EQ(DeserializeGraph(Serialize(graph)), graph);
  EXPECT_THROW(ParseGraph("%0 = constant {value=(1.5), dtype=c128} : c128[]\nreturn %0"),
               ValueError);
  EXPECT_THROW(ParseGraph("%0 = constant {value=(1.0,2.0):f32, dtype=f32} : f32[]\nreturn %0"),
               ValueError);
}

TEST(Serialize, KeepsOriginsAndLocationsAsAsked) {
  Graph graph = GraphOfAllForms();
  for (NodeId id : graph.ids()) graph.mutable_node(id).origin = NodeId(100 - id.number());
  Graph plain = DeserializeGraph(Serialize(graph));
  EXPECT_EQ(plain[NodeId(2)].origin, NodeId());
  Graph numbered = DeserializeGraph(Serialize(graph, {.locations = false, .origins = true}));
  EXPECT_EQ(numbered, graph);
  for (NodeId id : graph.ids()) {
    EXPECT_EQ(numbered[id].origin, NodeId(100 - id.number()));
    EXPECT_EQ(numbered[id].location, 0u);
  }
  Graph elsewhere = graph;
  elsewhere.mutable_node(NodeId(0)).location = 0;
  EXPECT_NE(Serialize(graph), Serialize(elsewhere));
  EXPECT_EQ(Serialize(graph, {.locations = false}), Serialize(elsewhere, {.locations = false}));
}

TEST(DeserializeGraph, NamesWhatIsWrong) {
  std::string bytes = Serialize(GraphOfAllForms());
  EXPECT_EQ(ReadError(""), "graph bytes: no serialised graph (0 bytes)");
  EXPECT_EQ(ReadError("something else that is long enough"),
            "graph bytes: no serialised graph (34 bytes)");
  std::string damaged = bytes;
  damaged[40] ^= 1;
  EXPECT_EQ(ReadError(damaged), "graph bytes: damaged: the checksum does not match");
  std::string newer = bytes;
  newer[8] = 9;
  EXPECT_EQ(ReadError(newer), "graph bytes: format version 9, this library reads up to 2");
}

TEST(DeserializeGraph, NamesUnknownOpsAndNewerVersions) {
  // The first op of the table is "input": after magic and version its count, length and name.
  std::string bytes = Serialize(GraphOfAllForms());
  ASSERT_EQ(bytes.substr(14, 5), "input");
  std::string unknown = bytes;
  unknown[14] = 'z';
  FixChecksum(unknown);
  EXPECT_EQ(ReadError(unknown), "graph bytes: unknown op 'znput', did you mean 'input'?");
  std::string newer = bytes;
  newer[19] = 7;
  FixChecksum(newer);
  EXPECT_EQ(ReadError(newer), "graph bytes: op 'input' has version 7, this library knows 1");
}

/// The bytes of a graph whose op was saved at another version.
std::string AtVersion(const OpDef& op, char version) {
  Graph graph;
  GraphValue x = graph.AddInput(Shape(DType::kF32, {2}));
  graph.AddOutput({graph.AddNode(op, {x}, {Attr(50.0)}), 0});
  std::string bytes = Serialize(graph), name = op.name();
  bytes[bytes.find(name) + name.size()] = version;
  FixChecksum(bytes);
  return bytes;
}

TEST(DeserializeGraph, UpgradesNodesOfOlderVersions) {
  EXPECT_EQ(DeserializeGraph(AtVersion(kScaled, 2))[NodeId(1)].attrs[0].scalar().ToDouble(), 50);
  EXPECT_EQ(DeserializeGraph(AtVersion(kScaled, 1))[NodeId(1)].attrs[0].scalar().ToDouble(), 0.5);
  EXPECT_EQ(ReadError(AtVersion(kScaled, 3)),
            "graph bytes: op 'test::scaled' has version 3, this library knows 2");
  EXPECT_EQ(ReadError(AtVersion(kNotUpgraded, 1)),
            "graph bytes: op 'test::without_upgrade' has version 1, this library has 2 and "
            "cannot upgrade it");
}

// Returns whether the bytes still made a graph; anything but a clear error fails the test.
bool Survives(const std::string& bytes) {
  try {
    Graph graph = DeserializeGraph(bytes);
    Verify(graph);
    EXPECT_EQ(ParseGraph(ToText(graph)), graph) << ToText(graph);
    return true;
  } catch (const ValueError& error) {
    EXPECT_EQ(error.code(), ErrorCode::kParse) << error.what();
    return false;
  }
}

TEST(DeserializeGraph, SurvivesDamagedBytes) {
  const std::string bytes = Serialize(GraphOfAllForms());
  std::mt19937 random(7);
  int read = 0;
  for (int i = 0; i < 20000 && !testing::Test::HasFailure(); ++i) {
    std::string damaged = bytes;
    for (int flips = 1 + static_cast<int>(random() % 3); flips > 0; --flips) {
      size_t at = random() % damaged.size();
      damaged[at] =
          static_cast<char>(random() % 4 == 0 ? random() : damaged[at] ^ 1 << random() % 8);
    }
    if (random() % 8 == 0) damaged.resize(random() % damaged.size());
    if (random() % 8 != 0) FixChecksum(damaged);
    if (Survives(damaged)) ++read;
  }
  EXPECT_GT(read, 100);  // the damage reaches the reader proper
}

// Inference of every record meets attributes that no front end would give it.
TEST(DeserializeGraph, SurvivesDamagedBytesOfEveryRecord) {
  std::mt19937 random(11);
  int read = 0;
  for (const auto& [op, sample] : AllSamples()) {
    const std::string bytes = Serialize(GraphOfSample(*op, sample));
    for (int i = 0; i < 200 && !testing::Test::HasFailure(); ++i) {
      std::string damaged = bytes;
      size_t names = 20;  // leave the op table as it is
      damaged[names + random() % (damaged.size() - names - 8)] ^=
          static_cast<char>(1 << random() % 8);
      FixChecksum(damaged);
      if (Survives(damaged)) ++read;
    }
  }
  EXPECT_GT(read, 100);
}

TEST(DeserializeGraph, SurvivesEveryTruncation) {
  const std::string bytes = Serialize(GraphOfAllForms());
  for (size_t size = 0; size < bytes.size(); ++size) {
    std::string shorter = bytes.substr(0, size);
    EXPECT_FALSE(Survives(shorter));
    FixChecksum(shorter);
    EXPECT_FALSE(Survives(shorter)) << size;
  }
}

}  // namespace
}  // namespace hammock
