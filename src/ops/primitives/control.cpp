#include <charconv>
#include <optional>

#include "hammock/autograd.h"
#include "hammock/ir/graph.h"
#include "hammock/op_builder.h"
#include "hammock/ops/operators.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/record.h"
#include "ops/primitives/collectives.h"
#include "ops/primitives/loop.h"
#include "trace/symbolic.h"

namespace hammock::ops {
namespace {

std::vector<Shape> InputTypes(const Graph& graph) {
  std::vector<Shape> types;
  for (NodeId id : graph.inputs()) types.push_back(graph[id].type());
  return types;
}

std::vector<Shape> OutputTypes(const Graph& graph) {
  std::vector<Shape> types;
  for (GraphValue value : graph.outputs()) types.push_back(graph.TypeOf(value));
  return types;
}

std::string Listed(std::span<const Shape> types) {
  std::string text = "(";
  for (const Shape& type : types) text += (text.size() > 1 ? ", " : "") + type.to_string();
  return text + ")";
}

void RequireTypes(const InferCall& call, const char* what, std::span<const Shape> actual,
                  std::span<const Shape> wanted) {
  if (std::equal(actual.begin(), actual.end(), wanted.begin(), wanted.end())) return;
  Refuse(call, ErrorCode::kShapeMismatch, "{} is {}, needs {}", what, Listed(actual),
         Listed(wanted));
}

std::vector<Shape> OperandTypes(const InferCall& call, size_t first) {
  std::vector<Shape> types;
  for (const Shape* type : call.in.subspan(first)) types.push_back(*type);
  return types;
}

/// A body that some ranks may run and others not, or more often.
void RefuseCollectives(const InferCall& call, const char* body, const Graph& graph) {
  const GraphNode* found = FindCollective(graph);
  if (!found) return;
  Refuse<NotSupported>(call, ErrorCode::kNotSupported,
                       "`{}` has {}, in which ranks would wait in vain for those that decide "
                       "otherwise; call it outside, or in a for_loop",
                       body, found->op->name());
}

void InferCond(const InferCall& call) {
  const Shape& predicate = *call.in[0];
  RequireScalar(call, predicate, "predicate");
  RequireDType(call, predicate.dtype() == DType::kBool, predicate, "a bool predicate");
  std::vector<Shape> operands = OperandTypes(call, 1);
  const Graph& then = call.attrs[0].graph();
  const Graph& otherwise = call.attrs[1].graph();
  RequireTypes(call, "what `then` takes", InputTypes(then), operands);
  RequireTypes(call, "what `otherwise` takes", InputTypes(otherwise), operands);
  RefuseCollectives(call, "then", then);
  RefuseCollectives(call, "otherwise", otherwise);
  call.out = OutputTypes(then);
  RequireTypes(call, "what `otherwise` returns", OutputTypes(otherwise), call.out);
}

void InferWhile(const InferCall& call) {
  std::vector<Shape> carried = OperandTypes(call, 0);
  const Graph& condition = call.attrs[0].graph();
  const Graph& body = call.attrs[1].graph();
  RequireTypes(call, "what `condition` takes", InputTypes(condition), carried);
  RequireTypes(call, "what `body` takes", InputTypes(body), carried);
  Shape truth(DType::kBool, {});
  RequireTypes(call, "what `condition` returns", OutputTypes(condition), {&truth, 1});
  RequireTypes(call, "what `body` returns", OutputTypes(body), carried);
  RefuseCollectives(call, "condition", condition);
  RefuseCollectives(call, "body", body);
  call.out = carried;
}

/// The type of one iteration's part of a stacked operand.
Shape SliceOfStack(const InferCall& call, const Shape& stack, int64_t count) {
  if (stack.rank() == 0 || stack.size(0) != count) {
    Refuse(call, ErrorCode::kShapeMismatch, "a stacked operand is {}, needs {} as its first size",
           stack.to_string(), count);
  }
  Dims sizes = stack.sizes();
  sizes.erase(0);
  return stack.With(sizes);
}

void InferLoop(const InferCall& call) {
  const Graph& body = call.attrs[0].graph();
  int64_t count = call.attrs[1].integer();
  int64_t carried = call.attrs[2].integer();
  int64_t stacked = call.attrs[3].integer();
  int64_t operands = static_cast<int64_t>(call.in.size());
  if (count < 0 || carried < 0 || stacked < 0 || carried + stacked > operands) {
    Refuse(call, ErrorCode::kValue,
           "count {}, num_carried {} and num_stacked_in {} must be at least 0 and fit {} operands",
           count, carried, stacked, operands);
  }
  std::vector<Shape> wanted = {Shape(DType::kI64, {})};
  for (int64_t i = 0; i < operands; ++i) {
    bool is_stacked = i >= carried && i < carried + stacked;
    wanted.push_back(is_stacked ? SliceOfStack(call, *call.in[i], count) : *call.in[i]);
  }
  RequireTypes(call, "what `body` takes", InputTypes(body), wanted);
  std::vector<Shape> returned = OutputTypes(body);
  size_t kept = std::min(returned.size(), static_cast<size_t>(carried));
  RequireTypes(call, "what `body` returns first", std::span(returned).first(kept),
               std::span<const Shape>(wanted).subspan(1, carried));
  for (size_t i = kept; i < returned.size(); ++i) {
    Dims sizes = returned[i].sizes();
    sizes.insert(0, count);
    CheckSizes(call.op.name(), sizes);
    returned[i] = returned[i].With(sizes);
  }
  call.out = returned;
}

// ---- gradients

Tensors CallBody(const Graph& body, std::span<const Tensor> inputs) {
  const Attr attrs[] = {std::make_shared<const Graph>(body)};
  return ApplyMulti(kCall, Location(), inputs, attrs);
}

/// Gradients of the floating inputs of `body`, zeros where there are none, from those that arrive
/// at its floating results.
Tensors BodyGradients(const Graph& body, std::span<const Tensor> inputs,
                      std::span<const Tensor> cotangents) {
  EnableGradGuard enable;
  Tensors leaves(inputs.begin(), inputs.end()), wanted;
  for (Tensor& leaf : leaves) {
    leaf = leaf.detach();
    if (leaf.is_floating_point()) wanted.push_back(leaf.requires_grad_());
  }
  Tensors roots, arriving;
  size_t next = 0;
  for (const Tensor& result : CallBody(body, leaves)) {
    if (!result.is_floating_point()) continue;
    const Tensor& cotangent = cotangents[next++];
    if (!result.requires_grad()) continue;
    roots.push_back(result);
    arriving.push_back(cotangent);
  }
  Tensors grads(wanted.size());
  if (!roots.empty()) grads = grad(roots, wanted, arriving, false, false, true);
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].defined()) grads[i] = ZerosLike(wanted[i].shape(), wanted[i]);
  }
  return grads;
}

