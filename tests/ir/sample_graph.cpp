#include "sample_graph.h"

namespace hammock {

std::vector<std::pair<const OpDef*, SampleCall>> AllSamples() {
  std::vector<std::pair<const OpDef*, SampleCall>> all;
  for (const OpDef* op : op_registry::All()) {
    if (!op->IsNode()) continue;
    for (SampleCall& sample : SampleCalls(*op)) all.emplace_back(op, std::move(sample));
  }
  return all;
}

Graph GraphOfAllForms() {
  return ParseGraph(R"(graph(n=4)
    %0 = input : f32[n,4]  @ model.cpp:12
    %1 = constant {value=2.5, dtype=f32} : f32[]
    %2 = mul %0, %1 : f32[n,4]
    %3:2 = sort %2 {dim=1, descending=false, stable=false} : f32[n,4], i64[n,4]
    %4 = reshape %3 {sizes=[4*n]} : f32[4*n]
    %5:2 = loop %4, %0 {body=graph {
      %0 = input : i64[]
      %1 = input : f32[16]
      %2 = input : f32[4]
      %3 = reduce_sum %1 {dims=[0], keepdim=false} : f32[]
      return %1, %3
    }, count=4, num_carried=1, num_stacked_in=1} : f32[16], f32[4]
    %6 = dot_general %0, %2 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[n,n]
    %7 = concat %0, %2, %6 {dim=0} : f32[3*n,4]
    %8 = slice %7 {dim=0, start=1, size=2, step=3} : f32[2,4]
    %9 = gather %0, %3.1 {dim=1} : f32[n,4]
    %10:2 = custom_call %8, %9 {target="f", payload="\x00\xff", types=["f32[2]", "i8[]"]} : f32[2], i8[]
    return %5.1, %7, %10)");
}

}  // namespace hammock
