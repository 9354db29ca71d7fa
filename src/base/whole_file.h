#pragma once
/// Files that are written whole or not at all, and files that are mapped.

#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace hammock {

/// Writes the parts one after the other beside `path`, then puts the file in its place: whoever
/// reads it, also after a crash, finds the old file or the new one. A symbolic link stays, and what
/// it leads to is written. ValueError says what failed; pipes and devices are refused.
void WriteWholeFile(const std::string& path, std::span<const std::string_view> parts);

/// The bytes of a file, mapped read-only as long as someone holds the pointer. ValueError where it
/// cannot be read or is no plain file.
struct MappedFile {
  std::shared_ptr<const void> owner;
  std::string_view bytes;
};
MappedFile MapFile(const std::string& path);

}  // namespace hammock
