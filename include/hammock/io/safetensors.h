#pragma once
/// The safetensors format: named tensors in one file, read without copying.
///
///   io::WriteSafetensors("net.safetensors", tensors);
///   auto file = io::SafetensorsFile::Open("net.safetensors");
///   HostTensor weight = file.Read("fc.weight");
///
/// A file is written whole or not at all. Every size and offset that a file states is checked
/// before anything is read; a damaged file is a ValueError (kParse) that names the place.

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hammock/export.h"
#include "hammock/host_tensor.h"
#include "hammock/location.h"

namespace hammock::io {

using NamedHostTensors = std::vector<std::pair<std::string, HostTensor>>;

/// Immutable: may be read from several threads.
class HAMMOCK_API SafetensorsFile {
 public:
  static SafetensorsFile Open(const std::string& path, Location at = Location::current());
  /// `owner` keeps `bytes`; `name` stands in messages.
  static SafetensorsFile Parse(std::shared_ptr<const void> owner, std::string_view bytes,
                               const std::string& name, Location at = Location::current());

  /// In the order of their data.
  const std::vector<std::string>& names() const { return names_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  bool Has(const std::string& name) const;
  /// ValueError (kUnknownName) where there is none.
  const Shape& ShapeOf(const std::string& name, Location at = Location::current()) const;
  /// Memory of the file as long as someone holds it, where its place allows.
  HostTensor Read(const std::string& name, Location at = Location::current()) const;

 private:
  struct Entry {
    Shape shape;
    size_t begin, end;  // in data_
  };
  SafetensorsFile() = default;
  const Entry& Find(const std::string& name) const;

  std::string path_;
  std::shared_ptr<const void> owner_;
  std::string_view data_;
  std::vector<std::string> names_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

HAMMOCK_API void WriteSafetensors(const std::string& path, const NamedHostTensors& tensors,
                                  const std::map<std::string, std::string>& metadata = {},
                                  Location at = Location::current());

}  // namespace hammock::io
