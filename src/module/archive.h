#pragma once
/// Archives: one file of named sections. Note [Archive format]
///
///   0    "HAMMOCKA"
///   8    major version (u32), minor version (u32)
///   16   where the table begins and its size (u64 each)
///   32   checksum of the bytes 0 to 31 and of the table (16 bytes); zeros up to 64
///   64   sections, each at a multiple of 64, zeros between them
///   ...  the table, to the end of the file: of each section its name, place, size and checksum
///
/// A reader takes every archive of its major version and of the same or an older minor one. It
/// trusts nothing: places and checksums are compared before anything is used.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hammock {

class ArchiveWriter {
 public:
  /// The bytes must stay as they are until the archive is saved.
  void AddBorrowed(std::string name, std::string_view bytes);
  void Add(std::string name, std::string bytes);
  /// Holds what borrowed bytes belong to.
  void Keep(std::shared_ptr<const void> owner) { kept_.push_back(std::move(owner)); }

  /// Whole or not at all.
  void Save(const std::string& path) const;
  /// The bytes of the file.
  std::string Bytes() const;

 private:
  struct Entry {
    std::string name;
    std::string_view bytes;
  };
  /// Header, table and padding between the sections; `parts` refers to `made` and to the sections.
  void Layout(std::vector<std::string>& made, std::vector<std::string_view>& parts) const;

  std::vector<Entry> entries_;
  std::vector<std::shared_ptr<const void>> kept_;
};

/// Immutable. Sections live as long as the archive.
class Archive {
 public:
  struct Section {
    std::string name;
    std::string_view bytes;
  };

  /// ValueError (kParse) that says what is wrong with it; `what` names it ("archive 'net.hmk'").
  Archive(std::string what, std::string_view bytes, std::shared_ptr<const void> owner);
  static std::shared_ptr<const Archive> Open(const std::string& path);

  const std::string& what() const { return what_; }
  const std::vector<Section>& sections() const { return sections_; }
  /// Null if there is none.
  const Section* Find(std::string_view name) const;
  /// ValueError (kParse) if there is none.
  std::string_view Get(std::string_view name) const;
  int major() const { return major_; }
  int minor() const { return minor_; }

 private:
  std::string what_;
  std::shared_ptr<const void> owner_;
  std::vector<Section> sections_;
  std::map<std::string, size_t, std::less<>> by_name_;
  int major_ = 0;
  int minor_ = 0;
};

}  // namespace hammock
