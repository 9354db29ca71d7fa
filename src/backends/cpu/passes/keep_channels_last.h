#pragma once
/// KeepChannelsLast: images between convolutions keep their channels last, the layout of the
/// library.

#include "hammock/ir/graph.h"

namespace hammock::cpu {

/// The pass of compiler/passes/channels_last.h for convolutions and windows without padding.
Graph KeepChannelsLast(Graph graph);

}  // namespace hammock::cpu
