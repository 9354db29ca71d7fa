#pragma once
/// Prints of values that are not computed yet; see debug_print in hammock/print.h.

namespace hammock {

/// At the end of a sync, however it ends, hands the prints whose values a step has claimed or
/// failed to compute to the thread of asynchronous closures, which waits for them. Costs one load
/// where there is none.
struct ClaimedPrints {
  ClaimedPrints() = default;
  ~ClaimedPrints();
  ClaimedPrints(const ClaimedPrints&) = delete;
  ClaimedPrints& operator=(const ClaimedPrints&) = delete;
};

}  // namespace hammock
