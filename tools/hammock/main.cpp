// hammock: compiles modules ahead of time and looks into archives.

#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <sstream>

#include "hammock/hammock.h"
#include "hammock/jit/compile_ahead.h"
#include "hammock/module.h"

namespace {

using namespace hammock;

/// "forward(Tensor x0, Tensor x1) -> (Tensor, Tensor)" of a graph.
std::string SchemaOf(const Graph& graph) {
  std::string schema = "forward(";
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    schema += (i == 0 ? "Tensor x" : ", Tensor x") + std::to_string(i);
  }
  schema += ") -> ";
  if (graph.outputs().size() == 1) return schema + "Tensor";
  schema += "(";
  for (size_t i = 0; i < graph.outputs().size(); ++i) schema += i == 0 ? "Tensor" : ", Tensor";
  return schema + ")";
}

/// An archive, or the text of a graph, which becomes the method `forward`.
ModulePtr LoadModel(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string magic(8, '\0');
  file.read(magic.data(), 8);
  if (magic == "HAMMOCKA" || !file) return load_module(path);
  file.seekg(0);
  std::ostringstream text;
  text << file.rdbuf();
  Graph graph = ParseGraph(text.str());
  auto module = std::make_shared<Module>("Graph");
  module->define(SchemaOf(graph), graph);
  return module;
}

int Compile(const std::string& model, const std::string& output) {
  jit::compile_ahead(*LoadModel(model), output);
  std::cout << jit::describe_archive(output);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Hammock: lazy tensors, modules and delegates"};
  app.require_subcommand(1);

  std::string model, output, backend = "cpu";
  CLI::App* compile =
      app.add_subcommand("compile", "Store a model with machine code for this processor");
  compile->add_option("MODEL", model, "an archive, or the text of a graph")->required();
  compile->add_option("-o,--output", output, "the archive to write")->required();
  compile->add_option("--backend", backend, "what to compile for")
      ->check(CLI::IsMember({"cpu"}))
      ->capture_default_str();

  CLI::App* inspect = app.add_subcommand("inspect", "Print what an archive has in it");
  inspect->add_option("ARCHIVE", model, "the archive")->required();

  CLI11_PARSE(app, argc, argv);
  try {
    if (*compile) return Compile(model, output);
    std::cout << jit::describe_archive(model);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "hammock: " << error.what() << "\n";
    return 1;
  }
}
