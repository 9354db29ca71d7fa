#pragma once
/// Nodes with inferred types. Programs repeat their calls: result types and hash of a call with the
/// op, attributes and operand types of one that the thread recorded lately are looked up.

#include <span>

#include "hammock/ir/node.h"

namespace hammock {

/// A node of the op, attributes and result types of a call, whose operands are absent: what
/// NodeAccess::MakeLike takes. Absent operands have no type.
NodePtr ModelOf(const OpDef& op, std::span<const Shape* const> types, std::span<const Attr> attrs);

/// Operands are borrowed; absent ones have neither node nor type.
NodePtr MakeInferredNode(const OpDef& op, std::span<const Node::Operand> operands,
                         std::span<const Shape* const> types, std::span<const Attr> attrs,
                         DeviceId device, LocationId location);

}  // namespace hammock
