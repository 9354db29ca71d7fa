#pragma once
/// Hammock's errors as Python exceptions, which also derive from the builtin that fits.

#include <cxxabi.h>

#include <string>
#include <utility>

#include "python_api.h"

namespace hammock::python {

/// Makes the exception classes and adds them to the module.
void AddErrors(nb::module_& module);

/// Turns the C++ exception that is being handled into the Python error.
void SetPythonError() noexcept;

/// Raises the Python error that is set, through C++ code.
[[noreturn]] inline void ThrowPythonError() { throw nb::python_error(); }

/// Throws a Python TypeError.
[[noreturn]] void ThrowTypeError(const std::string& message);

/// Runs `call` for a slot of a type: its C++ exceptions become Python errors and `failed`.
template <class Call, class Result = decltype(std::declval<Call>()())>
Result Guarded(Call&& call, Result failed = Result()) {
  try {
    return call();
  } catch (abi::__forced_unwind&) {  // Python ends the thread
    throw;
  } catch (...) {
    SetPythonError();
    return failed;
  }
}

}  // namespace hammock::python
