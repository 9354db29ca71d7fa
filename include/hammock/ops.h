#pragma once
/// Every op as a free function, by family; most are Tensor methods too.

#include "hammock/ops/aten.h"
#include "hammock/ops/attention.h"
#include "hammock/ops/create.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/index.h"
#include "hammock/ops/losses.h"
#include "hammock/ops/matmul.h"
#include "hammock/ops/nn.h"
#include "hammock/ops/norms.h"
#include "hammock/ops/pool.h"
#include "hammock/ops/recurrent.h"
#include "hammock/ops/reduce.h"
#include "hammock/ops/resize.h"
#include "hammock/ops/shape.h"
#include "hammock/ops/view.h"
