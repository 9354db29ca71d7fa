#include <gtest/gtest.h>
#include "hammock/ir/graph.h"
using namespace hammock;
TEST(Smoke, RoundTrip) {
  Graph g = ParseGraph(R"(graph(n=16)
%0 = input : f32[n,4]
%1 = constant {value=2.5, dtype=f32} : f32[]
%2 = mul %0, %1 : f32[n,4]  @ model.cpp:12
%3:2 = sort %2 {dim=1, descending=false, stable=false} : f32[n,4], i64[n,4]
return %2, %3.1
)");
  Verify(g);
  std::string t = ToText(g, {.locations = true});
  puts(t.c_str());
  EXPECT_EQ(ParseGraph(t), g);
  EXPECT_EQ(DeserializeGraph(Serialize(g)), g);
}
