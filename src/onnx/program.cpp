#include "onnx/program.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <unordered_set>

#include "backends/reference/interpreter.h"
#include "base/location_scope.h"
#include "base/throw.h"
#include "compiler/passes/expand.h"
#include "hammock/foreign_call.h"
#include "hammock/ops.h"
#include "onnx/narrow.h"
#include "trace/symbolic.h"
#include "trace/tensor_impl.h"

namespace hammock::onnx {
namespace {

/// Longer chains of known values are computed at once, so that none is followed by recursion too
/// deep.
constexpr int kMostDeferred = 64;
constexpr int kMostCalls = 64;
/// Steps of one call beyond the nodes of the file's own graph.
constexpr int64_t kMostSteps = 1 << 18;
constexpr size_t kMostText = 1 << 28;

/// Nodes without a name have that of their first output.
std::string NameOf(const format::Node& node) {
  return !node.name.empty() || node.outputs.empty() ? node.name : node.outputs[0];
}

std::string Described(const format::Node& node) {
  std::string domain = node.domain.empty() ? "" : node.domain + ".";
  return fmt::format("node '{}' ({}{})", NameOf(node), domain, node.op);
}

/// Runs `body`; errors begin with the node.
template <class Body>
auto Named(const format::Node& node, Body body) {
  try {
    return body();
  } catch (const InternalError& error) {
    // An operator looks at a dim, or an entry of a list, that the file does not have.
    if (!error.message().ends_with("was asked for")) throw;
    Throw(ErrorCode::kValue, "onnx: {}: malformed: {}", Described(node), error.message());
  } catch (Error& error) {
    if (!error.message().starts_with("onnx: ")) {
      error.SetMessage(fmt::format("onnx: {}: {}", Described(node), error.message()));
    }
    throw;
  } catch (const std::exception& error) {  // a list that is too short, say
    Throw(ErrorCode::kValue, "onnx: {}: malformed: {}", Described(node), error.what());
  }
}

/// Numbers that operators need are few; a file that asks for more is wrong.
void CheckAmount(Run& run, const Graph& graph) {
  constexpr int64_t kMostElements = int64_t{1} << 24;
  int64_t elements = 0;
  for (const GraphNode& node : graph.nodes()) {
    for (const Shape& type : node.types) elements += std::min(type.numel(), kMostElements);
  }
  constexpr int64_t kElementsOfStep = 1024;
  if (elements < kMostElements) return run.Spend(elements / kElementsOfStep);
  Throw(ErrorCode::kValue, "{} elements are needed as numbers, at most {} can be", elements,
        kMostElements);
}

/// An operator of known inputs.
class Deferred : public Source {
 public:
  Deferred(Run& run, const Operator& op, const format::Node& node, int64_t opset, Values inputs)
      : run_(run), op_(op), node_(node), opset_(opset), inputs_(std::move(inputs)) {
    for (const Value& input : inputs_) {
      if (!input.source) continue;
      depth_ = std::max(depth_, input.source->depth() + 1);
      uses_parameters_ |= input.source->uses_parameters();
    }
  }

  bool uses_parameters() const override { return uses_parameters_; }
  int depth() const override { return hosts_.empty() ? depth_ : 0; }

  const HostTensor& Host(size_t index) override {
    if (hosts_.empty()) {
      hosts_ = Named(node_, [&] { return Compute(); });
    }
    if (index >= hosts_.size() || !hosts_[index].defined()) {
      Throw(ErrorCode::kValue, "onnx: {} has no result {}", Described(node_), index);
    }
    return hosts_[index];
  }

  Tensor Record(size_t index) override {
    if (recorded_.empty() || trace_ != run_.trace()) {
      recorded_ = run_.RunOperator(op_, node_, opset_, inputs_);
      trace_ = run_.trace();
    }
    return run_.TensorOf(recorded_.at(index));
  }

