#include "hammock/distributed/sharding.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/location_scope.h"
#include "base/throw.h"
#include "compiler/passes/expand.h"
#include "compiler/passes/make_explicit.h"
#include "compiler/passes/remove_dead.h"
#include "hammock/ops.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/random/draw.h"
#include "parallel/sharding_rules.h"
#include "runtime/functions/trace_function.h"
#include "trace/after_op.h"
#include "trace/record.h"
#include "trace/rng.h"

namespace hammock::distributed {

using ops::Sliced;

std::string Placement::to_string() const {
  switch (kind) {
    case Kind::kReplicate:
      return "replicate";
    case Kind::kShard:
      return fmt::format("shard({})", dim);
    case Kind::kPartial:
      return "partial";
  }
  return "";
}

std::string ShardingReport::to_text() const {
  std::string text;
  for (const InsertedCollective& each : collectives) {
    text += fmt::format("{} of {} ({} bytes) over '{}' for {}: {}{}\n", each.collective, each.type,
                        each.bytes, each.axis, each.op, each.reason,
                        each.where.empty() ? "" : " [at " + each.where + "]");
  }
  return text;
}

// ---- Mesh

struct Mesh::State {
  std::vector<int> sizes;
  std::vector<std::string> names;
  std::vector<Group> groups;
};

Mesh::Mesh(const std::vector<int>& sizes, const std::vector<std::string>& names, const Group& group,
           Location at) {
  LocationScope scope(at);
  int64_t ranks = 1;
  for (int size : sizes) ranks *= size;
  if (sizes.empty() || ranks != group.size() || names.size() != sizes.size()) {
    Throw(ErrorCode::kValue,
          "Mesh: needs a name for each axis and as many places as the {} rank(s) of group '{}', "
          "got {} sizes for {} and {} names",
          group.size(), group.name(), sizes.size(), ranks, names.size());
  }
  State state{sizes, names, {}};
  int stride = group.size();
  for (int size : sizes) {
    const int inner = stride / size;
    // All coordinates but the one of this axis.
    const int color = group.rank() / stride * inner + group.rank() % inner;
    state.groups.push_back(group.split(color, group.rank(), at));
    stride = inner;
  }
  state_ = std::make_shared<const State>(std::move(state));
}

int Mesh::axes() const { return static_cast<int>(state_->sizes.size()); }
int Mesh::size(int axis) const { return state_->sizes.at(static_cast<size_t>(axis)); }
const std::string& Mesh::name(int axis) const {
  return state_->names.at(static_cast<size_t>(axis));
}
const Group& Mesh::group(int axis) const { return state_->groups.at(static_cast<size_t>(axis)); }

namespace {

using Kind = Placement::Kind;

void CheckPlacements(const Shape& shape, const Mesh& mesh,
                     const std::vector<Placement>& placements) {
  if (static_cast<int>(placements.size()) != mesh.axes()) {
    Throw(ErrorCode::kValue, "sharding: {} placements for a mesh of {} axes", placements.size(),
          mesh.axes());
  }
  for (size_t i = 0; i < placements.size(); ++i) {
    const Placement& own = placements[i];
    if (own.kind != Kind::kShard) continue;
    const int ranks = mesh.size(static_cast<int>(i));
    if (own.dim < 0 || own.dim >= shape.rank() || shape.size(own.dim) % ranks != 0) {
      Throw(ErrorCode::kShapeMismatch,
            "sharding: {} cannot be cut into {} equal parts along dim {}", shape.to_string(), ranks,
            own.dim);
    }
    for (size_t k = 0; k < i; ++k) {
      if (placements[k] != own) continue;
      Throw(ErrorCode::kValue, "sharding: dim {} of {} is cut along two axes, '{}' and '{}'",
            own.dim, shape.to_string(), mesh.name(static_cast<int>(k)),
            mesh.name(static_cast<int>(i)));
    }
  }
}

/// A value of the function: how it lies, and this rank's part.
struct Value {
  Tensor local;
  Shape shape;  // of the whole
  std::vector<Placement> placements;
  std::string summed_by = {};  // the op that left summands
};

Dims LocalSizes(const Shape& shape, const Mesh& mesh, const std::vector<Placement>& placements) {
  Dims sizes = shape.sizes();
  for (size_t axis = 0; axis < placements.size(); ++axis) {
    if (placements[axis].kind != Kind::kShard) continue;
    sizes[placements[axis].dim] /= mesh.size(static_cast<int>(axis));
  }
  return sizes;
}

/// Runs a graph of whole tensors on the parts that this rank has.
class Interpreter {
 public:
  Interpreter(const Graph& graph, const Mesh& mesh, ShardingReport& report)
      : graph_(graph), mesh_(mesh), report_(report), is_drawn_(graph.size(), false) {}

