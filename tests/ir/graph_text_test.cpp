#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>

#include "expect_error.h"
#include "expect_graph.h"
#include "hammock/ir/graph.h"
#include "test_records.h"

namespace hammock {
namespace {

// Prints as given, parses to an equal graph, and survives the binary form.
void ExpectRoundTrip(const std::string& text) {
  Graph graph = ParseGraph(text);
  EXPECT_EQ(ToText(graph), text);
  Graph again = DeserializeGraph(Serialize(graph));
  EXPECT_EQ(again, graph);
  EXPECT_EQ(again.hash(), graph.hash());
  EXPECT_EQ(ToText(again), text);
}

TEST(GraphText, RoundTripsTheExample) {
  ExpectRoundTrip(
      "graph(n=16)\n"
      "%0 = input : f32[n,4]\n"
      "%1 = constant {value=2.5, dtype=f32} : f32[]\n"
      "%2 = mul %0, %1 : f32[n,4]\n"
      "%3:2 = sort %2 {dim=1, descending=false, stable=false} : f32[n,4], i64[n,4]\n"
      "return %2, %3.1\n");
}

TEST(GraphText, RoundTripsConstantsOfEveryKind) {
  ExpectRoundTrip(
      "%0 = constant {value=2.0, dtype=f32} : f32[]\n"
      "%1 = constant {value=3, dtype=i8} : i8[]\n"
      "%2 = constant {value=true, dtype=bool} : bool[]\n"
      "%3 = constant {value=-0.0, dtype=f64} : f64[]\n"
      "%4 = constant {value=inf, dtype=f16} : f16[]\n"
      "%5 = constant {value=-inf, dtype=bf16} : bf16[]\n"
      "%6 = constant {value=nan, dtype=f64} : f64[]\n"
      "%7 = constant {value=nan(0xfff8000000000001), dtype=f64} : f64[]\n"
      "%8 = constant {value=0.1:f32, dtype=f32} : f32[]\n"
      "%9 = constant {value=18446744073709551615:u64, dtype=u64} : u64[]\n"
      "%10 = constant {value=1e-320, dtype=f64} : f64[]\n"
      "%11 = constant {value=-9223372036854775808, dtype=i64} : i64[]\n"
      "%12 = constant {value=nan:f32, dtype=f32} : f32[]\n"
      "return %12\n");
}

TEST(GraphText, RoundTripsNestedGraphs) {
  ExpectRoundTrip(
      "%0 = input : bool[]\n"
      "%1 = input : f32[2]\n"
      "%2 = cond %0, %1 {then=graph {\n"
      "  %0 = input : f32[2]\n"
      "  %1:2 = while %0, %0 {condition=graph {\n"
      "    %0 = input : f32[2]\n"
      "    %1 = input : f32[2]\n"
      "    %2 = constant {value=true, dtype=bool} : bool[]\n"
      "    return %2\n"
      "  }, body=graph(k=2) {\n"
      "    %0 = input : f32[k]\n"
      "    %1 = input : f32[2]\n"
      "    return %1, %0\n"
      "  }} : f32[2], f32[2]\n"
      "  return %1.1\n"
      "}, otherwise=graph {\n"
      "  %0 = input : f32[2]\n"
      "  return %0\n"
      "}} : f32[2]\n"
      "return %2\n");
}

TEST(GraphText, RoundTripsDimExpressions) {
  ExpectRoundTrip(
      "graph(n=4, batch=3)\n"
      "%0 = input : f32[4*n,batch]\n"
      "%1 = reshape %0 {sizes=[n,4*batch]} : f32[n,4*batch]\n"
      "%2 = input : f32[2*n-1,n+2*batch+1,-n+10]\n"
      "%3 = iota {size=n+1, dtype=i64} : i64[n+1]\n"
      "return %1, %2, %3\n");
}

TEST(GraphText, RoundTripsEveryKindOfAttribute) {
  ExpectRoundTrip(
      "%0 = input : f32[2]\n"
      "%1 = test::every_kind.node %0, none, %0, none, %0 {a=-1, b=1e+300, c=false, "
      "d=\"a\\\"\\\\\\n\\x00\\xff\", e=bf16, f=[], g=floats[], h=strings[], i=[1,0], "
      "j=graph {\n"
      "  return\n"
      "}, k=2.5:f32, l=none, m=none, n=none, o=[1,1], p=none, q=none} : f32[2]\n"
      "%2 = test::every_kind.node %1, %0, %0 {a=0, b=0.0, c=true, d=\"\", e=f32, f=[1,-2], "
      "g=[1.0,nan,-inf], h=[\"\",\"x,]\"], i=[], j=graph {\n"
      "  %0 = input : f32[]\n"
      "  return %0, %0\n"
      "}, k=true, l=3, m=i64, n=\"cpu:0\", o=[2,3], p=graph {\n"
      "  return\n"
      "}, q=[0.5]} : f32[2]\n"
      "return %2\n");
}

TEST(GraphText, PrintsNodesWithoutOutputs) {
  ExpectRoundTrip(
      "%0 = input : f32[2]\n"
      "%1:0 = custom_call %0 {target=\"t\", payload=\"\", types=strings[]} : ()\n"
      "%2 = custom_call {target=\"t\", payload=\"\", types=[\"f32[]\"]} : f32[]\n"
      "return\n");
  ExpectRoundTrip("return\n");
}

TEST(GraphText, ReadsFreelyFormattedText) {
  Graph graph = ParseGraph(R"(
    # a comment
    %7 = input:f32[ 2, 3 ]   # sizes
    %9 =
      reduce_sum %7 {keepdim=true, dims=[0]} : f32[1,3]
    return %9)");
  EXPECT_EQ(ToText(graph),
            "%0 = input : f32[2,3]\n"
            "%1 = reduce_sum %0 {dims=[0], keepdim=true} : f32[1,3]\n"
            "return %1\n");
}

TEST(GraphText, FillsDefaultsAndTakesWholeNumbersForFloats) {
  Graph graph = ParseGraph(R"(
    %0 = input : f32[2]
    %1 = test::every_kind.node %0, none, %0 {a=1, b=2, c=true, d="", e=f32, f=[], g=[1,2], h=[],
      i=[], j=graph { return }, k=1} : f32[2]
    return %1)");
  EXPECT_EQ(graph[NodeId(1)].attr("b"), Attr(2.0));
  EXPECT_EQ(graph[NodeId(1)].attr("g"), Attr(std::vector<double>{1, 2}));
  EXPECT_EQ(graph[NodeId(1)].attr("h"), Attr(std::vector<std::string>{}));
  EXPECT_EQ(graph[NodeId(1)].attr("o"), Attr(Dims{1, 1}));
  EXPECT_TRUE(graph[NodeId(1)].attr("m").IsNone());
}

TEST(GraphText, KeepsLocationsOnRequest) {
  std::string text =
      "%0 = input : f32[2]  @ my model.cpp:12\n"
      "return %0\n";
  Graph graph = ParseGraph(text);
  EXPECT_EQ(ToText(graph, {.locations = true}), text);
  EXPECT_EQ(ToText(DeserializeGraph(Serialize(graph)), {.locations = true}), text);
  EXPECT_EQ(ToText(graph), "%0 = input : f32[2]\nreturn %0\n");
  EXPECT_EQ(graph, ParseGraph(ToText(graph)));

  graph.mutable_node(NodeId(0)).location = InternLocationText("odd\nname.cpp:1");
  EXPECT_EQ(ToText(graph, {.locations = true}),
            "%0 = input : f32[2]  @ odd name.cpp:1\nreturn %0\n");
}

std::string ParseError(const char* text) {
  return MessageOf<ValueError>([&] { ParseGraph(text); });
}

TEST(GraphText, RefusesGraphsThatVerifyWouldRefuse) {
  EXPECT_EQ(ParseError("%0 = input : f32[2]\n%1 = neg %0 : f32[3]\nreturn %1"),
            "graph text: line 2, column 1: neg: its types are f32[3], inference gives f32[2]");
  EXPECT_EQ(ParseError("%7 = input : f32[2]\n\n  %5 = add %7 : f32[2]\nreturn %5"),
            "graph text: line 3, column 3: add: it has 1 operands, its schema 2");
  EXPECT_EQ(ParseError("%0 = input : f32[2]\n%1 = neg none : f32[2]\nreturn %1"),
            "graph text: line 2, column 1: neg: operand 0 ('self') is absent, but not optional");
  EXPECT_EQ(ParseError("%0 = input : f32[2]\n%1 = loop %0 {body=graph {\n"
                       "%0 = input : i64[]\n%1 = input : f32[2]\n%2 = exp %1 : f32[7]\n"
                       "return %2\n}, count=4, num_carried=1, num_stacked_in=0} : f32[2]\n"
                       "return %1"),
            "graph text: line 5, column 1: exp: its types are f32[7], inference gives f32[2]");
}

TEST(ParseGraph, ErrorsNameLineAndColumn) {
  EXPECT_EQ(ParseError("%0 = input : f32[2]\n%1 = negg %0 : f32[2]\nreturn %1"),
            "graph text: line 2, column 6: unknown op 'negg', did you mean 'neg'?");
  EXPECT_EQ(ParseError("%0 = input : f32[2]\n  %1 = neg %3 : f32[2]\nreturn %1"),
            "graph text: line 2, column 12: %3 is not defined before this use");
  EXPECT_EQ(ParseError("%0 = input : f32[2]\n%0 = input : f32[2]\nreturn"),
            "graph text: line 2, column 1: %0 is defined twice");
  EXPECT_EQ(ParseError("%0 = input : f32[2]\nreturn %0.1"),
            "graph text: line 2, column 8: %0 has 1 outputs, no output 1");
  EXPECT_EQ(ParseError("%0 = input : f33[2]\nreturn"),
            "graph text: line 1, column 14: unknown dtype 'f33'");
  EXPECT_EQ(ParseError("%0 = input : f32[n]\nreturn"),
            "graph text: line 1, column 18: unknown dim parameter 'n'");
  EXPECT_EQ(ParseError("%0 = input : f32[2\nreturn"),
            "graph text: line 2, column 1: expected ']', got 'r'");
  EXPECT_EQ(ParseError("%0 = input : f32[2]"),
            "graph text: line 1, column 20: expected a node '%0 = ...' or 'return'");
  EXPECT_EQ(ParseError("return 5"),
            "graph text: line 1, column 8: unexpected text after the return");
  EXPECT_EQ(ParseError("%0 = input : f32[-2]\nreturn"),
            "graph text: line 1, column 14: type: sizes must not be negative: [-2]");
  EXPECT_EQ(ParseError("%0 = input : f32[1,1,1,1,1,1,1,1,1]\nreturn"),
            "graph text: line 1, column 14: more than 8 dims");
  EXPECT_EQ(ParseError("%0:2 = input : f32[1]\nreturn"),
            "graph text: line 1, column 1: %0 has 1 types, but says 2 outputs");
  EXPECT_EQ(ParseError("%0 = input : f32[99999999999999999999]\nreturn"),
            "graph text: line 1, column 18: the number does not fit 64 bits");
}

TEST(ParseGraph, AttributeErrorsNameLineAndColumn) {
  auto error = [](const char* attrs) {
    std::string text =
        "%0 = input : f32[2]\n%1:2 = sort %0 " + std::string(attrs) + " : f32[2], i64[2]\nreturn";
    return ParseError(text.c_str());
  };
  EXPECT_EQ(error("{dmi=0, descending=false, stable=true}"),
            "graph text: line 2, column 17: sort has no attribute 'dmi', did you mean 'dim'?");
  EXPECT_EQ(error("{dim=f32, descending=false, stable=true}"),
            "graph text: line 2, column 21: attribute 'dim' of sort must be int, got f32");
  EXPECT_EQ(error("{dim=0, dim=0, descending=false, stable=true}"),
            "graph text: line 2, column 24: attribute 'dim' is given twice");
  EXPECT_EQ(error("{dim=0.5, descending=false, stable=true}"),
            "graph text: line 2, column 21: attribute 'dim' of sort must be int, got 0.5");
  EXPECT_EQ(error("{dim=9999999999999999999, descending=false, stable=true}"),
            "graph text: line 2, column 21: '9999999999999999999' is no i64 number");
  EXPECT_EQ(error("{dim=1:f99}"), "graph text: line 2, column 21: unknown dtype 'f99'");
  EXPECT_EQ(error("{dim=\"x"), "graph text: line 2, column 21: a string that does not end");
  EXPECT_EQ(ParseError("graph(f32=3)\nreturn"),
            "graph text: line 1, column 7: 'f32' cannot name a dim parameter");
  EXPECT_EQ(ParseError("graph(n=3, n=3)\nreturn"),
            "graph text: line 1, column 12: dim parameter 'n' is given twice");
}

TEST(ParseGraph, RefusesDeepNesting) {
  std::string text;
  for (int i = 0; i < 10000; ++i) text += "%0 = while {condition=graph {";
  EXPECT_EQ(ParseError(text.c_str()),
            "graph text: line 1, column 1885: graphs are nested deeper than 64");
}

// Whatever is done to the text, the reader returns a verified graph or says what is wrong.
TEST(ParseGraph, SurvivesDamagedText) {
  const std::string text =
      "graph(n=16)\n"
      "%0 = input : f32[n,4]\n"
      "%1 = constant {value=2.5:f32, dtype=f32} : f32[]\n"
      "%2:2 = while %0, %1 {condition=graph {\n"
      "  %0 = input : f32[16,4]\n"
      "  %1 = input : f32[]\n"
      "  %2 = constant {value=true, dtype=bool} : bool[]\n"
      "  return %2\n"
      "}, body=graph {\n"
      "  %0 = input : f32[16,4]\n"
      "  %1 = input : f32[]\n"
      "  return %0, %1\n"
      "}} : f32[4*n-48,4], f32[]\n"
      "%3 = custom_call %2.1, %2.0 {target=\"a\\x00\", payload=\"\", types=[\"f32[]\"]} : f32[] @ "
      "a:1\n"
      "return %2, %3\n";
  ASSERT_EQ(ParseError(text.c_str()), "no error");
  std::mt19937 random(1);
  int parsed = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string damaged = text;
    for (int flips = 1 + static_cast<int>(random() % 3); flips > 0; --flips) {
      size_t at = random() % damaged.size();
      switch (random() % 3) {
        case 0:
          damaged[at] = text[random() % text.size()];
          break;
        case 1:
          damaged.erase(at, 1 + random() % 4);
          break;
        default:
          damaged.insert(at, 1, static_cast<char>(random()));
      }
    }
    try {
      Graph graph = ParseGraph(damaged);
      Verify(graph);
      EXPECT_EQ(ParseGraph(ToText(graph)), graph);
      ++parsed;
    } catch (const ValueError& error) {
      ASSERT_EQ(error.code(), ErrorCode::kParse) << error.what();
    }
  }
  EXPECT_GT(parsed, 100);
}

}  // namespace
}  // namespace hammock
