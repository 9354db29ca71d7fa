#pragma once
/// A module of C++ as Python sees it.

#include "hammock/module.h"

namespace hammock::python {

struct Program {
  ModulePtr module;
};

}  // namespace hammock::python