  /// Values of the graph's inputs, in order.
  std::vector<Value> Run(const std::vector<Value>& inputs) {
    values_.reserve(static_cast<size_t>(graph_.size()));
    size_t next = 0;
    for (NodeId id : graph_.ids()) {
      const GraphNode& node = graph_[id];
      if (node.op == &ops::kInput) {
        values_.push_back({inputs[next++]});
      } else {
        values_.push_back(RunNode(node));
      }
      is_drawn_[id] = IsDrawn(node, values_[id]);
    }
    std::vector<Value> outputs;
    for (GraphValue output : graph_.outputs()) outputs.push_back(*Stored(output));
    return outputs;
  }

  /// An output of the graph, which is wanted in these placements: random numbers lie so then.
  Value Output(size_t index, const std::vector<Placement>& placements) {
    const GraphValue output = graph_.outputs()[index];
    return is_drawn_[output.node] ? DrawnAt(output.node, placements) : *Stored(output);
  }

  /// Changes how a value lies along one axis.
  void Convert(Value& value, int axis, Placement to, const std::string& op,
               const std::string& reason, LocationId location) {
    Placement& from = value.placements[static_cast<size_t>(axis)];
    if (from == to) return;
    const Group& group = mesh_.group(axis);
    if (from.kind == Kind::kReplicate && to.kind == Kind::kPartial) {
      Throw(ErrorCode::kInternal, "sharding: a whole value as a sum");
    }
    auto note = [&](const char* collective) {
      const Shape& sent = value.local.shape();
      const bool is_sum = from.kind == Kind::kPartial && !value.summed_by.empty();
      report_.collectives.push_back(
          {collective, mesh_.name(axis), sent.to_string(), sent.bytes(), op,
           is_sum ? fmt::format("{}; the summands are of {}", reason, value.summed_by) : reason,
           WhereText(location)});
    };
    if (from.kind == Kind::kReplicate) {  // every rank has its part already
      const int64_t part = value.local.size(to.dim) / group.size();
      value.local = Sliced(value.local, to.dim, group.rank() * part, part);
    } else if (from.kind == Kind::kShard && to.kind == Kind::kReplicate) {
      note("all_gather");
      value.local = all_gather(value.local, from.dim, group);
    } else if (from.kind == Kind::kShard) {
      note("all_to_all");
      value.local = all_to_all(value.local, to.dim, from.dim, group);
    } else if (to.kind == Kind::kReplicate) {
      note("all_reduce");
      value.local = all_reduce(value.local, Reduction::kSum, group);
    } else {
      note("reduce_scatter");
      value.local = reduce_scatter(value.local, Reduction::kSum, to.dim, group);
    }
    from = to;
  }

 private:
  /// A dim can be cut along one axis only, and into equal parts.
  bool CanCut(const Value& value, int axis, Placement to) const {
    if (to.kind != Kind::kShard) return true;
    for (size_t other = 0; other < value.placements.size(); ++other) {
      if (static_cast<int>(other) != axis && value.placements[other] == to) return false;
    }
    return value.shape.size(to.dim) % mesh_.size(axis) == 0;
  }

  Value* Stored(GraphValue value) {
    return value.node ? &values_[value.node][static_cast<size_t>(value.index)] : nullptr;
  }

