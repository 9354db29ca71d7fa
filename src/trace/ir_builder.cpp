#include "hammock/lazy/ir_builder.h"

#include <algorithm>

#include "base/throw.h"
#include "hammock/device.h"
#include "hammock/lazy/backend_interface.h"
#include "ir/node_access.h"
#include "ir/primitives.h"
#include "trace/record.h"

namespace hammock::lazy {

namespace {

NodePtr One(const OpDef& op, const Value& input, std::initializer_list<Attr> attrs) {
  if (!input) Throw(ErrorCode::kValue, "IrBuilder: the operand of {} is empty", op.name());
  return RecordNode(op, std::span(&input, 1), std::span(attrs.begin(), attrs.size()),
                    CurrentLocation());
}

NodePtr Two(const OpDef& op, const Value& a, const Value& b,
            std::initializer_list<Attr> attrs = {}) {
  if (!a || !b) Throw(ErrorCode::kValue, "IrBuilder: an operand of {} is empty", op.name());
  const Value operands[] = {a, b};
  return RecordNode(op, operands, std::span(attrs.begin(), attrs.size()), CurrentLocation());
}

Value First(NodePtr node) { return {std::move(node), 0}; }

DeviceId IdOf(const BackendDevice& device) {
  for (const Device& each : Devices()) {
    if (each.backend_device() == device) return each.id();
  }
  Throw(ErrorCode::kUnknownDevice, "IrBuilder: {} is no device of a registered backend",
        device.toString());
}

/// Strides, offset and sizes of a diagonal of a contiguous value.
struct DiagonalGeometry {
  Dims sizes, strides;
  int64_t offset;
};
DiagonalGeometry Diagonal(const Shape& shape, int64_t offset, int64_t dim1, int64_t dim2) {
  int d1 = WrapDim("diagonal", dim1, shape.rank());
  int d2 = WrapDim("diagonal", dim2, shape.rank());
  if (d1 == d2) Throw(ErrorCode::kValue, "diagonal: the two dims must differ, both are {}", d1);
  Dims strides = ContiguousStrides(shape.sizes());
  int64_t rows = shape.size(d1), columns = shape.size(d2);
  int64_t length = std::max<int64_t>(
      0, offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns));
  DiagonalGeometry result{{}, {}, 0};
  if (length > 0) result.offset = offset >= 0 ? offset * strides[d2] : -offset * strides[d1];
  for (int i = 0; i < shape.rank(); ++i) {
    if (i == d1 || i == d2) continue;
    result.sizes.push_back(shape.size(i));
    result.strides.push_back(strides[i]);
  }
  result.sizes.push_back(length);
  result.strides.push_back(strides[d1] + strides[d2]);
  return result;
}

}  // namespace

NodePtr IrBuilder::MakeDeviceData(const BackendDataPtr& data) const {
  if (!data) Throw(ErrorCode::kValue, "MakeDeviceData: the data is null");
  return MakeDataLeaf(data, IdOf(data->device()), CurrentLocation());
}

NodePtr IrBuilder::MakeScalar(const Scalar& value, DType dtype) const {
  const Attr attrs[] = {Attr(value.To(dtype)), Attr(dtype)};
  return RecordNodeOn(ops::kConstant, attrs, kNoDevice, CurrentLocation());
}

NodePtr IrBuilder::MakeExpand(const Value& input, const Dims& size, bool) const {
  return One(ops::kBroadcast, input, {Attr(size)});
}

NodePtr IrBuilder::MakeCast(const Value& input, DType dtype, std::optional<DType> source) const {
  if (input && source && input.shape().dtype() != *source) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "MakeCast: the input is {}, not {}",
                     input.shape().to_string(), NameOf(*source));
  }
  return One(ops::kCast, input, {Attr(dtype)});
}

NodePtr IrBuilder::MakeTensorList(std::span<const Value> inputs) const {
  if (inputs.empty()) Throw(ErrorCode::kValue, "MakeTensorList: the list is empty");
  return RecordNode(ops::kTensorList, inputs, {}, CurrentLocation());
}

