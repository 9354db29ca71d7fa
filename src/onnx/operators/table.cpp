#include <algorithm>
#include <map>
#include <string_view>

#include "base/never_destroyed.h"
#include "onnx/operators/families.h"
#include "onnx/program.h"

namespace hammock::onnx {
namespace {

using Table = std::map<std::pair<std::string_view, std::string_view>, std::vector<const Operator*>>;

Table MakeTable() {
  Table table;
  for (std::span<const Operator> family : {ElementwiseOperators(),
                                           ShapeOperators(),
                                           IndexOperators(),
                                           ReduceOperators(),
                                           MatmulOperators(),
                                           ConvOperators(),
                                           PoolOperators(),
                                           NormOperators(),
                                           AttentionOperators(),
                                           RecurrentOperators(),
                                           ControlOperators(),
                                           SequenceOperators(),
                                           QuantizeOperators(),
                                           ImageOperators(),
                                           LossOperators(),
                                           SignalOperators(),
                                           RandomOperators(),
                                           TextOperators(),
                                           LearningOperators(),
                                           TrainingOperators(),
                                           ContribOperators(),
                                           DecodeOperators(),
                                           MapOperators(),
                                           SvmOperators(),
                                           ContribAttentionOperators(),
                                           ContribQuantizeOperators()}) {
    for (const Operator& op : family) table[{op.domain, op.name}].push_back(&op);
  }
  return table;
}

const Table& TheTable() {
  static const auto& table = NeverDestroyed<Table>(MakeTable());
  return table;
}

std::vector<std::string_view> WordsOf(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t at = 0; (at = text.find_first_not_of(' ', at)) != text.npos;) {
    const size_t end = std::min(text.find(' ', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

/// The value of an attribute that is a number or a text; empty for one that a caller gives.
std::string TextOf(const format::Attribute& attribute) {
  if (!attribute.from_caller.empty()) return "";
  if (attribute.kind == format::Attribute::kInt) return std::to_string(attribute.i);
  return attribute.kind == format::Attribute::kFloat ? fmt::format("{}", attribute.f) : attribute.s;
}

}  // namespace

const Operator* FindOperator(std::string_view domain, std::string_view name, int64_t opset) {
  auto found = TheTable().find({domain, name});
  if (found == TheTable().end()) return nullptr;
  for (const Operator* op : found->second) {
    if (opset >= op->since && opset <= op->until) return op;
  }
  return nullptr;
}

std::string RefusedPart(const Operator& op, const format::Node& node) {
  if (!op.takes) return "";
  std::string_view takes = op.takes;
  const size_t end = std::min(takes.find(';'), takes.size());
  const std::vector<std::string_view> inputs = WordsOf(takes.substr(0, end));
  const bool more = inputs.back().ends_with('*');
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i].empty() || (more && i + 1 >= inputs.size())) continue;
    if (i >= inputs.size()) return fmt::format("input {}", i);
    if (inputs[i].starts_with('!')) return fmt::format("input '{}'", inputs[i].substr(1));
  }
  const std::vector<std::string_view> attributes =
      WordsOf(takes.substr(std::min(end + 1, takes.size())));
  for (const format::Attribute& attribute : node.attributes) {
    bool taken = std::ranges::any_of(attributes, [&](std::string_view word) {
      const size_t equals = std::min(word.find('='), word.size());
      return word.substr(0, equals) == attribute.name &&
             (equals == word.size() || word.substr(equals + 1) == TextOf(attribute));
    });
    if (!taken) return fmt::format("attribute '{}'", attribute.name);
  }
  return "";
}

std::vector<const Operator*> AllOperators() {
  std::vector<const Operator*> all;
  for (const auto& [name, rows] : TheTable()) all.insert(all.end(), rows.begin(), rows.end());
  return all;
}

int64_t Wrapped(const Call& call, int64_t axis, int64_t rank) {
  int64_t wrapped = axis < 0 ? axis + rank : axis;
  if (wrapped < 0 || wrapped >= std::max<int64_t>(rank, 1)) {
    call.Fail("axis {} of a tensor of rank {}", axis, rank);
  }
  return wrapped;
}

Dims AxesOf(const Call& call, const char* attribute, size_t input, int64_t rank) {
  std::vector<int64_t> axes = call.HasAttribute(attribute) ? call.IntList(attribute)
                              : call.Has(input)            ? call.Ints(input)
                                                           : std::vector<int64_t>();
  for (int64_t& axis : axes) axis = Wrapped(call, axis, rank);
  std::ranges::sort(axes);
  return Dims(axes);
}

int64_t Product(const Dims& sizes, int first, int last) {
  int64_t product = 1;
  for (int i = first; i < last; ++i) product *= sizes[i];
  return product;
}

void CheckListed(const Call& call, int64_t count) {
  constexpr int64_t kMost = int64_t{1} << 24;
  if (count < 0 || count > kMost)
    call.Fail("a list of {} numbers, at most {} can be", count, kMost);
}

Tensor VectorOf(const Call& call, const std::vector<int64_t>& values) {
  return Recorded(HostTensor::From(values, Dims(static_cast<int64_t>(values.size()))),
                  call.device());
}

Tensor VectorOf(const Call& call, const std::vector<float>& values, const Dims& sizes) {
  return Recorded(HostTensor::From(values, sizes), call.device());
}

}  // namespace hammock::onnx
