#pragma once
/// Ids in texts: fmt prints their numbers.

#include <fmt/format.h>

#include "hammock/ir/id.h"

template <class Tag>
struct fmt::formatter<hammock::Id<Tag>> : fmt::formatter<int32_t> {
  template <class Context>
  auto format(hammock::Id<Tag> id, Context& context) const {
    return formatter<int32_t>::format(id.number(), context);
  }
};