  /// How the node runs along each axis, and how its results lie.
  std::vector<AxisPlan> PlansFor(const GraphNode& node, std::vector<Placement>& out) {
    std::vector<Value> in;  // as planned so far
    for (GraphValue input : node.inputs) {
      const Value* value = Stored(input);
      in.push_back(value ? Value{{}, value->shape, value->placements} : Value());
    }
    std::vector<AxisPlan> plans;
    for (int axis = 0; axis < mesh_.axes(); ++axis) {
      const auto at = static_cast<size_t>(axis);
      AxisCall call{graph_, node, mesh_.size(axis), {}};
      for (const Value& value : in) {
        call.in.push_back(value.placements.empty() ? replicate() : value.placements[at]);
      }
      AxisPlan plan = PlanAxis(call);
      bool possible = plan.out.kind != Kind::kShard || std::ranges::count(out, plan.out) == 0;
      for (size_t i = 0; i < in.size(); ++i) {
        possible = possible && (in[i].placements.empty() || CanCut(in[i], axis, plan.in[i]));
      }
      if (!possible) {
        plan = {std::vector<Placement>(in.size(), replicate()),
                replicate(),
                "the dim is cut along another axis",
                {},
                false,
                false};
      }
      for (size_t i = 0; i < in.size(); ++i) {
        if (!in[i].placements.empty()) in[i].placements[at] = plan.in[i];
      }
      out.push_back(plan.out);
      plans.push_back(std::move(plan));
    }
    return plans;
  }

  /// An operand as the plans want it. A sum is made once for all users, and so is each conversion.
  Value Operand(const GraphNode& node, size_t operand, const std::vector<AxisPlan>& plans) {
    Value* stored = Stored(node.inputs[operand]);
    if (!stored) return {};
    auto convert = [&](Value& value, int axis) {
      const AxisPlan& plan = plans[static_cast<size_t>(axis)];
      Convert(value, axis, plan.in[operand], node.op->name(), plan.reason, node.location);
    };
    std::string key =
        fmt::format("{}.{}", node.inputs[operand].node.number(), node.inputs[operand].index);
    for (int axis = 0; axis < mesh_.axes(); ++axis) {
      if (stored->placements[static_cast<size_t>(axis)].kind == Kind::kPartial) {
        convert(*stored, axis);
      }
      key += " " + plans[static_cast<size_t>(axis)].in[operand].to_string();
    }
    if (auto found = converted_.find(key); found != converted_.end()) return found->second;
    Value value = *stored;
    if (is_drawn_[node.inputs[operand].node]) {
      std::vector<Placement> wanted;
      for (const AxisPlan& plan : plans) wanted.push_back(plan.in[operand]);
      value = DrawnAt(node.inputs[operand].node, wanted);
    }
    for (int axis = 0; axis < mesh_.axes(); ++axis) convert(value, axis);
    converted_.emplace(key, value);
    return value;
  }

  // ---- random numbers: a rank that needs its part of them alone draws no others

  /// A row of random words, in the sizes of what they are drawn for (ops::Row).
  struct WordRow {
    GraphValue state;
    int64_t row, rows;
  };
  std::optional<WordRow> WordRowOf(const GraphNode& node) const {
    if (node.op != &ops::kReshape) return std::nullopt;
    const GraphNode* words = &graph_[node.inputs[0].node];
    int64_t row = 0;
    if (words->op == &ops::kSlice && words->attr("dim").integer() == 0 &&
        words->attr("size").integer() == 1) {
      row = words->attr("start").integer();
      words = &graph_[words->inputs[0].node];
    }
    if (words->op != &ops::kRngBits || words->type().rank() != 2 ||
        words->type().size(1) != node.type().numel()) {
      return std::nullopt;
    }
    return WordRow{words->inputs[0], row, words->type().size(0)};
  }

  /// Whether a node is made of random words element by element, and lies whole on every rank.
  bool IsDrawn(const GraphNode& node, const std::vector<Value>& values) const {
    auto is_whole = [](const Value& value) {
      return std::ranges::count(value.placements, replicate()) == std::ssize(value.placements);
    };
    if (values.size() != 1 || !is_whole(values[0])) return false;
    if (WordRowOf(node)) return true;
    bool any = false;
    for (GraphValue input : node.inputs) {
      if (!input.node || !is_whole(values_[input.node][static_cast<size_t>(input.index)])) {
        return false;
      }
      any = any || is_drawn_[input.node];
    }
    return any && (node.op->IsElementwise() || node.op == &ops::kCast || node.op == &ops::kWhere);
  }

