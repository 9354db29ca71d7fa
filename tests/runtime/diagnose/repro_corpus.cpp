// Writes the inputs that repro-fuzz starts from: repro_corpus FOLDER

#include <filesystem>
#include <fstream>

#include "runtime/diagnose/repro_file.h"

int main(int, char** argv) {
  using namespace hammock;
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  const char* texts[] = {
      "%0 = input : f32[2,3]  @ model.cpp:12\n%1 = exp %0 : f32[2,3]\nreturn %1",
      "%0 = input : i64[4]\n%1 = input : i64[]\n%2 = mul %0, %1 : i64[4]\n%3 = neg %2 : i64[4]\n"
      "return %2, %3",
      "%0 = constant {value=2.5, dtype=f32} : f32[]\nreturn %0",
  };
  int number = 0;
  for (const char* text : texts) {
    Repro repro{ParseGraph(text), {}, {}};
    for (NodeId id : repro.graph.inputs()) repro.inputs.emplace_back(repro.graph[id].type());
    for (GraphValue value : repro.graph.outputs()) repro.values.push_back(value);
    const std::string file = EncodeRepro(repro);
    std::ofstream(folder / ("file" + std::to_string(number)), std::ios::binary) << file;
    std::ofstream(folder / ("rest" + std::to_string(number++)), std::ios::binary)
        << file.substr(14 + 4 + 8 + 16);
  }
}
