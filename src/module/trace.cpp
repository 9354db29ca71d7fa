/// From code to graphs.

#include <algorithm>
#include <cctype>
#include <map>

#include "base/location_scope.h"
#include "base/throw.h"
#include "compiler/passes/graph_editor.h"
#include "compiler/sizes/generalise.h"
#include "hammock/autograd.h"
#include "hammock/ir/graph.h"
#include "hammock/op_builder.h"
#include "hammock/ops.h"
#include "ir/primitives.h"
#include "module/module_access.h"
#include "ops/primitives/module_call.h"
#include "runtime/functions/trace_function.h"
#include "trace/record.h"
#include "trace/stand_ins.h"
#include "trace/tensor_impl.h"

namespace hammock {
namespace {

constinit thread_local Module* tracing_root = nullptr;

class TracingScope {
 public:
  explicit TracingScope(Module& root) : outer_(std::exchange(tracing_root, &root)) {}
  ~TracingScope() { tracing_root = outer_; }
  TracingScope(const TracingScope&) = delete;
  TracingScope& operator=(const TracingScope&) = delete;

 private:
  Module* outer_;
};

/// Puts a method's body together from what was traced on its arguments and the module's state.
class BodyBuilder {
 public:
  BodyBuilder(const TracedFunction& traced, size_t arguments, const NamedTensors& state)
      : traced_(traced), state_(state), arguments_(arguments) {
    inputs_.resize(traced.input_types.size());
  }

  GraphBody Build() {
    for (size_t i = 0; i < arguments_; ++i) Input(i);
    std::vector<GraphValue> parameters;
    for (size_t i = 0; i < traced_.graph.inputs().size(); ++i) parameters.push_back(Parameter(i));
    results_ = builder_.Append(traced_.graph, parameters);
    Graph& graph = builder_.graph();
    for (NodeId id : graph.ids()) graph.mutable_node(id).origin = NodeId();
    for (const ResultSource& source : traced_.outputs) builder_.AddOutput(Result(source));
    for (const auto& [input, source] : traced_.writes) {
      body_.writes.push_back(IndexOfInput(Input(input)));
      builder_.AddOutput(Result(source));
    }
    body_.graph = std::make_shared<const Graph>(builder_.Finish());
    return std::move(body_);
  }

 private:
  /// The graph's input for an argument or, behind those, a tensor of the module.
  GraphValue Input(size_t index) {
    GraphValue& input = inputs_[index];
    if (input.node) return input;
    input = builder_.AddInput(traced_.input_types[index]);
    if (index >= arguments_) body_.captures.push_back({.name = state_[index - arguments_].first});
    return input;
  }

  GraphValue Constant(const Value& value) {
    Tensor tensor = Tensor::FromValue(value);
    if (tensor.dim() == 0) return builder_.graph().AddConstant(tensor.item().To(tensor.dtype()));
    body_.captures.push_back({.constant = tensor});
    return builder_.AddInput(value.shape());
  }

  GraphValue Parameter(size_t index) {
    const ParameterSource& source = traced_.parameters[index];
    switch (source.kind) {
      case ParameterSource::kInput:
        return Input(source.input);
      case ParameterSource::kConstant:
        return Constant(source.constant);
      case ParameterSource::kRandom:
        body_.captures.push_back({.random_blocks = source.blocks});
        return builder_.AddInput(traced_.graph[traced_.graph.inputs()[index]].type());
    }
    return {};
  }

  GraphValue Result(const ResultSource& source) {
    switch (source.kind) {
      case ResultSource::kResult:
        return results_[source.index];
      case ResultSource::kInput:
        return Input(source.index);
      case ResultSource::kConstant:
        return Constant(source.value);
      case ResultSource::kArgument:
        for (const auto& [input, written] : traced_.writes) {
          if (input == source.index) return Result(written);
        }
        return Input(source.index);
      case ResultSource::kOutput:
        return Result(traced_.outputs[source.index]);
    }
    return {};
  }

  int IndexOfInput(GraphValue value) const {
    const auto& inputs = builder_.graph().inputs();
    return static_cast<int>(std::ranges::find(inputs, value.node) - inputs.begin());
  }

