#pragma once
/// The other side of the comparison, kept behind plain functions so that its headers meet none of
/// ours.

#include "workload.h"

namespace peer {

/// Null where the benchmark was built without libtorch.
const char* Name();
void Start(int threads);
/// Throws std::exception where the workload cannot be made.
bench::Side Make(const bench::Row& row, const std::vector<bench::Array>& inputs, bool lazy);

}  // namespace peer
