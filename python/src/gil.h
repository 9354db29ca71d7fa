#pragma once
/// Work without the GIL.

#include <unistd.h>

#include "python_api.h"

namespace hammock::python {

/// Whether the interpreter is ending: threads other than its main one never get the GIL again.
inline bool IsFinalizing() {
#if PY_VERSION_HEX >= 0x030d0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

/// Takes the GIL back. A daemon thread that would do so while the interpreter ends is left waiting:
/// Python would end it by unwinding its C++ frames.
inline void TakeGilBack(PyThreadState* state) {
  while (IsFinalizing() && getpid() != gettid()) pause();
  PyEval_RestoreThread(state);
}

/// Releases the GIL while it lives.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() noexcept(false) { TakeGilBack(state_); }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* const state_;
};

}  // namespace hammock::python
