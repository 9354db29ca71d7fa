#pragma once
/// Graphs of the sample calls that records carry.

#include <utility>
#include <vector>

#include "hammock/ir/graph.h"
#include "ir/sample.h"

namespace hammock {

/// The samples of all records, by name.
std::vector<std::pair<const OpDef*, SampleCall>> AllSamples();

/// Dim parameters, several outputs, a nested graph, text and number attributes, a location.
Graph GraphOfAllForms();

}  // namespace hammock
