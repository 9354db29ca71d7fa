#pragma once
/// Every op as a free function, by family; most are Tensor methods too.

#include "hammock/ops/create.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/index.h"
#include "hammock/ops/linalg.h"
#include "hammock/ops/matmul.h"
#include "hammock/ops/nn.h"
#include "hammock/ops/reduce.h"
#include "hammock/ops/shape.h"
#include "hammock/ops/special.h"
#include "hammock/ops/statistics.h"
#include "hammock/ops/view.h"
