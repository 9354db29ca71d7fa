#include "onnx/operators/families.h"
#include "onnx/program.h"

namespace hammock::onnx {
namespace {

const Values& ItemsOf(const Call& c, size_t i) {
  const Value& value = c.At(i);
  if (value.kind != Value::Kind::kSequence) c.Fail("input {} must be a sequence", i);
  return value.items;
}

/// A position from the front; `end` may be one past the last.
size_t PositionOf(const Call& c, size_t i, size_t size, bool end) {
  int64_t at = c.Number(i).ToInt(), count = static_cast<int64_t>(size);
  if (at < 0) at += count;
  if (at < 0 || at >= count + (end ? 1 : 0)) c.Fail("position {} of {}", c.Number(i).ToInt(), size);
  return static_cast<size_t>(at);
}

Values SequenceAt(Call& c) {
  const Values& items = ItemsOf(c, 0);
  return {items[PositionOf(c, 1, items.size(), false)]};
}

Values SequenceConstruct(Call& c) {
  return {Value::Sequence({c.inputs().begin(), c.inputs().end()})};
}

Values SequenceEmpty(Call&) { return {Value::Sequence({})}; }

Values SequenceInsert(Call& c) {
  Values items = ItemsOf(c, 0);
  size_t at = c.Has(2) ? PositionOf(c, 2, items.size(), true) : items.size();
  items.insert(items.begin() + static_cast<long>(at), c.At(1));
  return {Value::Sequence(std::move(items))};
}

Values SequenceErase(Call& c) {
  Values items = ItemsOf(c, 0);
  if (items.empty()) c.Fail("the sequence is empty");
  size_t at = c.Has(1) ? PositionOf(c, 1, items.size(), false) : items.size() - 1;
  items.erase(items.begin() + static_cast<long>(at));
  return {Value::Sequence(std::move(items))};
}

Values SequenceLength(Call& c) {
  auto count = static_cast<int64_t>(ItemsOf(c, 0).size());
  return {Value::Known(HostTensor::From(Scalar(count)))};
}

Values SplitToSequence(Call& c) {
  Tensor x = c[0];
  int64_t axis = Wrapped(c, c.Int("axis", 0), x.dim()), size = x.size(axis);
  std::vector<int64_t> parts;
  CheckListed(c, size);
  bool whole = c.Has(1), keep = whole || c.Int("keepdims", 1);
  if (whole && c.Host(1).shape().rank() == 0) {
    int64_t each = c.Number(1).ToInt();
    if (each < 1) c.Fail("parts of size {}", each);
    for (int64_t left = size; left > 0; left -= each) parts.push_back(std::min(each, left));
  } else if (whole) {
    parts = c.Ints(1);
  } else {
    parts.assign(static_cast<size_t>(size), 1);
  }
  Values items;
  for (const Tensor& part : split_with_sizes(x, parts, axis)) {
    items.push_back(keep ? part : squeeze(part, axis));
  }
  return {Value::Sequence(std::move(items))};
}

Values ConcatFromSequence(Call& c) {
  std::vector<Tensor> tensors;
  for (const Value& item : ItemsOf(c, 0)) tensors.push_back(c.run().TensorOf(item));
  if (tensors.empty()) c.Fail("the sequence is empty");
  bool join_new = c.Int("new_axis", 0);
  int64_t axis = Wrapped(c, c.Int("axis", 0), tensors[0].dim() + (join_new ? 1 : 0));
  return {join_new ? stack(tensors, axis) : cat(tensors, axis)};
}

Values OptionalOf(Call& c) { return {c.Has(0) ? c.At(0) : Value()}; }
Values OptionalGetElement(Call& c) { return {c.At(0)}; }
Values OptionalHasElement(Call& c) { return {Value::Known(HostTensor::From(Scalar(c.Has(0))))}; }

// They take what no tensor is: never folded.
constexpr Operator kRows[] = {
    {"ConcatFromSequence", 11, kNewestOpset, ConcatFromSequence, Needs::kScope},
    {"Optional", 15, kNewestOpset, OptionalOf, Needs::kScope},
    {"OptionalGetElement", 15, kNewestOpset, OptionalGetElement, Needs::kScope},
    {"OptionalHasElement", 15, kNewestOpset, OptionalHasElement, Needs::kScope},
    {"SequenceAt", 11, kNewestOpset, SequenceAt, Needs::kScope},
    {"SequenceConstruct", 11, kNewestOpset, SequenceConstruct, Needs::kScope},
    {"SequenceEmpty", 11, kNewestOpset, SequenceEmpty, Needs::kScope},
    {"SequenceErase", 11, kNewestOpset, SequenceErase, Needs::kScope},
    {"SequenceInsert", 11, kNewestOpset, SequenceInsert, Needs::kScope},
    {"SequenceLength", 11, kNewestOpset, SequenceLength, Needs::kScope},
    {"SplitToSequence", 11, kNewestOpset, SplitToSequence, Needs::kScope},
};

}  // namespace

std::span<const Operator> SequenceOperators() { return kRows; }

}  // namespace hammock::onnx
