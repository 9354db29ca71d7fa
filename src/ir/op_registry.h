#pragma once
/// Private side of the registry.

#include <atomic>
#include <span>

#include "hammock/ir/op_def.h"

namespace hammock {

/// Makes a node of `op` from bound arguments: what CallOp does for records without `call`. Set by
/// the front end, which this folder does not know.
using NodeCallFn = Any (*)(const OpDef& op, std::span<const Any> args);
extern std::atomic<NodeCallFn> node_call;

/// ", did you mean 'add'?" for an unknown op, or "" in an empty registry.
std::string OpSuggestion(std::string_view name);

}  // namespace hammock
