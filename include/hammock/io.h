#pragma once
/// Files of tensors: safetensors, NumPy's, and those that data sets come in.

#include "hammock/io/npz.h"
#include "hammock/io/readers.h"
#include "hammock/io/safetensors.h"
