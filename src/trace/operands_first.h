#pragma once
/// The one walk over recorded nodes that copies them: operands before their users, without
/// recursion.

#include <utility>
#include <vector>

#include "hammock/ir/node.h"

namespace hammock {

/// Calls `visit(node)` for every node that `root` is made of, operands first. `done(node, index)`
/// says which values are there already; it must be true for those of a visited node.
template <class Done, class Visit>
void VisitOperandsFirst(const Value& root, const Done& done, const Visit& visit) {
  std::vector<std::pair<const Node*, uint32_t>> stack{{root.node.get(), root.index}};
  while (!stack.empty()) {
    const auto [node, index] = stack.back();
    const size_t size = stack.size();
    if (!done(*node, index)) {
      for (const Node::Operand& operand : node->operands()) {
        if (!operand.node || done(*operand.node, operand.index)) continue;
        stack.emplace_back(operand.node, operand.index);
      }
      if (stack.size() > size) continue;
      visit(*node);
    }
    stack.pop_back();
  }
}

}  // namespace hammock
