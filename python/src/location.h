#pragma once
/// The Python line that calls Hammock: the first frame outside of the package.

#include <string>

#include "hammock/foreign_call.h"
#include "hammock/location.h"

typedef struct _object PyObject;

namespace hammock::python {

/// Code in files below this directory is Hammock's own: its callers are named instead.
void SetPackageDirectory(std::string directory);

/// The code object and instruction of the caller, interned. File and line are looked up when
/// someone asks for them. Needs the GIL.
LocationId CallerLocation();

/// While one lives, what this thread records and raises is inside of a call of a Python module, and
/// of those that are open. Names are looked up once for each line and module. Needs the GIL.
class ModuleCall {
 public:
  /// The module outlives the call.
  explicit ModuleCall(PyObject* module);
  ~ModuleCall();
  ModuleCall(const ModuleCall&) = delete;
  ModuleCall& operator=(const ModuleCall&) = delete;

 private:
  friend struct OpenCalls;

  ModuleCall* const outer_;
  PyObject* const module_;
  const LocationId called_at_;
  ForeignFrames frames_ = nullptr;  // this call and those around it; null: not looked up
};
/// Modules have other names than before.
void ModuleTreeChanged();

/// While one lives, what this thread records and raises belongs to the calling Python line.
class CallerLine {
 public:
  CallerLine() : scope_(CallerLocation()) {}

 private:
  LocationScope scope_;
};

}  // namespace hammock::python