 private:
  std::vector<HostTensor> Compute() {
    std::vector<HostTensor> given;
    std::vector<Shape> types;
    for (const Value& input : inputs_) {
      if (input.absent()) continue;
      given.push_back(run_.HostOf(input));
      types.push_back(given.back().shape());
    }
    std::vector<HostTensor> hosts(node_.outputs.size());
    std::vector<size_t> computed;
    Graph graph = run_.TraceBody(types, [&](std::span<const Tensor> in) {
      Values values;
      size_t next = 0;
      for (const Value& input : inputs_) {
        Value value;
        if (!input.absent()) {
          value = Value::Known(given[next]);
          value.tensor = in[next++];
        }
        values.push_back(std::move(value));
      }
      Values results = run_.RunOperator(op_, node_, opset_, values);
      std::vector<Tensor> outputs;
      for (size_t i = 0; i < std::min(results.size(), hosts.size()); ++i) {
        if (results[i].absent()) continue;
        if (results[i].source && !results[i].tensor.defined()) {
          hosts[i] = results[i].source->Host(results[i].index);
        } else {
          computed.push_back(i);
          outputs.push_back(results[i].tensor);
        }
      }
      return outputs;
    });
    if (computed.empty()) return hosts;
    Graph primitives = ExpandComposites(std::move(graph));
    CheckAmount(run_, primitives);
    std::vector<HostTensor> results = reference::Interpret(primitives, given);
    for (size_t i = 0; i < computed.size(); ++i) hosts[computed[i]] = results[i];
    return hosts;
  }

  Run& run_;
  const Operator& op_;
  const format::Node& node_;
  int64_t opset_;
  Values inputs_;
  std::vector<HostTensor> hosts_;
  Values recorded_;
  int trace_ = -1;
  int depth_ = 0;
  bool uses_parameters_ = false;
};

/// The narrow element type of a node's inputs, 0 for none. Fails where the operator has no use for
/// it.
int32_t NarrowElementOf(const format::Node& node, std::span<const Value> inputs) {
  auto narrow = std::ranges::find_if(inputs, [](const Value& value) { return value.element != 0; });
  if (narrow == inputs.end()) return 0;
  if (NarrowUseOf(node.domain, node.op) == NarrowUse::kRefused) {
    Throw<NotSupported>(ErrorCode::kNotSupported, "onnx: {} does not take elements of {}",
                        Described(node), NameOfElement(narrow->element));
  }
  return narrow->element;
}

bool MovesStrings(const format::Node& node, std::span<const Value> inputs) {
  constexpr std::string_view kMoving[] = {"Compress",  "Concat",         "Expand",   "Flatten",
                                          "Gather",    "GatherElements", "GatherND", "Reshape",
                                          "Slice",     "Split",          "Squeeze",  "Tile",
                                          "Transpose", "Unsqueeze",      "Where"};
  return node.domain.empty() && std::ranges::count(kMoving, node.op) > 0 &&
         std::ranges::any_of(inputs,
                             [](const Value& v) { return v.kind == Value::Kind::kStrings; });
}

/// An operator that moves elements, on strings: it moves their positions.
Values MovedStrings(Run& run, const Operator& op, const format::Node& node, int64_t opset,
                    Values inputs) {
  std::vector<std::string> all;
  for (Value& input : inputs) {
    if (input.kind != Value::Kind::kStrings) {
      if (!input.absent()) input = Value::Known(run.HostOf(input));
      continue;
    }
    HostTensor positions(Shape(DType::kI64, input.strings->sizes));
    auto values = positions.mutable_values<int64_t>();
    std::iota(values.begin(), values.end(), static_cast<int64_t>(all.size()));
    all.insert(all.end(), input.strings->elements.begin(), input.strings->elements.end());
    input = Value::Known(positions);
  }
  Deferred moved(run, op, node, opset, std::move(inputs));
  Values results;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const HostTensor& positions = moved.Host(i);
    std::vector<std::string> texts;
    for (int64_t at : positions.values<int64_t>()) {
      const std::string& text = all.at(static_cast<size_t>(at));
      run.SpendText(text.size());
      texts.push_back(text);
    }
    results.push_back(Value::Text(positions.shape().sizes(), std::move(texts)));
  }
  return results;
}

bool CanDefer(const Operator& op, std::span<const Value> inputs) {
  if (op.needs != Needs::kNothing || inputs.empty()) return false;
  return std::ranges::all_of(inputs,
                             [](const Value& input) { return input.absent() || input.known(); });
}

}  // namespace

int64_t Program::OpsetOf(const std::string& domain,
                         const std::vector<format::OperatorSet>* own) const {
  if (own) {
    auto set = std::ranges::find(*own, domain, &format::OperatorSet::domain);
    if (set != own->end()) return set->version;
  }
  auto found = opsets.find(domain);
  return found == opsets.end() ? 1 : found->second;
}

const format::Function* Program::FunctionOf(const format::Node& node) const {
  auto found = functions.find(node.domain + "::" + node.op + ":" + node.overload);
  return found == functions.end() ? nullptr : found->second;
}

