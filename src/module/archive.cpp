#include "module/archive.h"

#include "base/bytes.h"
#include "base/whole_file.h"
#include "hammock/ir/hash.h"

namespace hammock {
namespace {

constexpr std::string_view kMagic = "HAMMOCKA";
constexpr uint32_t kMajor = 1;
constexpr uint32_t kMinor = 0;
constexpr size_t kSummed = 32;  // bytes of the header that its checksum covers
constexpr size_t kHeader = 64;
constexpr size_t kAlignment = 64;

Hash128 ChecksumOf(std::string_view header, std::string_view table) {
  return Combine(HashString(header.substr(0, kSummed)), HashString(table));
}

void PutHash(ByteWriter& out, Hash128 hash) {
  out.Fixed(hash.lo);
  out.Fixed(hash.hi);
}

Hash128 GetHash(ByteReader& in) {
  Hash128 hash;
  hash.lo = in.Fixed<uint64_t>();
  hash.hi = in.Fixed<uint64_t>();
  return hash;
}

size_t Aligned(size_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

void ArchiveWriter::AddBorrowed(std::string name, std::string_view bytes) {
  entries_.push_back({std::move(name), bytes});
}

void ArchiveWriter::Add(std::string name, std::string bytes) {
  auto owned = std::make_shared<const std::string>(std::move(bytes));
  AddBorrowed(std::move(name), *owned);
  Keep(std::move(owned));
}

void ArchiveWriter::Layout(std::vector<std::string>& made,
                           std::vector<std::string_view>& parts) const {
  ByteWriter table;
  size_t offset = kHeader;
  table.Count(entries_.size());
  for (const Entry& entry : entries_) {
    table.Text(entry.name);
    table.Count(offset);
    table.Count(entry.bytes.size());
    PutHash(table, HashString(entry.bytes));
    offset = Aligned(offset + entry.bytes.size());
  }
  ByteWriter header;
  header.Raw(kMagic);
  header.Fixed(kMajor);
  header.Fixed(kMinor);
  header.Fixed(static_cast<uint64_t>(offset));
  header.Fixed(static_cast<uint64_t>(table.bytes().size()));
  PutHash(header, ChecksumOf(header.bytes(), table.bytes()));
  made.reserve(3);
  made.push_back(header.Take());
  made[0].resize(kHeader);
  made.push_back(table.Take());
  made.emplace_back(kAlignment, '\0');
  parts.push_back(made[0]);
  for (const Entry& entry : entries_) {
    parts.push_back(entry.bytes);
    size_t size = entry.bytes.size();
    parts.push_back(std::string_view(made[2]).substr(0, Aligned(size) - size));
  }
  parts.push_back(made[1]);
}

void ArchiveWriter::Save(const std::string& path) const {
  std::vector<std::string> made;
  std::vector<std::string_view> parts;
  Layout(made, parts);
  WriteWholeFile(path, parts);
}

std::string ArchiveWriter::Bytes() const {
  std::vector<std::string> made;
  std::vector<std::string_view> parts;
  Layout(made, parts);
  std::string bytes;
  for (std::string_view part : parts) bytes += part;
  return bytes;
}

Archive::Archive(std::string what, std::string_view bytes, std::shared_ptr<const void> owner)
    : what_(std::move(what)), owner_(std::move(owner)) {
  if (bytes.size() < kHeader || !bytes.starts_with(kMagic)) {
    Throw(ErrorCode::kParse, "{}: it is no archive of Hammock", what_);
  }
  ByteReader header(what_, bytes.substr(kMagic.size()));
  auto major = header.Fixed<uint32_t>();
  auto minor = header.Fixed<uint32_t>();
  if (major != kMajor || minor > kMinor) {
    header.Fail("it has version {}.{}, this library reads {}.0 to {}.{}", major, minor, kMajor,
                kMajor, kMinor);
  }
  major_ = static_cast<int>(major);
  minor_ = static_cast<int>(minor);
  auto offset = header.Fixed<uint64_t>();
  auto size = header.Fixed<uint64_t>();
  Hash128 checksum = GetHash(header);
  if (offset < kHeader || offset > bytes.size() || size != bytes.size() - offset) {
    header.Fail("damaged: it has {} bytes, its table is said to be the {} bytes from {} on",
                bytes.size(), size, offset);
  }
  std::string_view table_bytes = bytes.substr(offset);
  if (ChecksumOf(bytes, table_bytes) != checksum) {
    header.Fail("damaged: the checksum of its table does not match");
  }
  ByteReader table(what_, table_bytes);
  uint64_t end = kHeader;  // of the section before: they follow one another
  for (uint64_t count = table.Count(); count > 0; --count) {
    std::string name = table.Text();
    uint64_t at = table.Varint();
    uint64_t length = table.Varint();
    Hash128 sum = GetHash(table);
    if (at < end || at > offset || length > offset - at || at % kAlignment != 0) {
      table.Fail("damaged: section '{}' is not where it should be", name);
    }
    end = at + length;
    std::string_view section = bytes.substr(at, length);
    if (HashString(section) != sum) {
      table.Fail("damaged: the checksum of section '{}' does not match", name);
    }
    if (!by_name_.emplace(name, sections_.size()).second) {
      table.Fail("damaged: it has two sections '{}'", name);
    }
    sections_.push_back({std::move(name), section});
  }
  table.ExpectEnd();
}

std::shared_ptr<const Archive> Archive::Open(const std::string& path) {
  MappedFile file = MapFile(path);
  return std::make_shared<const Archive>(fmt::format("archive '{}'", path), file.bytes, file.owner);
}

const Archive::Section* Archive::Find(std::string_view name) const {
  auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &sections_[found->second];
}

std::string_view Archive::Get(std::string_view name) const {
  if (const Section* section = Find(name)) return section->bytes;
  Throw(ErrorCode::kParse, "{}: it has no section '{}'", what_, name);
}

}  // namespace hammock
