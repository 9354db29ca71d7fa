#pragma once
/// Helpers of the rules.

#include <functional>
#include <string>

#include "conform/rules.h"
#include "hammock/hammock.h"

namespace hammock::tool {

/// Loads the plug-in and makes its first device the default one.
Device Open(const Subject& subject);

/// The first element that differs, or nothing.
std::string Difference(const HostTensor& got, const HostTensor& wanted, double tolerance = 0);

/// Small numbers, some of them negative where the dtype has such.
HostTensor Ramp(DType dtype, const Dims& sizes);

/// With an end of line, unless it is empty.
std::string Line(const std::string& text);

/// A line where `run` does not raise an E.
template <class E>
std::string ExpectError(const std::string& what, const std::function<void()>& run) {
  try {
    run();
  } catch (const E&) {
    return "";
  }
  return what + ": no error was raised\n";
}

}  // namespace hammock::tool
