#pragma once
/// The bytes of whole files, for the readers of this folder.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace hammock::io {

/// ValueError (kParse) if the file cannot be read.
std::vector<std::byte> ReadFile(const std::string& path);

/// What a gzip file holds, put into `storage`; other bytes as they are. At most `max_bytes`, beyond
/// which the file is refused.
std::span<const std::byte> Unzipped(std::span<const std::byte> bytes, const std::string& path,
                                    std::vector<std::byte>& storage,
                                    size_t max_bytes = size_t{1} << 34);

}  // namespace hammock::io
