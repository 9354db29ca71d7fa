#pragma once
/// Argument structs of kernels are shared by host and device. Their members have 8 bytes each. On
/// the host, pointers to elements whose type only the device knows are pointers to void.

#include <cstdint>

namespace hammock::cuda {

/// Sizes and strides of dims, the last struct of arguments. The host knows their number at run time
/// only, and appends them.
template <int kDims>
struct Strided {
  int64_t sizes[kDims];
  int64_t strides[kDims];
};

}  // namespace hammock::cuda
