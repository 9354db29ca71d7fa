// A delegate in another repository: a machine with a stack of numbers that runs f32 graphs of a few
// elementwise ops. docs/delegate-guide.md explains it part by part.

#include <algorithm>
#include <cmath>
#include <sstream>

#include "hammock/hammock.h"
#include "hammock/jit/backend.h"

namespace {

using namespace hammock;
using jit::BackendRuntimeException;
using jit::DebugHandle;

// ---- What it can run

bool IsElementwise(const std::string& op) {
  return op == "add" || op == "sub" || op == "mul" || op == "relu" || op == "sqrt";
}

/// Broadcasts, casts and all else are left to Hammock.
lazy::Capability Capable(const Graph& graph, NodeId id) {
  using Verdict = lazy::Capability::Verdict;
  const GraphNode& node = graph[id];
  std::string op = node.op->name();
  if (!IsElementwise(op)) {
    if (node.op->IsComposite()) return {Verdict::kExpand, ""};
    return {Verdict::kRefuse, "the machine has no instruction for " + op};
  }
  for (GraphValue input : node.inputs) {
    bool number = graph.TypeOf(input).rank() == 0;
    if (!number && graph.TypeOf(input) != node.type()) {
      return {Verdict::kRefuse, "its operands differ in size"};
    }
  }
  if (node.type().dtype() != DType::kF32) return {Verdict::kRefuse, "only f32 is supported"};
  return {Verdict::kRun, ""};
}

// ---- Preprocessing: each method becomes the text of a program that computes one element

struct Writer {
  const Graph& graph;
  const NodeMap<DebugHandle>& handles;
  std::ostringstream text;

  /// In postfix order: operands, then the instruction and where it came from.
  void Write(GraphValue value) {
    const GraphNode& node = graph[value.node];
    std::string op = node.op->name();
    if (op == "input") {
      auto place = std::find(graph.inputs().begin(), graph.inputs().end(), value.node);
      text << "load " << place - graph.inputs().begin();
    } else if (op == "constant") {
      text << "push " << node.attr("value").scalar().ToDouble();
    } else {
      lazy::Capability answer = Capable(graph, value.node);
      if (answer.verdict != lazy::Capability::Verdict::kRun) {
        throw BackendRuntimeException(op + ": " + answer.reason, handles[value.node]);
      }
      for (GraphValue input : node.inputs) Write(input);
      text << op << " 0";
    }
    text << " " << handles[value.node] << "\n";
  }
};

Any Preprocess(const Module& module, const AnyDict& spec,
               const jit::DebugHandleGenerator& generate) {
  AnyDict processed;
  for (const auto& [method, options] : spec) {
    const GraphBody& body = module.graph_body(method);
    NodeMap<DebugHandle> handles = generate(*body.graph);
    AnyList programs, sizes, weights;
    for (GraphValue output : body.graph->outputs()) {
      Writer writer{*body.graph, handles, {}};
      writer.Write(output);
      programs.push_back(writer.text.str());
      sizes.push_back(Any::Ints(body.graph->TypeOf(output).sizes().vec()));
    }
    for (const Capture& capture : body.captures) {
      weights.push_back(capture.name.empty() ? capture.constant : module.get_tensor(capture.name));
    }
    processed[method] = AnyDict{{"programs", programs}, {"sizes", sizes}, {"weights", weights}};
  }
  return processed;
}

// ---- Compiling: programs are read into instructions

struct Instruction {
  std::string op;
  double operand = 0;
  DebugHandle handle = -1;
};

/// A handle: whatever `execute` needs of a method.
struct Machine : Object {
  std::vector<std::vector<Instruction>> programs;  // one per result
  std::vector<Dims> sizes;
  std::vector<HostTensor> weights;

  std::string type_name() const override { return "stack.Machine"; }

  static float Run(const std::vector<Instruction>& program, const std::vector<HostTensor>& inputs,
                   size_t element) {
    std::vector<float> stack;
    auto pop = [&] {
      float top = stack.back();
      stack.pop_back();
      return top;
    };
    for (const Instruction& instruction : program) {
      const std::string& op = instruction.op;
      if (op == "push") {
        stack.push_back(static_cast<float>(instruction.operand));
      } else if (op == "load") {
        const HostTensor& input = inputs[static_cast<size_t>(instruction.operand)];
        stack.push_back(input.values<float>()[input.numel() == 1 ? 0 : element]);
      } else if (op == "relu") {
        stack.push_back(std::max(pop(), 0.0f));
      } else if (op == "sqrt") {
        float x = pop();
        if (x < 0)
          throw BackendRuntimeException("the root of a negative number", instruction.handle);
        stack.push_back(std::sqrt(x));
      } else {
        float b = pop(), a = pop();
        stack.push_back(op == "add" ? a + b : op == "sub" ? a - b : a * b);
      }
    }
    return stack.at(0);
  }
};

class StackDelegate : public jit::BackendInterface {
 public:
  bool is_available() override { return true; }

  AnyDict compile(Any processed, AnyDict method_compile_spec) override {
    AnyDict handles;
    for (const auto& [method, options] : method_compile_spec) {
      const AnyDict& made = processed.ToDict().at(method).ToDict();
      auto machine = std::make_shared<Machine>();
      for (const Any& text : made.at("programs").ToList()) {
        std::istringstream lines(text.ToStringRef());
        machine->programs.emplace_back();
        for (Instruction next; lines >> next.op >> next.operand >> next.handle;) {
          machine->programs.back().push_back(next);
        }
      }
      for (const Any& sizes : made.at("sizes").ToList()) machine->sizes.push_back(sizes.ToInts());
      for (const Any& weight : made.at("weights").ToList()) {
        machine->weights.push_back(weight.ToTensor().host());
      }
      handles[method] = std::shared_ptr<Object>(machine);
    }
    return handles;
  }

  /// Called from any thread: the machine is only read.
  AnyList execute(Any handle, AnyList inputs) override {
    auto machine = ObjectAs<Machine>(handle, "a stack.Machine");
    std::vector<HostTensor> operands;
    for (const Any& input : inputs) operands.push_back(input.ToTensor().host());
    operands.insert(operands.end(), machine->weights.begin(), machine->weights.end());
    AnyList outputs;
    for (size_t k = 0; k < machine->programs.size(); ++k) {
      HostTensor result(Shape(DType::kF32, machine->sizes[k]));
      auto elements = result.mutable_values<float>();
      for (size_t i = 0; i < elements.size(); ++i) {
        elements[i] = Machine::Run(machine->programs[k], operands, i);
      }
      outputs.push_back(from_host(result));
    }
    return outputs;
  }
};

const jit::backend<StackDelegate> stack_class("stack");
const bool stack_preprocess = jit::backend_preprocess_register("stack", Preprocess);
const bool stack_capability = jit::backend_capability_register("stack", Capable);

}  // namespace