NodePtr IrBuilder::MakeGeneric(const OpDef& op, std::span<const Value> operands,
                               std::span<const Attr> attrs, std::span<const Shape> shapes) const {
  if (shapes.empty()) return RecordNode(op, operands, attrs, CurrentLocation());
  size_t declared = op.info().attribute_args.size();
  if (attrs.size() != declared) {
    Throw(ErrorCode::kSchema, "MakeGeneric: {} has {} attribute(s), {} are given", op.name(),
          declared, attrs.size());
  }
  DeviceId device = kNoDevice;
  for (const Value& operand : operands) {
    if (operand) device = CommonDevice(op, operand.node->device(), device);
  }
  return Node::Make(op, operands, attrs, shapes, device, CurrentLocation());
}

// Sizes are concrete while tracing, so a dimension node is a constant that remembers its value.
NodePtr IrBuilder::MakeSizeNode(const Value& input, int64_t dim) const {
  if (!input) Throw(ErrorCode::kValue, "MakeSizeNode: the input is empty");
  return MakeScalar(input.shape().size(WrapDim("MakeSizeNode", dim, input.shape().rank())),
                    DType::kI64);
}
NodePtr IrBuilder::MakeSizeAdd(const Value& a, const Value& b) const {
  return Two(ops::kAdd, a, b);
}
NodePtr IrBuilder::MakeSizeMul(const Value& a, const Value& b) const {
  return Two(ops::kMul, a, b);
}
NodePtr IrBuilder::MakeSizeDiv(const Value& a, const Value& b) const {
  if (b && DimensionValue(*b.node) == 0)
    Throw(ErrorCode::kValue, "MakeSizeDiv: Can't divide a dimension by zero");
  return Two(ops::kTruncDivide, a, b);
}

int64_t DimensionValue(const Node& node) {
  if (&node.op() == &ops::kConstant) return node.attrs()[0].integer();
  auto operands = node.operands();
  if (operands.size() == 2) {
    int64_t a = DimensionValue(*operands[0].node), b = DimensionValue(*operands[1].node);
    if (&node.op() == &ops::kAdd) return a + b;
    if (&node.op() == &ops::kMul) return a * b;
    if (&node.op() == &ops::kTruncDivide) {
      if (b == 0) Throw(ErrorCode::kValue, "Can't divide a dimension by zero");
      return a / b;
    }
  }
  Throw(ErrorCode::kValue, "not a dimension node: {}", node.to_string());
}

NodePtr IrBuilder::MakeView(const Value& input, const Dims& size) const {
  return One(ops::kReshape, input, {Attr(size)});
}
NodePtr IrBuilder::MakeAsStrided(const Value& input, const Dims& size, const Dims& stride,
                                 int64_t offset) const {
  return One(ops::kAsStrided, input, {Attr(size), Attr(stride), Attr(offset)});
}
NodePtr IrBuilder::MakeAsStridedViewUpdate(const Value& target, const Value& input,
                                           const Dims& size, const Dims& stride,
                                           int64_t offset) const {
  if (input && input.shape().sizes() != size) {
    Throw(ErrorCode::kShapeMismatch, "MakeAsStridedViewUpdate: the input is {}, not of sizes {}",
          input.shape().to_string(), ToString(size));
  }
  return Two(ops::kAsStridedScatter, target, input, {Attr(stride), Attr(offset)});
}
NodePtr IrBuilder::MakeDiagonal(const Value& input, int64_t offset, int64_t dim1,
                                int64_t dim2) const {
  if (!input) Throw(ErrorCode::kValue, "MakeDiagonal: the input is empty");
  DiagonalGeometry geometry = Diagonal(input.shape(), offset, dim1, dim2);
  return MakeAsStrided(input, geometry.sizes, geometry.strides, geometry.offset);
}
NodePtr IrBuilder::MakeDiagonalViewUpdate(const Value& target, const Value& input, int64_t offset,
                                          int64_t dim1, int64_t dim2) const {
  if (!target) Throw(ErrorCode::kValue, "MakeDiagonalViewUpdate: the target is empty");
  DiagonalGeometry geometry = Diagonal(target.shape(), offset, dim1, dim2);
  return Two(ops::kAsStridedScatter, target, input,
             {Attr(geometry.strides), Attr(geometry.offset)});
}

