#pragma once
/// IrBuilder: one facade over the op records for code that builds nodes by hand (backends, tests,
/// ports of upstream code). Final on purpose: a backend's own nodes are op records of its own, not
/// overrides.

#include <optional>
#include <span>

#include "hammock/export.h"
#include "hammock/ir/node.h"
#include "hammock/lazy/backend_data.h"

namespace hammock::lazy {

class HAMMOCK_API IrBuilder final {
 public:
  NodePtr MakeDeviceData(const BackendDataPtr& data) const;
  /// A constant in the graph: its value is part of the key.
  NodePtr MakeScalar(const Scalar& value, DType dtype) const;
  NodePtr MakeExpand(const Value& input, const Dims& size, bool is_scalar_expand = false) const;
  NodePtr MakeCast(const Value& input, DType dtype,
                   std::optional<DType> source = std::nullopt) const;
  NodePtr MakeTensorList(std::span<const Value> inputs) const;
  /// Any record by node; shapes are inferred when empty.
  NodePtr MakeGeneric(const OpDef& op, std::span<const Value> operands,
                      std::span<const Attr> attrs = {}, std::span<const Shape> shapes = {}) const;

  // Dimension arithmetic: i64 scalars.
  NodePtr MakeSizeNode(const Value& input, int64_t dim) const;
  NodePtr MakeSizeAdd(const Value& a, const Value& b) const;
  NodePtr MakeSizeMul(const Value& a, const Value& b) const;
  NodePtr MakeSizeDiv(const Value& a, const Value& b) const;

  // Views.
  NodePtr MakeView(const Value& input, const Dims& size) const;
  NodePtr MakeAsStrided(const Value& input, const Dims& size, const Dims& stride,
                        int64_t offset) const;
  NodePtr MakeAsStridedViewUpdate(const Value& target, const Value& input, const Dims& size,
                                  const Dims& stride, int64_t offset) const;
  NodePtr MakeDiagonal(const Value& input, int64_t offset, int64_t dim1, int64_t dim2) const;
  NodePtr MakeDiagonalViewUpdate(const Value& target, const Value& input, int64_t offset,
                                 int64_t dim1, int64_t dim2) const;
  NodePtr MakeNarrow(const Value& input, std::span<const int64_t> base_indices,
                     std::span<const int64_t> sizes) const;
  NodePtr MakeNarrowViewUpdate(const Value& input, const Value& source,
                               std::span<const int64_t> base_indices) const;
  NodePtr MakePermute(const Value& input, const Dims& dims) const;
  NodePtr MakeResize(const Value& input, const Dims& size) const;
  NodePtr MakeSelect(const Value& input, int64_t dim, int64_t start, int64_t end,
                     int64_t stride) const;
  NodePtr MakeSelectViewUpdate(const Value& target, const Value& source, int64_t dim, int64_t start,
                               int64_t end, int64_t stride) const;
  NodePtr MakeSqueeze(const Value& input, int64_t dim) const;  ///< dim -1: all of size one
  NodePtr MakeUnsqueeze(const Value& input, int64_t dim) const;
};

/// The value of a dimension node: sizes are concrete here, so it is exact.
HAMMOCK_API int64_t DimensionValue(const Node& node);

}  // namespace hammock::lazy
