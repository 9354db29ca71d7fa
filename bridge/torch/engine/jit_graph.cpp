#include "engine/jit_graph.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <cctype>
#include <unordered_map>

namespace hammock_torch {

using hammock::Any;
using torch::jit::Node;
using torch::jit::Value;
using Kind = Instruction::Kind;

namespace {

/// The line that a node stands for, and the submodules around it: "model.py:12 in encoder.linear".
std::string SourceOf(const Node& node) {
  auto place = node.sourceRange().file_line_col();
  if (!place) return "";
  auto [file, line, column] = *place;
  std::string modules;
  auto calls = node.callstack();
  for (const auto& call : calls ? (*calls)->vec() : decltype((*calls)->vec())()) {
    const auto& module = std::get<2>(call);
    // Instances without a name of their own have one in capitals.
    if (!module || module->instance_name().empty() || std::isupper(module->instance_name()[0]))
      continue;
    modules += (modules.empty() ? " in " : ".") + module->instance_name();
  }
  return file + ":" + std::to_string(line) + modules;
}

class Translator {
 public:
  Translator(Program& program, const hammock::Device& device)
      : program_(program), device_(device) {}

  void Bind(const Value* value, int index) { registers_[value] = index; }
  int Register(const Value* value) {
    auto [found, added] = registers_.emplace(value, 0);
    if (added) found->second = program_.NewRegister();
    return found->second;
  }
  template <class Values>
  std::vector<int> Registers(const Values& values) {
    std::vector<int> result;
    for (const Value* value : values) result.push_back(Register(value));
    return result;
  }

  Block Translate(const torch::jit::Block& block) {
    Block result;
    for (const Node* node : block.nodes()) Add(*node, result);
    return result;
  }

 private:
  void Add(const Node& node, Block& block) {
    c10::Symbol kind = node.kind();
    Instruction made{.kind = KindOf(node),
                     .name = kind.toQualString(),
                     .inputs = Registers(node.inputs()),
                     .outputs = Registers(node.outputs())};
    made.source = SourceOf(node);
    switch (made.kind) {
      case Kind::kConstant:
        made.value = FromIValue(*torch::jit::toIValue(node.output()), device_);
        break;
      case Kind::kIf:
        for (const torch::jit::Block* branch : node.blocks()) {
          Block inner = Translate(*branch);
          inner.push_back({.kind = Kind::kCopy,
                           .name = "prim::If",
                           .inputs = Registers(branch->outputs()),
                           .outputs = Registers(node.outputs())});
          made.blocks.push_back(std::move(inner));
        }
        break;
      case Kind::kLoop: {
        const torch::jit::Block& body = *node.blocks()[0];
        made.carried = Registers(body.inputs());
        made.blocks.push_back(Translate(body));
        made.results = Registers(body.outputs());
        break;
      }
      case Kind::kOp:
        Resolve(node, made);
        break;
      default:
        break;
    }
    block.push_back(std::move(made));
  }

  static Kind KindOf(const Node& node) {
    static const std::unordered_map<std::string, Kind> kKinds = {
        {"prim::Constant", Kind::kConstant},
        {"prim::ListConstruct", Kind::kList},
        {"prim::TupleConstruct", Kind::kTuple},
        {"prim::DictConstruct", Kind::kDict},
        {"prim::ListUnpack", Kind::kUnpack},
        {"prim::TupleUnpack", Kind::kUnpack},
        {"prim::If", Kind::kIf},
        {"prim::Loop", Kind::kLoop},
        {"prim::unchecked_cast", Kind::kCopy},
        {"prim::Uninitialized", Kind::kConstant},
        {"aten::ScalarImplicit", Kind::kNumber},
        {"aten::IntImplicit", Kind::kNumber},
        {"aten::FloatImplicit", Kind::kNumber},
        {"aten::item", Kind::kNumber},
        {"aten::_local_scalar_dense", Kind::kNumber},
    };
    auto found = kKinds.find(node.kind().toQualString());
    return found == kKinds.end() ? Kind::kOp : found->second;
  }

  static void Resolve(const Node& node, Instruction& made) {
    const c10::FunctionSchema* schema = node.maybeSchema();
    if (!schema) {
      throw Unsupported(std::string("a node of kind ") + node.kind().toQualString() +
                        " has no meaning for Hammock");
    }
    made.name = c10::toString(schema->operator_name());
    made.op = &AtenOp::Of(*schema);
    made.eager = node.getOperation();
  }

  Program& program_;
  const hammock::Device& device_;
  std::unordered_map<const Value*, int> registers_;
};

bool IsNumberOf(const Node& node) {
  std::string kind = node.kind().toQualString();
  return kind == "aten::ScalarImplicit" || kind == "aten::IntImplicit" ||
         kind == "aten::FloatImplicit";
}

}  // namespace

std::vector<bool> NumberInputs(const torch::jit::Graph& graph) {
  std::vector<bool> result;
  for (const Value* input : graph.inputs()) {
    bool number = !input->uses().empty();
    for (const torch::jit::Use& use : input->uses()) number = number && IsNumberOf(*use.user);
    result.push_back(number);
  }
  return result;
}

Program ProgramOf(const torch::jit::Graph& graph, const hammock::Device& device) {
  Program program(device);
  Translator translator(program, device);
  for (const Value* input : graph.inputs()) translator.Bind(input, program.AddInput());
  program.SetBlock(translator.Translate(*graph.block()));
  program.SetOutputs(translator.Registers(graph.outputs()));
  return program;
}

}  // namespace hammock_torch
