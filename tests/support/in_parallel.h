#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <latch>
#include <thread>
#include <vector>

namespace hammock::testing {

/// Runs fn(i) on `count` threads at once; what they throw fails the test.
template <class F>
void InParallel(int count, F fn) {
  std::latch start(count);
  std::vector<std::jthread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&start, &fn, i] {
      start.arrive_and_wait();
      try {
        fn(i);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "thread " << i << ": " << error.what();
      }
    });
  }
}

}  // namespace hammock::testing
