#pragma once
/// Prints of values that are not computed yet; see debug_print in hammock/print.h.

namespace hammock {

/// Hands the prints whose values a step of any thread has claimed to the thread of asynchronous
/// closures, which waits for them. Costs one load where there is none.
void StartClaimedPrints();

}  // namespace hammock
