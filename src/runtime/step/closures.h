#pragma once
/// Functions that run after a step; see add_step_closure in hammock/executor.h.
///
/// A closure belongs to the thread that added it and runs after that thread's next step.
/// Asynchronous ones of all threads share one bounded queue and run on its thread, in order.

#include <functional>

namespace hammock {

/// Runs `fn` on the thread of asynchronous closures, behind those that were handed over; at exit
/// the rest is run.
void PushAsyncClosure(std::function<void()> fn);

/// Raises the error of an earlier asynchronous closure, once; then hands this thread's asynchronous
/// closures to their queue and runs the others here, in order. When one throws, the error is the
/// caller's and the closures behind it wait for the next step.
void RunStepClosures();

/// Waits for the asynchronous closures that were handed over.
void DrainStepClosures();

}  // namespace hammock
