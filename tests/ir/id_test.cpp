#include "hammock/ir/id.h"

#include <gtest/gtest.h>

#include <sstream>
#include <type_traits>
#include <vector>

#include "base/record_bytes.h"
#include "hammock/ir/graph.h"
#include "ir/id_format.h"

namespace hammock {
namespace {

using OtherId = Id<struct Other>;

template <class A, class B>
concept Comparable = requires(A a, B b) {
  a == b;
};
template <class Map, class Key>
concept Indexed = requires(Map map, Key key) {
  map[key];
};

// Ids do not mix with other ids, nor with integers.
static_assert(!std::is_convertible_v<int, NodeId> && !std::is_convertible_v<NodeId, int>);
static_assert(!std::is_convertible_v<NodeId, bool>);
static_assert(!std::is_constructible_v<NodeId, OtherId> && !std::is_constructible_v<int, NodeId>);
static_assert(Comparable<NodeId, NodeId> && !Comparable<NodeId, OtherId>);
static_assert(!Comparable<NodeId, int>);
static_assert(Indexed<NodeMap<int>, NodeId> && !Indexed<NodeMap<int>, OtherId>);
static_assert(!Indexed<NodeMap<int>, int> && !Indexed<std::vector<int>, NodeId>);
static_assert(Indexed<const Graph&, NodeId> && !Indexed<const Graph&, int>);
// They cost what their numbers do.
static_assert(sizeof(NodeId) == sizeof(int32_t) && std::is_trivially_copyable_v<NodeId>);
static_assert(sizeof(GraphValue) == 2 * sizeof(int32_t));

template <class... Members>
std::string BytesOf(const Members&... members) {
  RecordWriter writer;
  writer(members...);
  return writer.Take();
}

TEST(Id, IsNoneUnlessItHasANumber) {
  EXPECT_FALSE(NodeId());
  EXPECT_EQ(NodeId().number(), -1);
  EXPECT_TRUE(NodeId(0));
  EXPECT_LT(NodeId(), NodeId(0));
  EXPECT_EQ(NodeId(3) + 2, NodeId(5));
  EXPECT_EQ(NodeId(5) - NodeId(3), 2);
  NodeId id(size_t{7});
  EXPECT_EQ((++id).number(), 8);
}

TEST(Id, PrintsItsNumber) {
  std::ostringstream text;
  text << NodeId(12);
  EXPECT_EQ(text.str(), "12");
  EXPECT_EQ(fmt::format("%{}", NodeId(12)), "%12");
}

TEST(Id, IsSavedAsItsNumber) {
  EXPECT_EQ(BytesOf(NodeId(300), NodeId()), BytesOf(300, -1));
  EXPECT_EQ(BytesOf(NodeMap<int>{4, 5}), BytesOf(std::vector<int>{4, 5}));
  EXPECT_EQ(BytesOf(std::vector{NodeId(1)}), BytesOf(std::vector<int32_t>{1}));
  NodeMap<OtherId> read;
  const std::string bytes = BytesOf(NodeMap<OtherId>{OtherId(6), OtherId()});
  RecordReader reader("ids", bytes);
  reader(read);
  EXPECT_EQ(read, (NodeMap<OtherId>{OtherId(6), OtherId()}));
}

TEST(IdMap, GivesEachIdAValue) {
  NodeMap<bool> needed(3);
  needed[NodeId(1)] = true;
  EXPECT_EQ(needed.values(), (std::vector<bool>{false, true, false}));
  NodeMap<int> uses(2, 7);
  ++uses[NodeId(0)];
  uses.push_back(1);
  EXPECT_EQ(uses, (NodeMap<int>{8, 7, 1}));
  EXPECT_TRUE(uses.contains(NodeId(2)));
  EXPECT_FALSE(uses.contains(NodeId(3)));
  EXPECT_FALSE(uses.contains(NodeId()));
}

TEST(IdMap, ListsItsIdsBothWays) {
  const NodeMap<int> map(3);
  std::vector<NodeId> up, down;
  for (NodeId id : map.ids()) up.push_back(id);
  for (NodeId id : map.ids().reversed()) down.push_back(id);
  EXPECT_EQ(up, (std::vector{NodeId(0), NodeId(1), NodeId(2)}));
  EXPECT_EQ(down, (std::vector{NodeId(2), NodeId(1), NodeId(0)}));
  for (NodeId id : NodeMap<int>().ids().reversed()) FAIL() << id;
}

}  // namespace
}  // namespace hammock
