// Writes the inputs that the fuzz targets of graphs start from: graph_corpus FOLDER

#include <filesystem>
#include <fstream>

#include "sample_graph.h"

namespace {

using namespace hammock;

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
  Write(folder, number++, GraphOfAllForms());
  for (const auto& [op, sample] : AllSamples()) Write(folder, number++, GraphOfSample(*op, sample));
}
