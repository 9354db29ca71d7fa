#pragma once
/// References to Python objects that Hammock holds. Their last user may be any thread, with or
/// without the GIL, which leaves them to the main thread.

#include <memory>

#include "python_api.h"

namespace hammock::python {

/// Takes over one reference. May be called without the GIL, and after the interpreter has ended.
void ReleaseLater(PyObject* object);

/// A shared reference that any thread may drop.
inline std::shared_ptr<PyObject> Keep(nb::handle object) {
  return {Py_NewRef(object.ptr()), ReleaseLater};
}

}  // namespace hammock::python