NodePtr IrBuilder::MakeNarrow(const Value& input, std::span<const int64_t> base_indices,
                              std::span<const int64_t> sizes) const {
  Value value = input;
  for (size_t i = 0; i < base_indices.size() && i < sizes.size(); ++i) {
    value =
        First(One(ops::kSlice, value,
                  {Attr(static_cast<int64_t>(i)), Attr(base_indices[i]), Attr(sizes[i]), Attr(1)}));
  }
  return value.node;
}

NodePtr IrBuilder::MakeNarrowViewUpdate(const Value& input, const Value& source,
                                        std::span<const int64_t> base_indices) const {
  if (!input || !source) {
    Throw(ErrorCode::kValue, "MakeNarrowViewUpdate: an operand is empty");
  }
  if (source.shape().rank() != static_cast<int>(base_indices.size())) {
    Throw(ErrorCode::kShapeMismatch, "MakeNarrowViewUpdate: {} indices for a source of {}",
          base_indices.size(), source.shape().to_string());
  }
  // Slices along all dims but the last are taken apart and put back, innermost first.
  std::vector<Value> outer{input};
  for (size_t i = 0; i + 1 < base_indices.size(); ++i) {
    outer.push_back(First(One(ops::kSlice, outer.back(),
                              {Attr(static_cast<int64_t>(i)), Attr(base_indices[i]),
                               Attr(source.shape().size(static_cast<int>(i))), Attr(1)})));
  }
  Value written = source;
  for (size_t i = base_indices.size(); i-- > 0;) {
    written = First(Two(ops::kUpdateSlice, outer[i], written,
                        {Attr(static_cast<int64_t>(i)), Attr(base_indices[i]), Attr(1)}));
  }
  return written.node;
}

NodePtr IrBuilder::MakePermute(const Value& input, const Dims& dims) const {
  return One(ops::kPermute, input, {Attr(dims)});
}

NodePtr IrBuilder::MakeResize(const Value& input, const Dims& size) const {
  if (!input) Throw(ErrorCode::kValue, "MakeResize: the input is empty");
  int64_t have = input.shape().numel();
  int64_t need = Shape(input.shape().dtype(), size).numel();
  Value flat = First(One(ops::kReshape, input, {Attr(Dims{have})}));
  if (need < have) {
    flat = First(One(ops::kSlice, flat, {Attr(0), Attr(0), Attr(need), Attr(1)}));
  } else if (need > have) {
    Value zero = First(MakeScalar(0, input.shape().dtype()));
    flat = First(Two(ops::kPad, flat, zero, {Attr(Dims{0}), Attr(Dims{need - have})}));
  }
  return One(ops::kReshape, flat, {Attr(size)});
}

NodePtr IrBuilder::MakeSelect(const Value& input, int64_t dim, int64_t start, int64_t end,
                              int64_t stride) const {
  if (stride <= 0)
    Throw(ErrorCode::kValue, "MakeSelect: the stride must be positive, not {}", stride);
  int64_t size = std::max<int64_t>(0, (end - start + stride - 1) / stride);
  return One(ops::kSlice, input, {Attr(dim), Attr(start), Attr(size), Attr(stride)});
}
NodePtr IrBuilder::MakeSelectViewUpdate(const Value& target, const Value& source, int64_t dim,
                                        int64_t start, int64_t, int64_t stride) const {
  return Two(ops::kUpdateSlice, target, source, {Attr(dim), Attr(start), Attr(stride)});
}

NodePtr IrBuilder::MakeSqueeze(const Value& input, int64_t dim) const {
  if (!input) Throw(ErrorCode::kValue, "MakeSqueeze: the input is empty");
  Dims sizes;
  const Dims& from = input.shape().sizes();
  for (int i = 0; i < from.size(); ++i) {
    if (from[i] != 1 || (dim != -1 && dim != i)) sizes.push_back(from[i]);
  }
  return One(ops::kReshape, input, {Attr(sizes)});
}

NodePtr IrBuilder::MakeUnsqueeze(const Value& input, int64_t dim) const {
  if (!input) Throw(ErrorCode::kValue, "MakeUnsqueeze: the input is empty");
  Dims sizes = input.shape().sizes();
  sizes.insert(WrapDim("unsqueeze", dim, sizes.size() + 1), 1);
  return One(ops::kReshape, input, {Attr(sizes)});
}

}  // namespace hammock::lazy
