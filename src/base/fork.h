#pragma once

#include <cstdint>

namespace hammock {

/// How many forks lie between the process that loaded the library and this one. Threads do not
/// survive a fork, and their locks stay as they were: what a thread was started for compares the
/// number it kept with this one before it touches anything. One atomic load.
uint64_t ForkCount();

}  // namespace hammock
