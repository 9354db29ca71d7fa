// What holds for every record, in-tree or not.

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string>

#include "hammock/ir/graph.h"
#include "ir/graph_access.h"
#include "ir/schema_access.h"
#include "sample_graph.h"

namespace hammock {
namespace {

using Base = SchemaType::Base;

std::shared_ptr<const Graph> Body(const char* text) {
  return std::make_shared<const Graph>(ParseGraph(text));
}

std::vector<Attr> ListValues(const SchemaType& type) {
  auto length = static_cast<size_t>(std::max(type.fixed_length, 2));
  if (type.base == Base::kFloat) {
    std::vector<double> values(length, 0.5), other(length, 0.5);
    other.back() = -0.0;
    return {Attr(values), Attr(other), Attr(std::vector<double>{})};
  }
  if (type.base == Base::kString) {
    std::vector<std::string> values(length, "a"), other(length, "a");
    other.back() = "b";
    return {Attr(values), Attr(other), Attr(std::vector<std::string>{})};
  }
  std::vector<int64_t> values(length, 1), other(length, 1);
  other.back() = 0;
  return {Attr(values), Attr(other), Attr(std::vector<int64_t>{})};
}

// Different values that an argument of this type can have.
std::vector<Attr> ValuesOf(const SchemaType& type) {
  std::vector<Attr> values;
  if (type.list) {
    values = ListValues(type);
  } else {
    switch (type.base) {
      case Base::kInt:
        values = {Attr(1), Attr(2), Attr(std::numeric_limits<int64_t>::min())};
        break;
      case Base::kFloat:
        values = {Attr(0.0), Attr(-0.0), Attr(std::numeric_limits<double>::quiet_NaN())};
        break;
      case Base::kBool:
        values = {Attr(false), Attr(true)};
        break;
      case Base::kScalar:
        values = {Attr(1), Attr(1.0), Attr(true), Attr(Scalar(1.0).To(f32))};
        break;
      case Base::kString:
      case Base::kDevice:
        values = {Attr("a"), Attr("b"), Attr("")};
        break;
      case Base::kDType:
        values = {Attr(f32), Attr(i64)};
        break;
      case Base::kGraph:
        values = {Attr(Body("return")), Attr(Body("%0 = input : f32[]\nreturn %0")),
                  Attr(Body("%0 = input : f32[]\nreturn"))};
        break;
      case Base::kTensor:
      case Base::kGenerator:
      case Base::kDict:
      case Base::kTuple:
      case Base::kObject:
      case Base::kNested:
      case Base::kAny:
      case Base::kNone:
        break;
    }
  }
  if (type.optional) values.emplace_back();
  return values;
}

const SchemaType& AttributeType(const OpInfo& info, size_t index) {
  return info.schema.arguments()[info.attribute_args[index]].type;
}

// A graph of one node of `op`; types and operands are made up.
Graph GraphOf(const OpDef& op, const std::vector<Attr>& attrs) {
  const OpInfo& info = op.info();
  Graph graph;
  GraphValue x = graph.AddInput(Shape(f32, {2}));
  GraphNode node;
  node.op = &op;
  node.inputs = std::vector(info.operand_args.size(), x);
  node.attrs = attrs;
  const bool variadic = info.schema.variadic_returns();
  node.types = std::vector(variadic ? 2 : static_cast<size_t>(op.num_outputs), Shape(f32, {2}));
  graph.Append(std::move(node));
  return graph;
}

std::vector<uint64_t> AttrBytes(const Graph& graph) {
  std::vector<uint64_t> bytes;
  for (const Attr& attr : graph[NodeId(1)].attrs) attr.AppendBytes(bytes);
  return bytes;
}

void ExpectDifferent(const Graph& a, const Graph& b, const std::string& what) {
  EXPECT_FALSE(a == b) << what;
  EXPECT_NE(a.hash(), b.hash()) << what;
  EXPECT_NE(ToText(a), ToText(b)) << what;
  EXPECT_NE(Serialize(a), Serialize(b)) << what;
  EXPECT_NE(AttrBytes(a), AttrBytes(b)) << what;
}

TEST(EveryRecord, EveryArgumentIsAnOperandOrAnAttribute) {
  for (const OpDef* op : op_registry::All()) {
    const OpInfo& info = op->info();
    std::set<int> arguments(info.operand_args.begin(), info.operand_args.end());
    arguments.insert(info.attribute_args.begin(), info.attribute_args.end());
    EXPECT_EQ(arguments.size(), info.schema.arguments().size()) << info.name;
    EXPECT_EQ(info.operand_args.size() + info.attribute_args.size(), arguments.size()) << info.name;
  }
}

TEST(EveryRecord, EveryAttributeIsInHashEqualityTextAndBytes) {
  int checked = 0;
  for (const OpDef* op : op_registry::All()) {
    if (!op->IsNode()) continue;
    const OpInfo& info = op->info();
    std::vector<Attr> attrs;
    for (size_t i = 0; i < info.attribute_args.size(); ++i) {
      attrs.push_back(ValuesOf(AttributeType(info, i)).at(0));
    }
    Graph original = GraphOf(*op, attrs);
    EXPECT_EQ(ParseGraphUnverified(ToText(original)), original) << info.name;
    for (size_t i = 0; i < attrs.size(); ++i) {
      std::vector<Attr> values = ValuesOf(AttributeType(info, i));
      ASSERT_GE(values.size(), 2u) << info.name << " " << info.AttributeName(static_cast<int>(i));
      for (size_t v = 1; v < values.size(); ++v) {
        EXPECT_TRUE(AttrFits(AttributeType(info, i), values[v]));
        std::vector<Attr> changed = attrs;
        changed[i] = values[v];
        Graph other = GraphOf(*op, changed);
        ExpectDifferent(original, other, info.name + " " + info.AttributeName(static_cast<int>(i)));
        EXPECT_EQ(ParseGraphUnverified(ToText(other)), other) << ToText(other);
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 100);
}

TEST(EveryRecord, SamplesVerifyAndRoundTrip) {
  for (const auto& [op, sample] : AllSamples()) {
    Graph graph = GraphOfSample(*op, sample);
    Verify(graph);
    EXPECT_EQ(ParseGraph(ToText(graph)), graph) << ToText(graph);
    EXPECT_EQ(DeserializeGraph(Serialize(graph)), graph) << ToText(graph);
  }
  EXPECT_GT(AllSamples().size(), 50u);
}

TEST(EveryRecord, SchemaPrintsAndParsesBack) {
  for (const OpDef* op : op_registry::All()) {
    std::string text = op->info().schema.to_string();
    EXPECT_EQ(FunctionSchema::Parse(text).to_string(), text);
  }
}

}  // namespace
}  // namespace hammock
