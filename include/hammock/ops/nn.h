#pragma once

#include <optional>
#include <tuple>
#include <vector>

#include "hammock/export.h"
#include "hammock/ops/view.h"
#include "hammock/random.h"
#include "hammock/tensor.h"

namespace hammock {}  // namespace hammock
