#pragma once
/// The private side of AnomalyGuard.

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "hammock/error.h"
#include "hammock/ir/graph.h"
#include "hammock/lazy/backend_data.h"
#include "hammock/location.h"

namespace hammock {

struct Step;

/// Whether the values of steps that run now are to be checked.
bool ChecksValues();

/// An op that made a NaN or an infinity, by its number in the walk of the step or of the trace.
struct Anomaly {
  std::shared_ptr<const Error> error;
  NodeId origin;
};
/// The first op that made what is not finite in the results of a step that has run, on arguments
/// that it did not overwrite; none where all is finite or came with the arguments.
std::optional<Anomaly> FindAnomaly(const Step& step, std::span<const BackendDataPtr> results);

/// The location of what the gradient of `op` records: the line of the forward pass, and that of the
/// call of `backward`.
LocationId GradientLocation(LocationId forward, const std::string& op, LocationId backward);

}  // namespace hammock
