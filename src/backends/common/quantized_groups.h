#pragma once

#include <cstdint>
#include <optional>

#include "hammock/ir/shape.h"

namespace hammock {

/// How rows of a quantised matrix [n, k] share scales: how many elements of a row have one, and the
/// step of scales from row to row.
struct QuantizedGroups {
  int64_t size, stride;
};

/// Nothing if scales belong to several rows, but not to all of them.
inline std::optional<QuantizedGroups> GroupsOf(const Shape& scale, int64_t n, int64_t k) {
  if (scale.numel() == 1) return QuantizedGroups{k, 0};
  const int64_t columns = scale.sizes().back();
  if (scale.rank() == 1) return QuantizedGroups{k / columns, 0};
  if (scale.size(0) != n && scale.size(0) != 1) return std::nullopt;
  return QuantizedGroups{k / columns, scale.size(0) == 1 ? 0 : columns};
}

}  // namespace hammock