  /// A drawn value in other placements: the same numbers as those of the whole.
  Value DrawnAt(NodeId id, const std::vector<Placement>& placements) {
    std::string key = fmt::format("{}.0", id.number());
    for (const Placement& placement : placements) key += " " + placement.to_string();
    if (auto found = converted_.find(key); found != converted_.end()) return found->second;
    const GraphNode& node = graph_[id];
    LocationOverride scope(node.location);
    const Dims whole = node.type().sizes(), sizes = LocalSizes(node.type(), mesh_, placements);
    Value value = values_[id][0];
    if (sizes == whole) return value;
    if (const auto words = WordRowOf(node)) {
      Dims start = Dims::Filled(whole.size(), 0);
      for (int axis = 0; axis < mesh_.axes(); ++axis) {
        const Placement& own = placements[static_cast<size_t>(axis)];
        if (own.kind == Kind::kShard) start[own.dim] = mesh_.group(axis).rank() * sizes[own.dim];
      }
      Tensor drawn =
          ops::WordsFrom(Stored(words->state)->local, sizes, {whole, start}, words->rows);
      value.local = ops::Reshaped(Sliced(drawn, 0, words->row, 1), sizes);
    } else {
      std::vector<Tensor> operands;
      for (GraphValue input : node.inputs) {
        Value operand = *Stored(input);
        if (is_drawn_[input.node]) operand = DrawnAt(input.node, placements);
        for (int axis = 0; axis < mesh_.axes(); ++axis) {
          Convert(operand, axis, placements[static_cast<size_t>(axis)], "", "", 0);
        }
        operands.push_back(operand.local);
      }
      value.local = ApplyMulti(*node.op, Location(), operands, node.attrs)[0];
    }
    value.placements = placements;
    converted_.emplace(key, value);
    return value;
  }

  std::vector<Value> RunNode(const GraphNode& node) {
    std::vector<Placement> out;
    const std::vector<AxisPlan> plans = PlansFor(node, out);
    std::vector<Value> in;
    std::string summed_by;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      in.push_back(Operand(node, i, plans));
      if (std::ranges::count(in.back().placements, partial()) > 0) summed_by = in.back().summed_by;
    }
    if (summed_by.empty()) summed_by = node.op->name();
    LocationOverride scope(node.location);
    std::vector<Tensor> results = Apply(node, in, out, plans);
    std::vector<Value> values;
    for (size_t i = 0; i < results.size(); ++i) {
      values.push_back({std::move(results[i]), node.types[i], out, summed_by});
    }
    for (int axis = 0; axis < mesh_.axes(); ++axis) {
      const auto& reduce = plans[static_cast<size_t>(axis)].reduce;
      if (!reduce) continue;
      Tensor& local = values[0].local;
      report_.collectives.push_back(
          {"all_reduce", mesh_.name(axis), local.shape().to_string(), local.shape().bytes(),
           node.op->name(), plans[static_cast<size_t>(axis)].reason, WhereText(node.location)});
      local = all_reduce(local, *reduce, mesh_.group(axis));
    }
    return values;
  }

  std::vector<Tensor> Apply(const GraphNode& node, const std::vector<Value>& in,
                            const std::vector<Placement>& out, const std::vector<AxisPlan>& plans) {
    if (in.empty()) {
      if (node.op == &ops::kConstant)
        return {Constant(node.attrs[0].scalar(), node.attrs[1].dtype())};
      return {FinishOp(RecordNodeOn(*node.op, node.attrs, Context().home_device, tls_location), 0)};
    }
    std::vector<Tensor> operands;
    for (const Value& value : in) operands.push_back(value.local);
    std::vector<Attr> attrs = node.attrs;
    if (node.op == &ops::kReshape || node.op == &ops::kBroadcast) {
      attrs[0] = Attr(LocalSizes(node.type(), mesh_, out));
    }
    Tensor mask;
    for (int axis = 0; axis < mesh_.axes(); ++axis) {
      const AxisPlan& plan = plans[static_cast<size_t>(axis)];
      if (plan.lookup_in_part) mask = LookUpInPart(node, operands, mesh_.group(axis));
      if (plan.scatter_of_parts && mesh_.group(axis).rank() != 0) {
        operands[0] = ops::ZerosLike(operands[0].shape(), operands[0]);
      }
    }
    std::vector<Tensor> results = ApplyMulti(*node.op, Location(), operands, attrs);
    if (mask.defined()) {
      results[0] = where(mask, results[0], ops::ConstantLike(0, results[0]));
    }
    return results;
  }

