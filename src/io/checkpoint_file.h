#pragma once
/// The two entries of metadata that make a safetensors file a checkpoint.

#include <map>
#include <string>

#include "hammock/host_tensor.h"

namespace hammock {

inline constexpr char kFormat[] = "format", kFormatName[] = "hammock checkpoint 1";
inline constexpr char kChecksum[] = "checksum";

/// Of all names, shapes, elements and texts but the checksum itself.
std::string ChecksumOf(const std::map<std::string, HostTensor>& tensors,
                       const std::map<std::string, std::string>& metadata);

}  // namespace hammock
