#pragma once

#include <optional>

#include "hammock/random.h"
#include "hammock/tensor.h"

namespace hammock {

/// A leaf that holds (seed, offset) for `blocks` blocks of the generator (the default one if none
/// is given), fixed now. Its value is not part of the key.
Tensor MakeRngState(const std::optional<Generator>& generator, uint64_t blocks,
                    const Device& device);

}  // namespace hammock
