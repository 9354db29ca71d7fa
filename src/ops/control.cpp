#include <charconv>
#include <optional>

#include "hammock/ir/graph.h"
#include "ops/primitives.h"
#include "ops/record.h"

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

void InferCond(const InferCall& call) {
  const Shape& predicate = *call.in[0];
  RequireScalar(call, predicate, "predicate");
  RequireDType(call, predicate.dtype() == DType::kBool, predicate, "a bool predicate");
  std::vector<Shape> operands = OperandTypes(call, 1);
  const Graph& then = call.attrs[0].graph();
  const Graph& otherwise = call.attrs[1].graph();
  RequireTypes(call, "what `then` takes", InputTypes(then), operands);
  RequireTypes(call, "what `otherwise` takes", InputTypes(otherwise), operands);
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
    .can_fail = true,
};
constinit const OpDef kWhile = {
    .schema = "while(Tensor[] carried, Graph condition, Graph body) -> Tensor[]",
    .doc = "Replaces the carried values by those of `body` as long as `condition` holds.",
    .infer = InferWhile,
    .can_fail = true,
};
constinit const OpDef kLoop = {
    .schema =
        "loop(Tensor[] operands, Graph body, int count, int num_carried, "
        "int num_stacked_in) -> Tensor[]",
    .doc =
        "Runs `body` count times on (i, carried, slices of the stacked operands, invariants); "
        "returns the carried values and the stacked other results.",
    .infer = InferLoop,
    .can_fail = true,
};
constinit const OpDef kCustomCall = {
    .schema = "custom_call(Tensor[] operands, str target, str payload, str[] types) -> Tensor[]",
    .doc = "Calls a function registered under `target`; `types` are those of its results.",
    .effect = Effect::kOrdered,
    .infer = InferCustomCall,
    .can_fail = true,
};

}  // namespace hammock::ops
