#pragma once
/// The line of the user's program that calls, for errors that surface later. The Python module
/// knows it; a program without Python has none.

#include <hammock/location.h>

namespace hammock_torch {

using CallerFn = hammock::LocationId (*)();
void SetCaller(CallerFn caller);
/// 0 where it is unknown.
hammock::LocationId Caller();

}  // namespace hammock_torch
