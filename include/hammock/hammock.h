#pragma once
/// All that a program needs: tensors and their ops, sparse tensors, gradients, vmap, modules and
/// layers, optimisers, data, files, checkpoints, compiled functions, mixed precision, and the
/// runtime's settings and metrics. Apart from it are what extends Hammock: backends (lazy/),
/// delegates (jit/), ops (op_builder.h).

#if __cplusplus < 202002L
#error "Hammock's headers need C++20: compile with -std=c++20, or link Hammock::hammock in CMake"
#else
#include <version>
#ifndef __cpp_lib_source_location
#error "Hammock's headers need std::source_location: g++ 11 or later, clang 16 or later"
#else

#include "hammock/anomaly.h"
#include "hammock/autocast.h"
#include "hammock/autograd.h"
#include "hammock/checkpoint.h"
#include "hammock/compile.h"
#include "hammock/config.h"
#include "hammock/data.h"
#include "hammock/device.h"
#include "hammock/error.h"
#include "hammock/executor.h"
#include "hammock/io.h"
#include "hammock/metrics.h"
#include "hammock/module.h"
#include "hammock/nn.h"
#include "hammock/ops.h"
#include "hammock/optim.h"
#include "hammock/print.h"
#include "hammock/profile.h"
#include "hammock/random.h"
#include "hammock/sparse.h"
#include "hammock/tensor.h"
#include "hammock/vmap.h"

#endif
#endif
