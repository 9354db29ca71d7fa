#pragma once
/// The header of every file of the extension: Python, nanobind, and Hammock's tensors.

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <nanobind/nanobind.h>

#include "hammock/tensor.h"

namespace nb = nanobind;
