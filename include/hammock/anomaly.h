#pragma once
/// AnomalyGuard: finds the op that makes the first NaN or infinity.
///
///   AnomalyGuard guard;  // or for the whole process, the option `debug_nans`
///   Tensor loss = log(x - 1.0).mean();
///   loss.item();
///   // ValueError: log made a NaN at [2] of f32[4], where it was given -1 [at loss.cpp:2 in head]
///
/// A step whose results have a NaN or an infinity that did not come with its inputs fails: its
/// error names the op, its line and module, for the op of a gradient the line of the forward pass,
/// and what it was given. Results are read to be looked at; a step is computed a second time, with
/// all values kept, only to find the op. Nothing is checked twice that goes well.

#include "hammock/export.h"

namespace hammock {

/// While one lives, the steps of the process are checked. At its end, what its thread has recorded
/// is run; errors are raised where values are read, as always.
class HAMMOCK_API AnomalyGuard {
 public:
  AnomalyGuard();
  ~AnomalyGuard();
  AnomalyGuard(const AnomalyGuard&) = delete;
  AnomalyGuard& operator=(const AnomalyGuard&) = delete;
  static bool is_enabled();
};

}  // namespace hammock
