#include "release.h"

#include <mutex>
#include <vector>

namespace hammock::python {
namespace {

struct Releases {
  std::mutex mutex;
  std::vector<PyObject*> objects;
};
Releases& releases() {
  static auto& instance = *new Releases;
  return instance;
}

int ReleaseObjects(void*) {
  std::vector<PyObject*> objects;
  {
    std::lock_guard lock(releases().mutex);
    objects.swap(releases().objects);
  }
  for (PyObject* object : objects) Py_DECREF(object);
  return 0;
}

}  // namespace

void ReleaseLater(PyObject* object) {
  if (!Py_IsInitialized()) return;
  std::lock_guard lock(releases().mutex);
  releases().objects.push_back(object);
  Py_AddPendingCall(ReleaseObjects, nullptr);  // where the queue is full, one of those does it
}

}  // namespace hammock::python
