#pragma once
/// All that a program needs: tensors and their ops, gradients, modules and layers, optimisers,
/// data, files, checkpoints, compiled functions, mixed precision, and the runtime's settings and
/// metrics. Apart from it are what extends Hammock: backends (lazy/), delegates (jit/), ops
/// (op_builder.h).

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
#include "hammock/random.h"
#include "hammock/tensor.h"
#include "hammock/trace.h"
