#pragma once
/// NumPy's files: one array (.npy), or an archive of them (.npz), which is only read.
///
///   NpzFile file = NpzFile::Open("init.npz");
///   for (const std::string& name : file.names()) Use(name, file.Read(name));
///
/// Archives may be stored (not compressed), as numpy.savez writes them. Little-endian booleans,
/// integers and floats of rank up to 8; what else a file may hold is refused with a reason. Every
/// offset and size is checked against the bytes that are there, and an archive's arrays against
/// their checksums, so a damaged file gives a ValueError (kParse) and never anything worse.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hammock/export.h"
#include "hammock/host_tensor.h"
#include "hammock/location.h"

namespace hammock::io {

/// One array; `name` stands in messages. Fortran order is put in row-major order.
HAMMOCK_API HostTensor ParseNpy(std::span<const std::byte> bytes, const std::string& name,
                                Location at = Location::current());

HAMMOCK_API HostTensor ReadNpy(const std::string& path, Location at = Location::current());
/// Whole or not at all. NumPy has no bfloat16: its bits are written as uint16.
HAMMOCK_API void WriteNpy(const std::string& path, const HostTensor& array,
                          Location at = Location::current());

/// An archive in memory. Immutable: may be read from several threads.
class HAMMOCK_API NpzFile {
 public:
  static NpzFile Open(const std::string& path, Location at = Location::current());
  /// From the bytes of a file; `name` stands in messages.
  static NpzFile Parse(std::vector<std::byte> bytes, const std::string& name,
                       Location at = Location::current());

  /// Array names without ".npy", in the order of the archive's directory.
  const std::vector<std::string>& names() const { return names_; }
  bool Has(std::string_view name) const { return Find(name) >= 0; }
  /// The array; ValueError (kUnknownName) if there is none of that name.
  HostTensor Read(std::string_view name, Location at = Location::current()) const;
  /// The array with its elements read as `dtype`, which has their width: bfloat16 is kept as
  /// uint16.
  HostTensor Read(std::string_view name, DType dtype, Location at = Location::current()) const;

 private:
  struct Entry {
    uint64_t offset, size;
    uint32_t checksum;
  };
  NpzFile() = default;
  int Find(std::string_view name) const;

  std::string path_;
  std::shared_ptr<const std::vector<std::byte>> bytes_;
  std::vector<std::string> names_;
  std::vector<Entry> entries_;
  std::vector<int> by_name_;  // indices of names_, sorted by name
};

}  // namespace hammock::io
