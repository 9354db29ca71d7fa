#pragma once
/// TorchScript graphs as programs.

#include <hammock/device.h>
#include <torch/csrc/jit/ir/ir.h>

#include "engine/program.h"

namespace hammock_torch {

/// A graph without calls of functions or methods (inlined); branches and loops may be in it.
/// Throws Unsupported for kinds of nodes that have no meaning here.
Program ProgramOf(const torch::jit::Graph& graph, const hammock::Device& device);

/// Of each input, whether the graph uses it only as a number: callers may pass the number instead
/// of a tensor of one element.
std::vector<bool> NumberInputs(const torch::jit::Graph& graph);

}  // namespace hammock_torch