  const TracedFunction& traced_;
  const NamedTensors& state_;
  const size_t arguments_;
  GraphBuilder builder_;
  GraphBody body_;
  std::vector<GraphValue> inputs_;   // of the new graph, by argument and state
  std::vector<GraphValue> results_;  // of the traced graph, in the new one
};

Any RunAsCode(Module& self, const Method& method, const std::vector<Any>& args, Location at) {
  if (!method.forwards_to.empty()) {
    Module& child = *self.get_submodule(method.forwards_to);
    return ModuleAccess::RunBound(child, child.method(method.schema.name()), args, at);
  }
  if (!method.code) return RunGraphBody(self, method, args, at);
  ComputedScope computed(self.hooks());
  Any result = method.code(self, args);
  method.schema.CheckReturned(result);
  return result;
}

GraphBody TraceAt(Module& self, const Method& method, const std::vector<Any>& args, Location at) {
  PackedTensors arguments = PackTensors(Any(args));
  const size_t count = arguments.tensors.size();
  NamedTensors state = ModuleAccess::DistinctTensors(self);
  std::vector<Tensor> state_tensors;
  std::vector<Tensor> examples = arguments.tensors;
  for (const auto& [name, tensor] : state) {
    state_tensors.push_back(tensor);
    examples.push_back(tensor);
  }
  std::string result_form;
  auto run = [&](const std::vector<Tensor>& inputs) {
    NoGradGuard no_grad;
    TracingScope tracing(self);
    StandIns stand_ins(state_tensors,
                       {inputs.begin() + static_cast<ptrdiff_t>(count), inputs.end()});
    std::vector<Tensor> given(inputs.begin(), inputs.begin() + static_cast<ptrdiff_t>(count));
    Any own = UnpackTensors(arguments.form, given);
    PackedTensors results = PackTensors(RunAsCode(self, method, own.ToList(), at));
    stand_ins.PassWritesOn();
    result_form = std::move(results.form);
    return results.tensors;
  };
  GraphBody body = BodyBuilder(TraceFunction("trace", run, examples, at), count, state).Build();
  body.argument_form = std::move(arguments.form);
  body.result_form = std::move(result_form);
  return body;
}

/// Sizes of free dims by name, in the order in which names occur first.
struct NamedSizes {
  std::vector<std::string> names;
  std::vector<int64_t> sizes;

  size_t IndexOf(const std::string& name) const {
    return static_cast<size_t>(std::ranges::find(names, name) - names.begin());
  }
};

struct FreePlace {
  int argument;
  int dim;
};

FreePlace PlaceOf(const FunctionSchema& schema, const std::vector<Any>& args, const FreeDim& free) {
  int index = schema.IndexOf(free.argument);
  if (index < 0 || !args[index].IsTensor()) {
    Throw(ErrorCode::kUnknownName, "trace: {} has no tensor argument '{}'", schema.name(),
          free.argument);
  }
  return {index, WrapDim("trace", free.dim, args[index].ToTensor().dim())};
}

NamedSizes SizesOfFree(const FunctionSchema& schema, const std::vector<Any>& args,
                       const std::vector<FreeDim>& free_dims) {
  NamedSizes free_sizes;
  for (const FreeDim& free : free_dims) {
    const auto [argument, dim] = PlaceOf(schema, args, free);
    const int64_t size = args[argument].ToTensor().size(dim);
    if (size < 2) {
      Throw(ErrorCode::kValue,
            "trace: dim {} of '{}' has size {}: what is free needs examples of size 2 or more, "
            "since a size of 1 broadcasts",
            dim, free.argument, size);
    }
    const size_t index = free_sizes.IndexOf(free.name);
    if (index == free_sizes.names.size()) {
      free_sizes.names.push_back(free.name);
      free_sizes.sizes.push_back(size);
    } else if (free_sizes.sizes[index] != size) {
      Throw(ErrorCode::kValue, "trace: free dims of the name '{}' have sizes {} and {}", free.name,
            free_sizes.sizes[index], size);
    }
  }
  return free_sizes;
}

/// The arguments with other sizes in their free dims.
std::vector<Any> Resized(const FunctionSchema& schema, std::vector<Any> args,
                         const std::vector<FreeDim>& free_dims, const NamedSizes& sizes) {
  for (const FreeDim& free : free_dims) {
    const auto [argument, dim] = PlaceOf(schema, args, free);
    Any& arg = args[argument];
    Dims dims = arg.ToTensor().sizes();
    dims[dim] = sizes.sizes[sizes.IndexOf(free.name)];
    arg = zeros(dims, arg.ToTensor().dtype(), arg.ToTensor().device());
  }
  return args;
}

/// A name that graph text can hold and no other dim has.
std::string DimName(std::string name, const std::vector<DimParam>& params, size_t own) {
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) name.insert(0, 1, 'n');
  for (size_t i = 0; i < params.size(); ++i) {
    if (i != own && params[i].name == name) return DimName(name + "_", params, own);
  }
  return name;
}

/// Gives free dims the names that the caller has for them, where arguments are tensors alone.
void NameDims(Graph& graph, const FunctionSchema& schema, const std::vector<Any>& args,
              const std::vector<FreeDim>& free_dims) {
  if (!std::ranges::all_of(args, [](const Any& arg) { return arg.IsTensor(); })) return;
  for (const FreeDim& free : free_dims) {
    auto input = static_cast<size_t>(schema.IndexOf(free.argument));
    NodeId id = graph.inputs()[input];
    int dim = free.dim < 0 ? free.dim + graph[id].type().rank() : free.dim;
    auto expr = graph.dim_exprs.find({id, 0, dim});
    bool plain = expr != graph.dim_exprs.end() && expr->second.constant == 0 &&
                 expr->second.terms.size() == 1 && expr->second.terms[0].second == 1;
    if (!plain) continue;
    auto own = static_cast<size_t>(expr->second.terms[0].first);
    graph.dim_params[own].name = DimName(free.name, graph.dim_params, own);
  }
}

}  // namespace

