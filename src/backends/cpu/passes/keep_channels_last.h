#pragma once
/// KeepChannelsLast: images between convolutions keep their channels last, the layout of the
/// library.

#include "hammock/ir/graph.h"

namespace hammock::cpu {

/// The pass of compiler/passes/channels_last.h for convolutions and windows without padding.
Graph KeepChannelsLast(Graph graph);

/// The pass of compiler/passes/narrow_matmuls.h for convolutions that the library takes.
Graph NarrowByteConvolutions(Graph graph);

}  // namespace hammock::cpu
