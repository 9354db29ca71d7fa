#pragma once

#include "hammock/ir/graph.h"

namespace hammock {

/// Makes pure nodes of equal op, attributes, types and operands one; the first one's location
/// stays. `rng_bits` is pure, since its operand fixes seed and offset; a node whose record says
/// random draws by itself and is never shared. Inputs are not shared. What a `barrier` gives is
/// equal to no other value, so a region that is computed again behind one stays. Linear in the
/// number of nodes.
Graph ShareEqual(Graph graph);

}  // namespace hammock