/// Each branch becomes its gradient, of the operands and of what arrives.
Tensors CondVjp(const VjpCall& c) {
  std::span<const Tensor> operands = c.in.subspan(1);
  Tensors inputs(operands.begin(), operands.end());
  std::vector<Shape> types;
  for (const Tensor& operand : operands) types.push_back(operand.shape());
  for (const Tensor& g : c.grads) {
    if (!g.defined()) continue;
    inputs.push_back(g);
    types.push_back(g.shape());
  }
  auto gradient_of = [&](const Attr& branch) {
    return Attr(
        std::make_shared<const Graph>(TraceSymbolically(types, [&](std::span<const Tensor> in) {
          return BodyGradients(branch.graph(), in.first(operands.size()),
                               in.subspan(operands.size()));
        })));
  };
  Tensors all{c.in[0]};
  all.insert(all.end(), inputs.begin(), inputs.end());
  const Attr attrs[] = {gradient_of(c.attrs[0]), gradient_of(c.attrs[1])};
  Tensors found = ApplyMulti(kCond, Location(), all, attrs);
  Tensors grads(c.in.size());
  size_t next = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].is_floating_point()) grads[i + 1] = found[next++];
  }
  return grads;
}

/// Two loops: one forward that keeps the carried values of every iteration, and one from the last
/// iteration to the first that carries the gradients of the carried values and sums those of the
/// invariants.
Tensors LoopVjp(const VjpCall& c) {
  const Graph& body = c.attrs[0].graph();
  int64_t count = c.attrs[1].integer();
  auto num_carried = static_cast<size_t>(c.attrs[2].integer());
  auto num_stacked = static_cast<size_t>(c.attrs[3].integer());
  LoopOperands operands;
  operands.carried.assign(c.in.begin(), c.in.begin() + static_cast<long>(num_carried));
  operands.stacked.assign(c.in.begin() + static_cast<long>(num_carried),
                          c.in.begin() + static_cast<long>(num_carried + num_stacked));
  operands.invariant.assign(c.in.begin() + static_cast<long>(num_carried + num_stacked),
                            c.in.end());
  Tensors grads(c.in.size());
  auto is_float = [](const Tensor& tensor) { return tensor.is_floating_point(); };
  auto inputs_of = [](const Tensor& index, std::span<const Tensor> carried,
                      std::span<const Tensor> slices, std::span<const Tensor> invariant) {
    Tensors inputs{index};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    inputs.insert(inputs.end(), slices.begin(), slices.end());
    inputs.insert(inputs.end(), invariant.begin(), invariant.end());
    return inputs;
  };

  Tensors forward = Loop(count, operands, [&](const LoopStep& s) {
    Tensors results = CallBody(body, inputs_of(s.index, s.carried, s.slices, s.invariant));
    results.resize(num_carried);
    results.insert(results.end(), s.carried.begin(), s.carried.end());
    return results;
  });

  // Backward: carried are the gradients of carried values, then those of invariants.
  LoopOperands back;
  for (size_t i = 0; i < num_carried; ++i) {
    if (is_float(operands.carried[i])) back.carried.push_back(c.grads[i]);
  }
  size_t carried_floats = back.carried.size();
  for (const Tensor& tensor : operands.invariant) {
    if (is_float(tensor)) back.carried.push_back(ZerosLike(tensor.shape(), c.in[0]));
  }
  for (size_t i = 0; i < num_carried; ++i) {
    back.stacked.push_back(Flipped(forward[num_carried + i], 0));
  }
  for (const Tensor& tensor : operands.stacked) back.stacked.push_back(Flipped(tensor, 0));
  for (size_t i = num_carried; i < c.out.size(); ++i) {
    if (c.grads[i].defined()) back.stacked.push_back(Flipped(c.grads[i], 0));
  }
  back.invariant = operands.invariant;

  Tensors found = Loop(count, back, [&](const LoopStep& s) {
    Tensors inputs =
        inputs_of(ConstantLike(count - 1, s.index) - s.index, s.slices.first(num_carried),
                  s.slices.subspan(num_carried, num_stacked), s.invariant);
    Tensors arriving(s.carried.begin(), s.carried.begin() + static_cast<long>(carried_floats));
    std::span<const Tensor> of_slices = s.slices.subspan(num_carried + num_stacked);
    arriving.insert(arriving.end(), of_slices.begin(), of_slices.end());
    // Of carried values, slices and invariants, in that order.
    Tensors parts = BodyGradients(body, inputs, arriving);
    Tensors results(parts.begin(), parts.begin() + static_cast<long>(carried_floats));
    size_t stacked_floats = parts.size() - s.carried.size();
    for (size_t i = carried_floats; i < s.carried.size(); ++i) {
      results.push_back(s.carried[i] + parts[stacked_floats + i]);
    }
    results.insert(results.end(), parts.begin() + static_cast<long>(carried_floats),
                   parts.begin() + static_cast<long>(carried_floats + stacked_floats));
    return results;
  });

  size_t next_carried = 0, next_stacked = back.carried.size();
  for (size_t i = 0; i < c.in.size(); ++i) {
    if (!is_float(c.in[i])) continue;
    bool is_stacked = i >= num_carried && i < num_carried + num_stacked;
    grads[i] = is_stacked ? Flipped(found[next_stacked++], 0) : found[next_carried++];
  }
  return grads;
}

