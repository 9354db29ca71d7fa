#pragma once

#include <cstdint>

namespace hammock {

/// Index into the process's device table; see device.h.
using DeviceId = uint16_t;
inline constexpr DeviceId kNoDevice = 0xffff;  ///< lifted scalars and symbolic tensors

}  // namespace hammock
