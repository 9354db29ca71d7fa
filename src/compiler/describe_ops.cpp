// The table of all ops, from their records.

#include <fmt/format.h>

#include <iterator>

#include "base/nearest.h"
#include "compiler/passes/expand.h"
#include "hammock/error.h"
#include "hammock/inspect.h"
#include "hammock/ir/op_def.h"
#include "ir/op_registry.h"
#include "ir/sample.h"

namespace hammock {

namespace {

constexpr DType kTried[] = {DType::kBool, DType::kU8,   DType::kI32, DType::kI64,
                            DType::kF16,  DType::kBF16, DType::kF32, DType::kF64};

/// Whether the first sample is accepted with `dtype` for its main operands.
bool Accepts(const OpDef& op, const SampleCall& sample, DType main, DType dtype) {
  std::vector<Shape> types;
  std::vector<const Shape*> in;
  types.reserve(sample.operands.size());
  for (const auto& operand : sample.operands) {
    if (!operand) {
      in.push_back(nullptr);
      continue;
    }
    types.push_back(operand->dtype() == main ? operand->With(dtype) : *operand);
    in.push_back(&types.back());
  }
  try {
    InferShapes(op, in, sample.attrs);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// In words, found by asking the record's inference.
std::string DTypesOf(const OpDef& op) {
  std::vector<SampleCall> samples = op.IsNode() ? SampleCalls(op) : std::vector<SampleCall>();
  if (samples.empty() || samples[0].operands.empty() || !samples[0].operands[0]) return "";
  DType main = samples[0].operands[0]->dtype();
  bool truth = Accepts(op, samples[0], main, DType::kBool);
  int integers = 0, floats = 0;
  for (DType dtype : kTried) {
    if (dtype == DType::kBool || !Accepts(op, samples[0], main, dtype)) continue;
    ++(IsFloat(dtype) ? floats : integers);
  }
  if (integers == 3 && floats == 4) return truth ? "all" : "numbers";
  if (integers == 3 && floats == 0) return truth ? "integers, bool" : "integers";
  if (integers == 0 && floats == 4) return truth ? "floats, bool" : "floats";
  if (integers == 0 && floats == 2) return "f32, f64";
  if (integers == 0 && floats == 0) return truth ? "bool" : "";
  return "some";
}

const char* KindOf(const OpDef& op) {
  if (op.IsPrimitive()) return "primitive";
  return op.IsComposite() ? "composite" : "function";
}

/// Functions are as differentiable as what they call.
const char* GradientOf(const OpDef& op) {
  if (!op.IsNode()) return "";
  if (op.vjp) return "own";
  return op.IsComposite() ? "expanded" : "no";
}

const char* AutocastOf(const OpDef& op) {
  switch (op.autocast) {
    case AutocastRule::kNone:
      return "";
    case AutocastRule::kLow:
      return "16 bits";
    case AutocastRule::kF32:
      return "f32";
    case AutocastRule::kWidest:
      return "widest";
  }
  return "";
}

/// `|` would end a table's cell.
std::string Cell(std::string_view text) {
  std::string cell;
  for (char c : text) cell += c == '|' ? std::string("\\|") : std::string(1, c);
  return cell;
}

const char* RuleText(DTypeRule rule) {
  switch (rule) {
    case DTypeRule::kNone:
      return "";
    case DTypeRule::kPromote:
      return "operands are promoted to one dtype, which is the result's";
    case DTypeRule::kFloat:
      return "operands are promoted to one dtype, integers to the default float";
    case DTypeRule::kCompare:
      return "operands are promoted to one dtype, the result is bool";
    case DTypeRule::kLogical:
      return "operands are read as truth values, the result is bool";
    case DTypeRule::kInteger:
      return "operands are promoted to one dtype; floats are refused";
    case DTypeRule::kFloatTest:
      return "any dtype, the result is bool";
    case DTypeRule::kSelect:
      return "the first operand is bool, the others are promoted to one dtype";
  }
  return "";
}

/// A composite's first sample, expanded.
std::string ExpansionOf(const OpDef& op) {
  if (!op.IsComposite()) return "";
  std::vector<SampleCall> samples = SampleCalls(op);
  if (samples.empty()) return "";
  return ToText(ExpandComposites(GraphOfSample(op, samples[0])));
}

}  // namespace

OpDescription DescribeOp(const OpDef& op) {
  return {op.info().name, op.schema,         op.doc,         KindOf(op),
          DTypesOf(op),   RuleText(op.rule), GradientOf(op), ExpansionOf(op)};
}

std::vector<std::string> NearestOps(const std::string& name, size_t count) {
  std::vector<std::string_view> names;
  for (const OpDef* op : op_registry::All()) names.push_back(op->info().name);
  std::vector<std::string> nearest;
  while (nearest.size() < count && !names.empty()) {
    std::string_view best = NearestName(name, names);
    nearest.emplace_back(best);
    std::erase(names, best);
  }
  return nearest;
}

std::string DescribeOps() {
  std::string text;
  auto out = std::back_inserter(text);
  fmt::format_to(out,
                 "| op | what it does | dtypes | kind | gradient | autocast |\n"
                 "|---|---|---|---|---|---|\n");
  for (const OpDef* op : op_registry::All()) {
    fmt::format_to(out, "| `{}` | {} | {} | {} | {} | {} |\n", Cell(op->schema), Cell(op->doc),
                   DTypesOf(*op), KindOf(*op), GradientOf(*op), AutocastOf(*op));
  }
  return text;
}

}  // namespace hammock