  /// Makes the index one into this rank's rows; returns which of them it has.
  static Tensor LookUpInPart(const GraphNode& node, std::vector<Tensor>& operands,
                             const Group& group) {
    const int dim = static_cast<int>(node.attr("dim").integer());
    Tensor& index = operands[1];
    const int64_t rows = operands[0].size(dim), begin = group.rank() * rows;
    const int64_t all = rows * group.size();
    auto number = [&](int64_t value) { return ops::ConstantLike(value, index); };
    Tensor own = logical_and(ge(index, number(begin)), lt(index, number(begin + rows)));
    Tensor wrong = logical_or(lt(index, number(0)), ge(index, number(all)));
    // Other ranks' rows look up row 0; wrong indices fail as ever.
    index = where(wrong, number(all), where(own, sub(index, number(begin)), number(0)));
    Dims sizes = Dims::Filled(operands[0].dim(), 1);
    sizes[dim] = own.numel();
    return ops::Reshaped(own, sizes);
  }

  const Graph& graph_;
  const Mesh& mesh_;
  ShardingReport& report_;
  NodeMap<std::vector<Value>> values_;
  std::map<std::string, Value> converted_;  // by value and placements
  NodeMap<bool> is_drawn_;
};

}  // namespace

// ---- ShardedTensor

ShardedTensor distribute(const Tensor& whole, const Mesh& mesh, std::vector<Placement> placements,
                         Location at) {
  LocationScope scope(at);
  CheckPlacements(whole.shape(), mesh, placements);
  Tensor local = whole;
  for (int axis = 0; axis < mesh.axes(); ++axis) {
    const Placement& own = placements[static_cast<size_t>(axis)];
    if (own.kind == Kind::kPartial) {
      Throw(ErrorCode::kValue, "distribute: a whole tensor is no sum of all ranks");
    }
    if (own.kind != Kind::kShard) continue;
    const int64_t part = local.size(own.dim) / mesh.size(axis);
    local = local.narrow(own.dim, mesh.group(axis).rank() * part, part);
  }
  return {local.contiguous(), whole.shape(), mesh, std::move(placements)};
}

Tensor ShardedTensor::whole(Location at) const {
  LocationScope scope(at);
  ShardingReport ignored;
  Graph none;
  Value value{local, shape, placements};
  Interpreter interpreter(none, mesh, ignored);
  for (int axis = 0; axis < mesh.axes(); ++axis) {
    interpreter.Convert(value, axis, replicate(), "whole", "", 0);
  }
  return value.local;
}

// ---- ShardedFunction

struct ShardedFunction::State {
  struct Traced {
    TracedFunction function;
    Graph graph;  // of primitives
  };
  Fn fn;
  std::map<std::string, Traced> traced;  // by the types of the inputs
  ShardingReport report;

  const Traced& For(const std::vector<ShardedTensor>& inputs, Location at);
};

const ShardedFunction::State::Traced& ShardedFunction::State::For(
    const std::vector<ShardedTensor>& inputs, Location at) {
  std::string key;
  for (const ShardedTensor& input : inputs) key += input.shape.to_string() + " ";
  if (auto found = traced.find(key); found != traced.end()) return found->second;
  std::vector<Tensor> examples;  // never computed
  for (const ShardedTensor& input : inputs) {
    examples.push_back(zeros(input.shape.sizes(), input.shape.dtype(), input.local.device()));
  }
  Traced entry{TraceFunction("ShardedFunction", fn, examples, at), {}};
  // Random numbers that the trace has drawn are drawn again by the call.
  for (const ParameterSource& source : entry.function.parameters) {
    if (source.kind != ParameterSource::kRandom) continue;
    Generator generator = source.generator ? *source.generator : Generator::Default();
    generator.set_offset(std::min(generator.offset(), source.offset));
  }
  if (!entry.function.writes.empty()) {
    Throw<NotSupported>(ErrorCode::kNotSupported,
                        "ShardedFunction: the function writes to its argument {}",
                        entry.function.writes[0].first);
  }
  entry.graph = RemoveDead(MakeExplicit(ExpandComposites(entry.function.graph)));
  return traced.emplace(key, std::move(entry)).first->second;
}

