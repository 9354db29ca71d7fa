#pragma once

#include "backends/cuda/device/args.h"

namespace hammock::cuda {

/// out[i] = i
struct IotaArgs {
  int64_t count;
  int64_t* out;
};

/// Sets `failed` if a fault word or a word at one of the addresses `earlier` is set.
struct GatherFaultsArgs {
  uint64_t* failed;
  const uint64_t* faults;
  int64_t count;
  const uint64_t* earlier[8];  ///< null for none
};

}  // namespace hammock::cuda