const Value* Scope::Find(const std::string& name) const {
  for (const Scope* scope = this; scope; scope = scope->outer_) {
    auto found = scope->values_.find(name);
    if (found != scope->values_.end()) return &found->second;
  }
  return nullptr;
}

LocationId Program::PlaceOf(const format::Node& node, LocationId call) const {
  auto found = places_.find(&node);
  if (found != places_.end()) {
    const Place known = found->second.load(std::memory_order_relaxed);
    if (known.place != 0 && known.call == call) return known.place;
  }
  const LocationId place =
      InternInnerCall(call, fmt::format("{}({})::forward", NameOf(node), node.op));
  if (found != places_.end()) found->second.store({call, place}, std::memory_order_relaxed);
  return place;
}

void Program::RememberPlaces() {
  RememberPlaces(model.graph.nodes);
  for (const format::Function& function : model.functions) RememberPlaces(function.nodes);
}

void Program::RememberPlaces(const std::vector<format::Node>& nodes) {
  for (const format::Node& node : nodes) {
    places_.try_emplace(&node);
    for (const format::Attribute& attribute : node.attributes) {
      for (const auto& inner : attribute.graphs) RememberPlaces(inner->nodes);
    }
  }
}

Run::Run(const Program& program, const Device& device)
    : program_(program),
      device_(device),
      call_(CurrentLocation(Location::current())),
      steps_(kMostSteps + static_cast<int64_t>(program.model.graph.nodes.size())) {}

void Run::Spend(int64_t steps) {
  steps_ -= std::min(steps, steps_ + 1);
  if (steps_ >= 0) return;
  Throw(ErrorCode::kValue,
        "onnx: one call runs more than {} nodes and iterations of functions and loops", kMostSteps);
}

void Run::SpendText(size_t size) {
  text_bytes_ += size + sizeof(std::string);
  if (text_bytes_ <= kMostText) return;
  Throw(ErrorCode::kValue, "one call makes more than {} bytes of strings", kMostText);
}

Tensor Run::TensorOf(const Value& value) {
  if (value.kind != Value::Kind::kTensor) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "a {} is given where a tensor is needed",
                     value.kind == Value::Kind::kStrings    ? "string tensor"
                     : value.kind == Value::Kind::kSequence ? "sequence"
                     : value.kind == Value::Kind::kMap      ? "map"
                                                            : "missing value");
  }
  return value.tensor.defined() ? value.tensor : value.source->Record(value.index);
}

HostTensor Run::HostOf(const Value& value) {
  if (value.kind == Value::Kind::kTensor && value.source) return value.source->Host(value.index);
  return TensorOf(value).host();
}

Graph Run::TraceBody(std::span<const Shape> types,
                     const std::function<std::vector<Tensor>(std::span<const Tensor>)>& body) {
  return InTrace([&] { return TraceSymbolically(types, body); });
}

Values Run::RunOperator(const Operator& op, const format::Node& node, int64_t opset,
                        std::span<const Value> inputs) {
  LocationOverride place(program_.PlaceOf(node, call_));
  return Named(node, [&] {
    Call call(*this, node, opset, inputs);
    return op.run(call);
  });
}

void Run::RunNode(const format::Node& node, Scope& scope) {
  Spend(1);
  Values inputs;
  for (const std::string& name : node.inputs) {
    const Value* value = name.empty() ? nullptr : scope.Find(name);
    if (!value && !name.empty()) {
      Throw(ErrorCode::kValue, "onnx: {} uses '{}', which nothing has computed", Described(node),
            name);
    }
    inputs.push_back(value ? *value : Value());
  }
  Values results;
  if (const format::Function* function = program_.FunctionOf(node)) {
    results = RunFunction(*function, node, std::move(inputs));
  } else {
    int64_t opset = program_.OpsetOf(node.domain, opsets_);
    const Operator* op = FindOperator(node.domain, node.op, opset);
    if (!op) {
      Throw<NotSupported>(ErrorCode::kNotSupported, "onnx: {} is not supported", Described(node));
    }
    int32_t narrow = NarrowElementOf(node, inputs);
    if (MovesStrings(node, inputs)) {
      results = MovedStrings(*this, *op, node, opset, std::move(inputs));
    } else if (!narrow && CanDefer(*op, inputs) && !MakesNarrow(node)) {
      auto source = std::make_shared<Deferred>(*this, *op, node, opset, std::move(inputs));
      if (source->depth() > kMostDeferred) source->Host(0);
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        Value value;
        value.kind = Value::Kind::kTensor;
        value.source = source;
        value.index = i;
        results.push_back(std::move(value));
      }
    } else {
      Exchanged<const Scope*> around(scope_, &scope);
      results = RunOperator(*op, node, opset, inputs);
      if (narrow && NarrowUseOf(node.domain, node.op) == NarrowUse::kMoved) {
        for (Value& result : results) result.element = narrow;
      }
    }
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    if (i >= results.size()) {
      Throw<NotSupported>(ErrorCode::kNotSupported, "onnx: {}: result {} is not supported",
                          Described(node), i);
    }
    scope.Set(node.outputs[i], std::move(results[i]));
  }
}

