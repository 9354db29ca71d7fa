#pragma once
/// Private side of the registry.

#include <span>

#include "hammock/ir/op_def.h"

namespace hammock {

namespace ops {
/// Every record of this library, by family: registered at the registry's first use. Defined in
/// src/ops/primitives/table.cpp, which this folder does not know.
std::span<const OpDef* const> InTreeOps();
}  // namespace ops

/// Calls an op with bound arguments, one per argument of its schema.
Any CallRecord(const OpDef& def, std::vector<Any> bound);

/// Makes a node of `op` from bound arguments: what CallOp does for records without `call`. Defined
/// by the front end (src/trace/box.cpp), which this folder does not know.
Any CallNode(const OpDef& op, std::span<const Any> args);

/// A number given for a tensor before another tensor takes the dtype that it has beside that one,
/// as it does behind it. Defined with CallNode.
void LiftFirst(const OpDef& op, std::span<Any> args);

/// ", did you mean 'add'?" for an unknown op, or "" in an empty registry.
std::string OpSuggestion(std::string_view name);

}  // namespace hammock
