#pragma once
/// Optimisers, schedules of learning rates, limits on gradients, averages of parameters.

#include "hammock/optim/clip.h"
#include "hammock/optim/grad_scaler.h"
#include "hammock/optim/lbfgs.h"
#include "hammock/optim/optimizer.h"
#include "hammock/optim/rules.h"
#include "hammock/optim/schedulers.h"
