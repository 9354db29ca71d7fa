#pragma once
/// One walk over what a sync needs: from the roots to data, once, without recursion. Gives the
/// post-order, the parameters, the outputs and the canonical key.

#include <cstdint>
#include <span>
#include <vector>

#include "hammock/ir/graph.h"
#include "hammock/ir/node.h"

namespace hammock {

/// Reused from sync to sync; valid while the graph mutex is held.
struct Walk {
  std::vector<Node*> order;                 ///< post-order; leaves and computed nodes included
  std::vector<Node*> parameters;            ///< leaves and computed nodes, by parameter number
  std::vector<uint32_t> parameter_outputs;  ///< which output of a computed node each parameter is
  std::vector<Output> outputs;              ///< what the step must produce, in order
  std::vector<uint64_t> key;                ///< bytes that say exactly what will be computed
  Hash128 hash;                             ///< of the key
  int64_t kept = 0;                         ///< outputs that are no roots
  Node* failed = nullptr;                   ///< a node on the way whose error is known

  void Clear();
};

/// With the graph mutex held. `device` and `config_bits` become part of the key.
void RunWalk(std::span<const Value> roots, DeviceId device, uint64_t config_bits, Walk& walk);

/// The traced graph of a walk: composites whole, operands unpromoted. Node i of the walk has origin
/// i.
Graph GraphOf(const Walk& walk);

/// Whether a node's value is at hand: a leaf, or its slot is filled or claimed.
bool IsAvailable(const Node& node);

}  // namespace hammock
