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

}  // namespace

const Operator* FindOperator(std::string_view domain, std::string_view name, int64_t opset) {
  auto found = TheTable().find({domain, name});
  if (found == TheTable().end()) return nullptr;
  for (const Operator* op : found->second) {
    if (opset >= op->since && opset <= op->until) return op;
  }
  return nullptr;
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