ShardedFunction::ShardedFunction(Fn fn, Location at) : state_(std::make_unique<State>()) {
  LocationScope scope(at);
  if (!fn) Throw(ErrorCode::kValue, "ShardedFunction: the function is empty");
  state_->fn = std::move(fn);
}
ShardedFunction::~ShardedFunction() = default;

const ShardingReport& ShardedFunction::report() const { return state_->report; }

std::vector<ShardedTensor> ShardedFunction::operator()(
    const std::vector<ShardedTensor>& inputs, const std::vector<std::vector<Placement>>& outputs,
    Location at) {
  LocationScope scope(at);
  if (inputs.empty()) Throw(ErrorCode::kValue, "ShardedFunction: it needs at least one input");
  const Mesh& mesh = inputs[0].mesh;
  for (const ShardedTensor& input : inputs) {
    if (!(input.mesh == mesh)) {
      Throw(ErrorCode::kValue, "ShardedFunction: its inputs lie on different meshes");
    }
    CheckPlacements(input.shape, mesh, input.placements);
  }
  const State::Traced& traced = state_->For(inputs, at);
  const std::vector<Placement> whole(static_cast<size_t>(mesh.axes()), replicate());
  std::vector<Value> values;
  std::multimap<uint64_t, size_t> random;  // in the order of recording, which is that of one rank
  for (const ParameterSource& source : traced.function.parameters) {
    if (source.kind == ParameterSource::kInput) {
      const ShardedTensor& input = inputs[source.input];
      values.push_back({input.local, input.shape, input.placements});
    } else if (source.kind == ParameterSource::kConstant) {
      values.push_back({Tensor::FromValue(source.constant), source.constant.shape(), whole});
    } else {
      random.emplace(source.offset, values.size());
      values.push_back({Tensor(), Shape(DType::kU64, {2}), whole});
    }
  }
  for (const auto& [offset, at_index] : random) {
    const ParameterSource& source = traced.function.parameters[at_index];
    std::optional<Generator> generator;
    if (source.generator) generator = *source.generator;
    values[at_index].local = MakeRngState(generator, source.blocks, inputs[0].local.device());
  }
  state_->report = {};
  Interpreter interpreter(traced.graph, mesh, state_->report);
  const std::vector<Value> results = interpreter.Run(values);
  const auto& sources = traced.function.outputs;
  if (!outputs.empty() && outputs.size() != sources.size()) {
    Throw(ErrorCode::kValue, "ShardedFunction: {} outputs, but placements of {}", sources.size(),
          outputs.size());
  }
  std::vector<ShardedTensor> made;
  for (size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].kind == ResultSource::kInput) {
      made.push_back(inputs[sources[i].index]);
      continue;
    }
    if (sources[i].kind == ResultSource::kOutput) {
      made.push_back(made[sources[i].index]);
      continue;
    }
    if (sources[i].kind == ResultSource::kConstant) {
      Tensor constant = Tensor::FromValue(sources[i].value);
      made.push_back({constant, constant.shape(), mesh, whole});
      continue;
    }
    Value value = results[sources[i].index];
    std::vector<Placement> wanted = outputs.empty() ? value.placements : outputs[i];
    for (Placement& placement : wanted) {
      if (outputs.empty() && placement.kind == Kind::kPartial) placement = replicate();
    }
    CheckPlacements(value.shape, mesh, wanted);
    value = interpreter.Output(sources[i].index, wanted);
    for (int axis = 0; axis < mesh.axes(); ++axis) {
      interpreter.Convert(
          value, axis, wanted[static_cast<size_t>(axis)], "output",
          "the result is wanted as " + wanted[static_cast<size_t>(axis)].to_string(), 0);
    }
    made.push_back({value.local, value.shape, mesh, std::move(wanted)});
  }
  return made;
}

}  // namespace hammock::distributed
