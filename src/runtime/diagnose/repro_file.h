#pragma once
/// The bytes of repro files (hammock/repro.h): magic, version, size and checksum of the rest, then
/// the graph, the elements of its inputs, and the values that were asked for.

#include <string>
#include <string_view>
#include <vector>

#include "hammock/host_tensor.h"
#include "hammock/ir/graph.h"

namespace hammock {

/// A saved tensor is a value of the graph; inputs are nodes of it too.
struct Repro {
  Graph graph;
  std::vector<HostTensor> inputs;
  std::vector<GraphValue> values;
};

std::string EncodeRepro(const Repro& repro);
/// ValueError (kParse) for a damaged file, whose name is `path`. What it returns is consistent, and
/// its graph verified.
Repro DecodeRepro(const std::string& path, std::string_view file);

}  // namespace hammock
