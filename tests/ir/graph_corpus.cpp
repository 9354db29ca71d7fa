// Writes the inputs that the fuzz targets of graphs start from: graph_corpus FOLDER

#include <filesystem>
#include <fstream>

#include "sample_graph.h"

namespace {

using namespace hammock;

/// Dim parameters, several outputs, a nested graph, text and number attributes, absent operands.
constexpr char kAll[] = R"(graph(n=4)
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
%6 = concat %0, %2 {dim=0} : f32[2*n,4]
%7 = slice %6 {dim=0, start=1, size=2, step=3} : f32[2,4]
%8:2 = custom_call %7 {target="f", payload="\x00\xff", types=["f32[2]", "i8[]"]} : f32[2], i8[]
return %5.1, %8)";

void Write(const std::filesystem::path& folder, int number, const Graph& graph) {
  const std::string name = std::to_string(number);
  std::ofstream(folder / "text" / name) << ToText(graph);
  const std::string bytes = Serialize(graph);
  std::ofstream(folder / "bytes" / name, std::ios::binary) << bytes.substr(12, bytes.size() - 20);
}

}  // namespace

int main(int, char** argv) {
  const std::filesystem::path folder = argv[1];
  for (const char* form : {"text", "bytes"}) std::filesystem::create_directories(folder / form);
  int number = 0;
  Write(folder, number++, ParseGraph(kAll));
  for (const auto& [op, sample] : AllSamples()) Write(folder, number++, GraphOfSample(*op, sample));
}
