#pragma once
/// What every file of the extension includes: Python, nanobind, and Hammock's tensors.

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <nanobind/nanobind.h>

#include "hammock/tensor.h"

namespace nb = nanobind;
