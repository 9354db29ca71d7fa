#pragma once
/// All that a program of tensors needs. Apart from it: compile.h, nn.h, optim.h, data.h, io.h,
/// module.h, jit/, lazy/.

#include "hammock/autograd.h"
#include "hammock/config.h"
#include "hammock/device.h"
#include "hammock/error.h"
#include "hammock/executor.h"
#include "hammock/metrics.h"
#include "hammock/ops.h"
#include "hammock/random.h"
#include "hammock/tensor.h"
#include "hammock/trace.h"