Values Run::RunGraph(const format::Graph& graph, Scope& scope) {
  for (const format::Node& node : graph.nodes) RunNode(node, scope);
  Values outputs;
  for (const format::ValueInfo& output : graph.outputs) {
    const Value* value = scope.Find(output.name);
    if (!value) Throw(ErrorCode::kValue, "onnx: nothing computes the output '{}'", output.name);
    outputs.push_back(*value);
  }
  return outputs;
}

Values Run::RunPart(std::shared_ptr<const format::Graph> part, Scope& scope) {
  bodies_.push_back(part);
  return RunGraph(*part, scope);
}

namespace {

using Given = std::map<std::string, const format::Attribute*>;

bool TakesAttributes(const format::Node& node) {
  return std::ranges::any_of(node.attributes, [](const format::Attribute& attribute) {
    if (!attribute.from_caller.empty()) return true;
    return std::ranges::any_of(attribute.graphs, [](const auto& graph) {
      return std::ranges::any_of(graph->nodes, TakesAttributes);
    });
  });
}

/// A function's node with the attributes of the call in place.
void Substitute(format::Node& node, const Given& given) {
  std::erase_if(node.attributes, [&](format::Attribute& attribute) {
    if (attribute.from_caller.empty()) return false;
    auto found = given.find(attribute.from_caller);
    if (found == given.end()) return true;
    std::string name = attribute.name;
    attribute = *found->second;
    attribute.name = name;
    return false;
  });
  for (format::Attribute& attribute : node.attributes) {
    for (std::shared_ptr<format::Graph>& graph : attribute.graphs) {
      graph = std::make_shared<format::Graph>(*graph);
      for (format::Node& inner : graph->nodes) Substitute(inner, given);
    }
  }
}

}  // namespace

Values Run::RunFunction(const format::Function& function, const format::Node& node, Values inputs) {
  return Named(node, [&] {
    if (depth_ >= kMostCalls) {
      Throw(ErrorCode::kValue, "functions call each other more than {} deep", kMostCalls);
    }
    Exchanged deeper(depth_, depth_ + 1);
    Exchanged<const std::vector<format::OperatorSet>*> own(opsets_, &function.opsets);
    Given given;
    for (const format::Attribute& attribute : function.defaults) given[attribute.name] = &attribute;
    for (const format::Attribute& attribute : node.attributes) given[attribute.name] = &attribute;
    Scope scope;
    for (size_t i = 0; i < function.inputs.size(); ++i) {
      scope.Set(function.inputs[i], i < inputs.size() ? inputs[i] : Value());
    }
    for (const format::Node& inner : function.nodes) {
      if (!TakesAttributes(inner)) {
        RunNode(inner, scope);
        continue;
      }
      // It lives as long as values that were deferred.
      auto substituted = std::make_shared<format::Node>(inner);
      Substitute(*substituted, given);
      bodies_.push_back(substituted);
      RunNode(*substituted, scope);
    }
    Values outputs;
    for (const std::string& name : function.outputs) {
      const Value* value = scope.Find(name);
      if (!value) Throw(ErrorCode::kValue, "nothing in the function computes '{}'", name);
      outputs.push_back(*value);
    }
    return outputs;
  });
}

// ---- checks

namespace {

void AddOuterNames(const format::Graph& graph, std::set<std::string> own,
                   std::set<std::string>& outer) {
  // Initialisers are values of the outermost scope.
  for (const format::ValueInfo& input : graph.inputs) own.insert(input.name);
  for (const format::Node& node : graph.nodes) {
    for (const std::string& name : node.inputs) {
      if (!name.empty() && !own.contains(name)) outer.insert(name);
    }
    for (const format::Attribute& attribute : node.attributes) {
      for (const auto& inner : attribute.graphs) AddOuterNames(*inner, own, outer);
    }
    own.insert(node.outputs.begin(), node.outputs.end());
  }
  for (const format::ValueInfo& output : graph.outputs) {
    if (!own.contains(output.name)) outer.insert(output.name);
  }
}

class Checker {
 public:
  explicit Checker(const Program& program) : program_(program) {}

