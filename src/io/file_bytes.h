#pragma once
/// The bytes of whole files, for the readers of this folder.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace hammock::io {

/// ValueError (kParse) if the file cannot be read.
std::vector<std::byte> ReadFile(const std::string& path);

/// The contents of a gzip file, put into `storage`; other bytes as they are. A file of more than
/// `max_bytes` is refused.
std::span<const std::byte> Unzipped(std::span<const std::byte> bytes, const std::string& path,
                                    std::vector<std::byte>& storage,
                                    size_t max_bytes = size_t{1} << 34);

}  // namespace hammock::io
