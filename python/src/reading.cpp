#include "reading.h"

#include "errors.h"
#include "gil.h"
#include "hammock/interrupt.h"
#include "hammock/lazy/host_sharing.h"

namespace hammock::python {
namespace {

/// Python runs the handlers of signals on its main thread, between instructions; here it is asked
/// to, so that Ctrl-C ends a wait.
void CheckSignals() {
  if (!Py_IsInitialized()) return;
  nb::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) ThrowPythonError();
}

void* ReleaseGil() {
  return Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr;
}
constexpr HostLock kGil{.release = ReleaseGil, .take_back = [](void* state) {
                          TakeGilBack(static_cast<PyThreadState*>(state));
                        }};

}  // namespace

HostTensor Read(const Tensor& tensor) {
  Tensor held = tensor;  // another thread may let go of the object meanwhile
  WithoutGil no_gil;
  return SharedElements(held, Location());
}

Scalar Item(const Tensor& tensor) {
  Tensor held = tensor;
  WithoutGil no_gil;
  return held.item(Location());
}

void AddInterrupts() {
  SetWaitCheck(CheckSignals);
  SetHostLock(&kGil);
  SetCollector([] {
    nb::gil_scoped_acquire gil;
    PyGC_Collect();
  });
}

}  // namespace hammock::python