  void Check() {
    CheckGraph(program_.model.graph, {}, nullptr);
    for (const format::Function& function : program_.model.functions) CheckFunction(function);
    if (missing_.empty()) return;
    std::string text;
    for (const auto& [name, nodes] : missing_) {
      text += fmt::format("\n  {} in {}", name, nodes);
    }
    Throw<NotSupported>(ErrorCode::kNotSupported, "onnx: {} operators are not supported:{}",
                        missing_.size(), text);
  }

 private:
  using Names = std::unordered_set<std::string>;

  void CheckFunction(const format::Function& function) {
    Names known(function.inputs.begin(), function.inputs.end());
    CheckNodes(function.nodes, known, &function);
    for (const std::string& name : function.outputs) {
      if (known.contains(name)) continue;
      Throw(ErrorCode::kValue, "onnx: nothing in the function '{}' computes '{}'", function.name,
            name);
    }
  }

  /// `inside`: the function that the graph is in, or null.
  void CheckGraph(const format::Graph& graph, Names known, const format::Function* inside) {
    for (const format::ValueInfo& input : graph.inputs) known.insert(input.name);
    for (const format::Tensor& tensor : graph.initializers) known.insert(tensor.name);
    for (const format::SparseTensor& tensor : graph.sparse_initializers) {
      known.insert(tensor.values.name);
    }
    CheckNodes(graph.nodes, known, inside);
    for (const format::ValueInfo& output : graph.outputs) {
      if (known.contains(output.name)) continue;
      Throw(ErrorCode::kValue, "onnx: nothing computes the output '{}'", output.name);
    }
  }

  /// Adds the names that nodes compute.
  void CheckNodes(const std::vector<format::Node>& nodes, Names& known,
                  const format::Function* inside) {
    Names made;
    for (const format::Node& node : nodes) made.insert(node.outputs.begin(), node.outputs.end());
    for (const format::Node& node : nodes) {
      for (const std::string& name : node.inputs) {
        if (name.empty() || known.contains(name)) continue;
        Throw(ErrorCode::kValue, "onnx: {} uses '{}', which {}", Described(node, inside), name,
              made.contains(name) ? "a later node computes: the graph has a cycle or is not sorted"
                                  : "no input, initialiser or node gives");
      }
      CheckOperator(node, inside);
      for (const format::Attribute& attribute : node.attributes) {
        for (const auto& inner : attribute.graphs) CheckGraph(*inner, known, inside);
      }
      for (const std::string& name : node.outputs) {
        if (name.empty() || known.insert(name).second) continue;
        Throw(ErrorCode::kValue, "onnx: {} computes '{}', which has a value already",
              Described(node, inside), name);
      }
    }
  }

  static std::string Described(const format::Node& node, const format::Function* inside) {
    std::string text = onnx::Described(node);
    return inside ? fmt::format("{} of function '{}'", text, inside->name) : text;
  }

  void CheckOperator(const format::Node& node, const format::Function* inside) {
    if (const format::Function* function = program_.FunctionOf(node)) {
      if (node.inputs.size() <= function->inputs.size() &&
          node.outputs.size() <= function->outputs.size()) {
        return;
      }
      Throw(ErrorCode::kValue, "onnx: {} has {} inputs and {} outputs, the function {} and {}",
            Described(node, inside), node.inputs.size(), node.outputs.size(),
            function->inputs.size(), function->outputs.size());
    }
    const int64_t opset = program_.OpsetOf(node.domain, inside ? &inside->opsets : nullptr);
    const Operator* op = FindOperator(node.domain, node.op, opset);
    const std::string part = op ? RefusedPart(*op, node) : "";
    if (op && part.empty()) return;
    std::string name =
        fmt::format("{}{}{}{}{} (opset {})", node.domain, node.domain.empty() ? "" : ".", node.op,
                    part.empty() ? "" : " with ", part, opset);
    std::string& nodes = missing_[name];
    nodes += (nodes.empty() ? "" : ", ") + NameOf(node);
  }

  const Program& program_;
  std::map<std::string, std::string> missing_;  // by operator: its nodes
};

}  // namespace

std::vector<std::string> OuterNames(const format::Graph& graph) {
  std::set<std::string> outer;
  AddOuterNames(graph, {}, outer);
  return {outer.begin(), outer.end()};
}

void CheckProgram(const Program& program) { Checker(program).Check(); }

}  // namespace hammock::onnx
