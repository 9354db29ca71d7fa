#pragma once

namespace hammock {

/// Runs what add_step_closure collected; called at the end of a step.
void RunStepClosures();

}  // namespace hammock