Module* TracingRoot() { return tracing_root; }

GraphBody TraceMethod(Module& self, const Method& method, const std::vector<Any>& examples,
                      const TraceOptions& options, Location at) {
  std::vector<Any> args = NumbersAsTensors(method.schema, method.schema.Bind(examples, {}));
  GraphBody body = TraceAt(self, method, args, at);
  if (options.free_dims.empty()) return body;
  NamedSizes sizes = SizesOfFree(method.schema, args, options.free_dims);
  std::vector<Graph> samples{*body.graph};
  for (std::vector<int64_t>& sample : SampleSizes(sizes.sizes)) {
    if (sample == sizes.sizes) continue;  // the examples themselves
    std::vector<Any> resized =
        Resized(method.schema, args, options.free_dims, {sizes.names, std::move(sample)});
    GraphBody other = TraceAt(self, method, resized, at);
    for (size_t i = 0; i < std::min(body.captures.size(), other.captures.size()); ++i) {
      if (body.captures[i].random_blocks == other.captures[i].random_blocks) continue;
      Throw<NotSupported>(ErrorCode::kNotSupported,
                          "trace: {} draws random numbers whose count depends on a free dim",
                          method.schema.name());
    }
    samples.push_back(*other.graph);
  }
  std::string what = "trace: " + method.schema.name();
  Graph general = GeneralGraph(what, samples);
  if (general.dim_params.empty()) {
    Throw(ErrorCode::kValue, "{}: its graph does not depend on the free dims", what);
  }
  NameDims(general, method.schema, args, options.free_dims);
  body.graph = std::make_shared<const Graph>(std::move(general));
  return body;
}

Any RecordModuleCall(Module& self, const Method& method, const std::vector<Any>& args,
                     Location at) {
  std::string path;
  for (const auto& [name, module] : tracing_root->named_modules()) {
    if (module == &self) path = name;
  }
  if (path.empty()) {
    Throw<NotSupported>(ErrorCode::kNotSupported,
                        "trace: {} is run by a delegate and is no submodule of the module that is "
                        "traced; register it there",
                        self.class_name());
  }
  const GraphBody& body = *method.body;
  std::vector<Tensor> inputs = GraphInputs(
      method.schema, body, args, [&](const std::string& name) { return self.get_tensor(name); });
  std::shared_ptr<const Graph> graph = GraphAtSizes(method.schema, body.graph, inputs);
  const Attr attrs[] = {graph, path, method.schema.name(),
                        static_cast<int64_t>(body.num_arguments())};
  return FinishResults(body, inputs, ApplyMulti(ops::kModuleCall, at, inputs, attrs));
}

}  // namespace hammock
