#pragma once
/// What the machine allows: plain loops over memory, and fused multiply-adds in registers.

#include <vector>

#include "workload.h"

namespace bench {

/// Appends the seconds of repeated passes, for `budget` seconds, by `threads` threads. A pass of
/// memory is over [kRows, kColumns] floats; one of arithmetic is of `flops` operations.
void MeasureFloor(Floor floor, double flops, int threads, double budget,
                  std::vector<double>& times);

}  // namespace bench
