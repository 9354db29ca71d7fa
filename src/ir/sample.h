#pragma once

#include <optional>
#include <vector>

#include "hammock/ir/graph.h"
#include "hammock/ir/op_def.h"

namespace hammock {

/// A sample call of a record: types of its operands, none for absent ones, and attributes.
struct SampleCall {
  std::vector<std::optional<Shape>> operands;
  std::vector<Attr> attrs;
};

/// One sample of `op`; throws if it is no text of a call.
SampleCall ParseSample(const OpDef& op, const Sample& sample);
/// The samples of a record; one of f32 (i32 where floats are refused) for an elementwise op without
/// attributes that has none.
std::vector<SampleCall> SampleCalls(const OpDef& op);

/// One input per operand of the sample, and the node, whose results are the outputs.
Graph GraphOfSample(const OpDef& op, const SampleCall& sample);

}  // namespace hammock
