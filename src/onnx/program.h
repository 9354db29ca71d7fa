#pragma once
/// A model that was read, and its interpretation: each call records Hammock's ops for its nodes.

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hammock/ir/graph.h"
#include "hammock/location.h"
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

  /// The place of ops and errors of a node: that of the call, in the node.
  LocationId PlaceOf(const format::Node& node, LocationId call) const;
  /// To be called when the nodes stay where they are.
  void RememberPlaces();
  /// By the opsets `own` of a function, where it has one for the domain.
  int64_t OpsetOf(const std::string& domain,
                  const std::vector<format::OperatorSet>* own = nullptr) const;
  const format::Function* FunctionOf(const format::Node& node) const;

 private:
  void RememberPlaces(const std::vector<format::Node>& nodes);

  // The last place of each node, and the call it was for: most are made from one line.
  struct Place {
    LocationId call = 0, place = 0;
  };
  mutable std::unordered_map<const format::Node*, std::atomic<Place>> places_;
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

/// Sets a variable until the end of the scope, whichever way that ends.
template <class T>
class Exchanged {
 public:
  Exchanged(T& variable, T value)
      : variable_(variable), before_(std::exchange(variable, std::move(value))) {}
  Exchanged(const Exchanged&) = delete;
  Exchanged& operator=(const Exchanged&) = delete;
  ~Exchanged() { variable_ = std::move(before_); }

 private:
  T& variable_;
  T before_;
};

/// One call of a model.
class Run {
 public:
  Run(const Program& program, const Device& device);

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
    Exchanged trace(trace_, ++traces_);
    return body();
  }
  Values RunOperator(const Operator& op, const format::Node& node, int64_t opset,
                     std::span<const Value> inputs);
  /// The result of `record`; nothing, with the reason in `why`, where it fails. A way that failed a
  /// few times is not tried again at its node: graphs in graphs would be traced once for each
  /// combination of ways.
  template <class Record>
  std::optional<Values> Attempt(const format::Node& node, std::string_view way, std::string& why,
                                Record record) {
    constexpr int kMostFailures = 4;
    Failure& failure = failures_[{&node, way, trace_ != 0}];
    if (failure.count < kMostFailures) {
      try {
        return record();
      } catch (const Error& error) {
        if (steps_ < 0) throw;
        failure = {failure.count + 1, error.message()};
      }
    }
    why = failure.why;
    return std::nullopt;
  }
  /// Takes from what one call may do: a node or an iteration is a step. Calls of functions and
  /// loops inside of loops multiply, so that a short file could ask for any number.
  void Spend(int64_t steps);
  /// The same of the bytes of a string that an operator makes.
  void SpendText(size_t size);

 private:
  void RunNode(const format::Node& node, Scope& scope);

  const Program& program_;
  Device device_;
  const Scope* scope_ = nullptr;
  const std::vector<format::OperatorSet>* opsets_ = nullptr;  // of the function that runs
  LocationId call_;                                           // the line that called the model
  int trace_ = 0;
  int traces_ = 0;
  int depth_ = 0;
  int64_t steps_;  // that are left
  size_t text_bytes_ = 0;
  struct Failure {
    int count = 0;
    std::string why = {};
  };
  // By node, way, and whether inside of a symbolic trace.
  std::map<std::tuple<const format::Node*, std::string_view, bool>, Failure> failures_;
  // Nodes of functions that were called, and parts of graphs.
  std::vector<std::shared_ptr<const void>> bodies_;
};

}  // namespace hammock::onnx
