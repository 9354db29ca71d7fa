#include "plugins/graph_bytes.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "hammock/hammock.h"
#include "hammock/plugin_graph.h"
#include "ir/primitives.h"
#include "ir/sample_graph.h"

namespace hammock::plugins {
namespace {

TEST(GraphBytes, KeepTheGraphsOfAllSamples) {
  size_t graphs = 0;
  for (const auto& [op, sample] : AllSamples()) {
    const Graph graph = GraphOfSample(*op, sample);
    EXPECT_EQ(ToText(ReadGraph(GraphBytes(graph).get())), ToText(graph)) << op->name();
    ++graphs;
  }
  EXPECT_GT(graphs, 250u);
}

TEST(GraphBytes, KeepDimParametersBodiesAndLocations) {
  const Graph graph = GraphOfAllForms();
  const Graph read = ReadGraph(GraphBytes(graph).get());
  EXPECT_TRUE(read == graph);
  EXPECT_EQ(ToText(read, {.locations = true}), ToText(graph, {.locations = true}));
}

TEST(GraphBytes, AreReadByName) {
  const GraphBytes bytes(ParseGraph(R"(
    %0 = input : f32[2,3]
    %1 = constant {value=2.5, dtype=f32} : f32[]
    %2:2 = sort %0 {dim=1, descending=true, stable=false} : f32[2,3], i64[2,3]
    return %2.1, %1)"));
  HammockGraph graph;
  ASSERT_TRUE(hammock_graph_open(bytes.get(), &graph));
  ASSERT_EQ(hammock_node_count(&graph), 3u);
  EXPECT_EQ(hammock_input_count(&graph), 1u);
  EXPECT_EQ(hammock_input(&graph, 0), 0);
  HammockNode constant = hammock_node(&graph, 1);
  EXPECT_STREQ(constant.op, "constant");
  EXPECT_EQ(hammock_attr(&constant, "value").real, 2.5);
  EXPECT_EQ(hammock_attr(&constant, "dtype").dtype, static_cast<uint32_t>(HAMMOCK_F32));
  HammockNode sort = hammock_node(&graph, 2);
  EXPECT_EQ(hammock_attr(&sort, "dim").integer, 1);
  EXPECT_EQ(hammock_attr(&sort, "descending").integer, 1);
  EXPECT_EQ(hammock_attr(&sort, "no such").name, nullptr);
  EXPECT_EQ(hammock_operand(&sort, 0).node, 0);
  HammockShape type = hammock_type(&graph, hammock_output(&graph, 0));
  EXPECT_EQ(type.dtype, static_cast<uint32_t>(HAMMOCK_I64));
  ASSERT_EQ(type.rank, 2u);
  EXPECT_EQ(type.sizes[1], 3);
  EXPECT_EQ(hammock_shape_bytes(&type), 48u);
}

TEST(GraphBytes, HaveScalarsOfEveryDType) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    SCOPED_TRACE(NameOf(dtype));
    EXPECT_EQ(hammock_element_bits(static_cast<uint32_t>(i)),
              static_cast<uint64_t>(InfoOf(dtype).bits));
    EXPECT_EQ(hammock_is_float(static_cast<uint32_t>(i)) != 0, IsFloatOrComplex(dtype));
    Graph made;
    made.SetOutputs(
        {{made.AddNode(ops::kConstant, {}, {Attr(Scalar(1).To(dtype)), Attr(dtype)}), 0}});
    const GraphBytes bytes(made);
    HammockGraph graph;
    ASSERT_TRUE(hammock_graph_open(bytes.get(), &graph));
    const HammockNode constant = hammock_node(&graph, 0);
    EXPECT_EQ(hammock_attr(&constant, "value").real, 1.0);
    EXPECT_EQ(hammock_attr(&constant, "value").integer, 1);
  }
  EXPECT_EQ(hammock_element_bits(kNumDTypes), 0u);
  EXPECT_EQ(hammock_element_size(HAMMOCK_I4), 0u);
  const int64_t sizes[] = {3, 6};
  const HammockShape packed = {HAMMOCK_U4, 2, sizes};
  EXPECT_EQ(hammock_shape_bytes(&packed), 9u);
}

/// Opens bytes and, where they pass, reads everything: no read leaves them.
void Visit(const HammockGraph& graph, int depth = 0) {
  for (uint32_t i = 0; i < hammock_node_count(&graph); ++i) {
    HammockNode node = hammock_node(&graph, i);
    ASSERT_NE(std::strlen(node.op), SIZE_MAX);
    for (uint32_t k = 0; k < node.record->value_count; ++k) {
      HammockValue value = hammock_operand(&node, k);
      if (value.node >= 0) hammock_type(&graph, value);
    }
    for (uint32_t k = 0; k < node.record->attr_count; ++k) {
      HammockAttr attr = hammock_attr_at(&node, k);
      volatile int64_t sum = 0;
      for (uint64_t j = 0; attr.ints && j < attr.count; ++j) sum = sum + attr.ints[j];
      for (uint64_t j = 0; attr.kind == HAMMOCK_ATTR_TEXTS && j < attr.count; ++j) {
        sum = sum + static_cast<int64_t>(std::strlen(hammock_attr_text(&node, k, j)));
      }
      if (attr.kind == HAMMOCK_ATTR_GRAPH && depth < 8) Visit(attr.body, depth + 1);
    }
  }
}

TEST(GraphBytes, DamagedOnesAreRefusedOrHarmless) {
  const GraphBytes whole(GraphOfAllForms());
  const HammockBytes bytes = whole.get();
  std::mt19937 random(7);
  int refused = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    // Exactly as large as said, so that sanitizers see reads outside.
    const uint64_t size = trial % 4 == 0 ? random() % bytes.size : bytes.size;
    auto copy = std::make_unique<uint64_t[]>(size / 8 + 1);
    std::memcpy(copy.get(), bytes.bytes, size);
    auto* damaged = reinterpret_cast<unsigned char*>(copy.get());
    for (uint32_t k = random() % 3; k > 0 && size > 0; --k) {
      damaged[random() % size] = static_cast<unsigned char>(random());
    }
    HammockGraph graph;
    if (hammock_graph_open({copy.get(), size}, &graph)) {
      Visit(graph);
    } else {
      ++refused;
    }
  }
  EXPECT_GT(refused, 5000);
}

}  // namespace
}  // namespace hammock::plugins