/// "f32[2,3]", as a Shape prints.
std::optional<Shape> ParseType(std::string_view text) {
  size_t open = text.find('[');
  if (open == text.npos || text.back() != ']') return std::nullopt;
  std::optional<DType> dtype = DTypeFromName(text.substr(0, open));
  if (!dtype) return std::nullopt;
  Dims sizes;
  const char* next = text.data() + open + 1;
  const char* end = text.data() + text.size() - 1;
  while (next < end) {
    int64_t size = 0;
    auto [stop, error] = std::from_chars(next, end, size);
    if (error != std::errc() || sizes.size() == kMaxRank) return std::nullopt;
    if (stop != end && *stop != ',') return std::nullopt;
    sizes.push_back(size);
    next = stop + (stop != end);
  }
  return Shape(*dtype, sizes);
}

void InferCustomCall(const InferCall& call) {
  for (const std::string& text : call.attrs[2].strings()) {
    std::optional<Shape> type = ParseType(text);
    if (!type) {
      Refuse(call, ErrorCode::kParse, "'{}' is no type, needs one such as f32[2,3]", text);
    }
    CheckSizes(call.op.name(), type->sizes());
    call.out.push_back(*type);
  }
}

}  // namespace

constinit const OpDef kCond = {
    .schema = "cond(Tensor predicate, Tensor[] operands, Graph then, Graph otherwise) -> Tensor[]",
    .doc = "Runs one of two graphs on the operands.",
    .infer = InferCond,
    .takes_complex = true,
    .vjp = CondVjp,
    .can_fail = true,
};
constinit const OpDef kWhile = {
    .schema = "while(Tensor[] carried, Graph condition, Graph body) -> Tensor[]",
    .doc = "Replaces the carried values by those of `body` as long as `condition` holds.",
    .infer = InferWhile,
    .takes_complex = true,
    .can_fail = true,
};
constinit const OpDef kLoop = {
    .schema =
        "loop(Tensor[] operands, Graph body, SymInt count, int num_carried, "
        "int num_stacked_in) -> Tensor[]",
    .doc =
        "Runs `body` count times on (i, carried, slices of the stacked operands, invariants); "
        "returns the carried values and the stacked other results.",
    .infer = InferLoop,
    .takes_complex = true,
    .vjp = LoopVjp,
    .can_fail = true,
};
constinit const OpDef kCustomCall = {
    .schema = "custom_call(Tensor[] operands, str target, str payload, str[] types) -> Tensor[]",
    .doc = "Calls a function registered under `target`; `types` are those of its results.",
    .effect = Effect::kOrdered,
    .infer = InferCustomCall,
    .takes_complex = true,
    .can_fail = true,
};

}  // namespace hammock::ops
