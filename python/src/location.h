#pragma once
/// The Python line that calls Hammock: the first frame outside of the package.

#include <string>

#include "hammock/location.h"

namespace hammock::python {

/// Code in files below this directory is Hammock's own: its callers are named instead.
void SetPackageDirectory(std::string directory);

/// The code object and instruction of the caller, interned. File and line are looked up when
/// someone asks for them. Needs the GIL.
LocationId CallerLocation();

/// While one lives, what this thread records and raises belongs to the calling Python line.
class CallerLine {
 public:
  CallerLine() : scope_(CallerLocation()) {}

 private:
  LocationScope scope_;
};

}  // namespace hammock::python
