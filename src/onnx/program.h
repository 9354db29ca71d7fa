#pragma once
/// A model that was read, and its interpretation: each call records Hammock's ops for its nodes.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "hammock/ir/graph.h"
#include "onnx/call.h"
#include "onnx/format.h"

namespace hammock::onnx {

/// An initialiser: a parameter or buffer of the module, and its elements where nodes may need them
/// while they are traced.
struct Initializer {
  std::string tensor;  ///< dotted name in the module; empty for strings
  std::shared_ptr<Source> source;
  Value value;          ///< of strings
  int32_t element = 0;  ///< of narrow elements
};

/// Immutable after it was made; shared by all calls.
struct Program {
  format::Model model;
  std::map<std::string, int64_t> opsets;                      ///< by domain
  std::map<std::string, const format::Function*> functions;   ///< by "domain::name:overload"
  std::unordered_map<std::string, Initializer> initializers;  ///< by name, of all graphs
  std::vector<const format::ValueInfo*> inputs;               ///< without initialisers

  int64_t OpsetOf(const std::string& domain) const;
  const format::Function* FunctionOf(const format::Node& node) const;
};

/// Checks names, order and operators of all graphs; ValueError and NotSupported name the nodes.
void CheckProgram(const Program& program);

/// Names that a graph takes from around it.
std::vector<std::string> OuterNames(const format::Graph& graph);

/// Values by name, with those around them.
class Scope {
 public:
  explicit Scope(const Scope* outer = nullptr) : outer_(outer) {}
  const Value* Find(const std::string& name) const;
  void Set(const std::string& name, Value value) { values_[name] = std::move(value); }

 private:
  const Scope* outer_;
  std::unordered_map<std::string, Value> values_;
};

/// One call of a model.
class Run {
 public:
  Run(const Program& program, const Device& device) : program_(program), device_(device) {}

  const Program& program() const { return program_; }
  const Device& device() const { return device_; }
  /// Another number for each nested symbolic trace; recorded tensors belong to one.
  int trace() const { return trace_; }
  /// The scope of the node that runs.
  const Scope& scope() const { return *scope_; }

  /// Runs a graph's nodes in a scope that has its inputs; returns the outputs.
  Values RunGraph(const format::Graph& graph, Scope& scope);
  /// The same of some nodes of a graph, which live as long as the values that they compute.
  Values RunPart(std::shared_ptr<const format::Graph> part, Scope& scope);
  Values RunFunction(const format::Function& function, const format::Node& node, Values inputs);
  /// A tensor of the trace in progress.
  Tensor TensorOf(const Value& value);
  HostTensor HostOf(const Value& value);
  /// The graph that `body` records for symbolic tensors of these types.
  hammock::Graph TraceBody(std::span<const Shape> types,
                           const std::function<std::vector<Tensor>(std::span<const Tensor>)>& body);
  /// Calls `body`, which records into a symbolic trace that someone else has begun.
  template <class Body>
  auto InTrace(Body body) {
    int before = std::exchange(trace_, ++traces_);
    struct Restore {
      int& trace;
      int before;
      ~Restore() { trace = before; }
    } restore{trace_, before};
    return body();
  }
  Values RunOperator(const Operator& op, const format::Node& node, int64_t opset,
                     std::span<const Value> inputs);

 private:
  void RunNode(const format::Node& node, Scope& scope);

  const Program& program_;
  Device device_;
  const Scope* scope_ = nullptr;
  const std::vector<format::OperatorSet>* opsets_ = nullptr;  // of the function that runs
  int trace_ = 0;
  int traces_ = 0;
  int depth_ = 0;
  // Nodes of functions that were called, and parts of graphs.
  std::vector<std::shared_ptr<const void>> bodies_;
};

}  // namespace hammock::onnx
