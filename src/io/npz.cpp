#include "hammock/io/npz.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "base/throw.h"
#include "base/whole_file.h"
#include "io/file_bytes.h"

namespace hammock::io {
namespace {

using Bytes = std::span<const std::byte>;

/// Reads little-endian fields of a span; a read past the end is an error of the file.
class Reader {
 public:
  Reader(Bytes bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  size_t size() const { return bytes_.size(); }

  Bytes At(uint64_t offset, uint64_t size, const char* what) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset) {
      Fail("{} at byte {} needs {} bytes, the file has {}", what, offset, size, bytes_.size());
    }
    return bytes_.subspan(offset, size);
  }

  template <class T>
  T Get(uint64_t offset, const char* what) const {
    T value;
    std::memcpy(&value, At(offset, sizeof(T), what).data(), sizeof(T));
    return value;
  }

  std::string Text(uint64_t offset, uint64_t size, const char* what) const {
    Bytes text = At(offset, size, what);
    return std::string(reinterpret_cast<const char*>(text.data()), text.size());
  }

  template <class... Args>
  [[noreturn]] void Fail(fmt::format_string<Args...> format, Args&&... args) const {
    Throw(ErrorCode::kParse, "{}: {}", name_, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  Bytes bytes_;
  const std::string& name_;
};

// ---- .npy

constexpr std::pair<std::string_view, DType> kTypes[] = {
    {"b1", DType::kBool},
    {"u1", DType::kU8},
    {"i1", DType::kI8},
    {"u2", DType::kU16},
    {"i2", DType::kI16},
    {"u4", DType::kU32},
    {"i4", DType::kI32},
    {"u8", DType::kU64},
    {"i8", DType::kI64},
    {"f2", DType::kF16},
    {"f4", DType::kF32},
    {"f8", DType::kF64},
    {"c8", DType::kC64},
    {"c16", DType::kC128},
    {"u2", DType::kBF16},
    // The bits, as of bf16: NumPy has no such types.
    {"u1", DType::kF8E4M3},
    {"u1", DType::kF8E5M2}};

DType DTypeOfDescr(const Reader& reader, const std::string& descr) {
  for (auto [name, dtype] : kTypes) {
    if (!descr.empty() && descr.compare(1, descr.npos, name) == 0) {
      if (descr[0] == '<' || descr[0] == '|') return dtype;
      reader.Fail("dtype '{}' is not little-endian", descr);
    }
  }
  reader.Fail("dtype '{}' is not one of bool, integer, float or complex", descr);
}

/// The header's dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (4, 5), }
class HeaderParser {
 public:
  HeaderParser(const Reader& reader, std::string text) : reader_(reader), text_(std::move(text)) {}

  void Parse() {
    Expect('{');
    while (!Accept('}')) {
      std::string key = QuotedText();
      Expect(':');
      if (key == "descr") {
        dtype_ = DTypeOfDescr(reader_, QuotedText());
        ++fields_;
      } else if (key == "fortran_order") {
        fortran_order_ = Truth();
        ++fields_;
      } else if (key == "shape") {
        sizes_ = Tuple();
        ++fields_;
      } else {
        reader_.Fail("unknown header field '{}'", key);
      }
      if (!Accept(',') && !At('}')) Fail("',' or '}'");
    }
    if (fields_ != 3) reader_.Fail("header needs descr, fortran_order and shape, once each");
  }

  bool fortran_order() const { return fortran_order_; }
  Shape shape() const { return Shape(dtype_, sizes_); }

 private:
  [[noreturn]] void Fail(const char* expected) const {
    reader_.Fail("header: expected {} at column {}", expected, position_);
  }
  void SkipSpace() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n')) {
      ++position_;
    }
  }
  bool At(char c) {
    SkipSpace();
    return position_ < text_.size() && text_[position_] == c;
  }
  bool Accept(char c) {
    if (!At(c)) return false;
    ++position_;
    return true;
  }
  void Expect(char c) {
    const char expected[] = {'\'', c, '\'', 0};
    if (!Accept(c)) Fail(expected);
  }
  std::string QuotedText() {
    Expect('\'');
    size_t end = text_.find('\'', position_);
    if (end == std::string::npos) Fail("a closing quote");
    std::string result = text_.substr(position_, end - position_);
    position_ = end + 1;
    return result;
  }
  bool Truth() {
    SkipSpace();
    for (auto [word, value] : {std::pair("True", true), std::pair("False", false)}) {
      if (text_.compare(position_, std::strlen(word), word) == 0) {
        position_ += std::strlen(word);
        return value;
      }
    }
    Fail("True or False");
  }
  Dims Tuple() {
    Dims sizes;
    Expect('(');
    while (!Accept(')')) {
      if (sizes.size() == kMaxRank) reader_.Fail("rank is more than {}", kMaxRank);
      sizes.push_back(Number());
      if (!Accept(',') && !At(')')) Fail("',' or ')'");
    }
    return sizes;
  }
  int64_t Number() {
    SkipSpace();
    size_t start = position_;
    int64_t value = 0;
    for (; position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9';
         ++position_) {
      if (position_ - start == 18) reader_.Fail("header: a size does not fit 63 bits");
      value = value * 10 + (text_[position_] - '0');
    }
    if (position_ == start) Fail("a size");
    return value;
  }

  const Reader& reader_;
  std::string text_;
  size_t position_ = 0;
  int fields_ = 0;
  DType dtype_ = DType::kF32;
  Dims sizes_;
  bool fortran_order_ = false;
};

/// Bytes that the elements take, or an error if that is not what is left of the file.
uint64_t CheckBytes(const Reader& reader, const Shape& shape, uint64_t left) {
  const Dims& sizes = shape.sizes();
  bool empty = std::find(sizes.begin(), sizes.end(), 0) != sizes.end();
  uint64_t bytes = empty ? 0 : static_cast<uint64_t>(BytesOf(shape.dtype(), 1));
  bool overflow = false;
  for (int64_t size : sizes) {
    overflow |= __builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes);
  }
  if (overflow || bytes != left) {
    reader.Fail("{} does not fit the {} bytes of its elements", ToString(shape), left);
  }
  return bytes;
}

/// Row-major elements from column-major ones.
void CopyTransposed(const Shape& shape, const std::byte* from, std::byte* to) {
  const Dims& sizes = shape.sizes();
  int64_t element = BytesOf(shape.dtype(), 1);
  Dims stride = sizes;
  int64_t next = 1;
  for (int d = 0; d < sizes.size(); ++d) {
    stride[d] = next;
    next *= sizes[d];
  }
  Dims index = Dims::Filled(sizes.size(), 0);
  for (int64_t i = 0; i < shape.numel(); ++i) {
    int64_t source = 0;
    for (int d = 0; d < sizes.size(); ++d) source += index[d] * stride[d];
    std::memcpy(to + i * element, from + source * element, static_cast<size_t>(element));
    for (int d = sizes.size() - 1; d >= 0 && ++index[d] == sizes[d]; --d) index[d] = 0;
  }
}

// ---- .zip

uint32_t Crc32(Bytes bytes) {
  static constexpr auto kTable = [] {
    std::array<uint32_t, 256> table{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (value & 1 ? 0xedb88320u : 0);
      table[i] = value;
    }
    return table;
  }();
  uint32_t crc = ~0u;
  for (std::byte b : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint32_t>(b)) & 255];
  return ~crc;
}

constexpr uint32_t kEndSignature = 0x06054b50, kEntrySignature = 0x02014b50,
                   kLocalSignature = 0x04034b50;
constexpr uint64_t kEndBytes = 22, kEntryBytes = 46, kLocalBytes = 30;

/// Offset of the record that ends the archive; only a comment may follow it.
uint64_t FindEnd(const Reader& reader) {
  uint64_t last = reader.size() < kEndBytes ? 0 : reader.size() - kEndBytes;
  uint64_t first = last > 0xffff ? last - 0xffff : 0;
  for (uint64_t at = last + 1; at-- > first;) {
    if (reader.size() < kEndBytes) break;
    if (reader.Get<uint32_t>(at, "end record") != kEndSignature) continue;
    if (at + kEndBytes + reader.Get<uint16_t>(at + 20, "comment size") == reader.size()) return at;
  }
  reader.Fail("not a complete zip archive: no end record");
}

/// The 64-bit size and offset that numpy writes in an extra field when 32 bits do not hold them.
void ReadZip64(const Reader& reader, uint64_t extra, uint64_t extra_size, uint64_t* fields[],
               int count) {
  for (uint64_t at = extra; at + 4 <= extra + extra_size;) {
    uint16_t id = reader.Get<uint16_t>(at, "extra field");
    uint16_t size = reader.Get<uint16_t>(at + 2, "extra field");
    if (id == 1) {
      uint64_t from = at + 4;
      for (int i = 0; i < count; ++i) {
        if (*fields[i] != 0xffffffff) continue;
        if (from + 8 > at + 4 + size) reader.Fail("zip64 field is too short");
        *fields[i] = reader.Get<uint64_t>(from, "zip64 field");
        from += 8;
      }
      return;
    }
    at += 4u + size;
  }
}

struct DirectoryEntry {
  std::string name;
  uint64_t local, size;
  uint32_t checksum;
  uint64_t end;  ///< where the next entry begins
};

DirectoryEntry ReadEntry(const Reader& reader, uint64_t at) {
  if (reader.Get<uint32_t>(at, "directory entry") != kEntrySignature) {
    reader.Fail("no directory entry at byte {}", at);
  }
  uint16_t name_size = reader.Get<uint16_t>(at + 28, "name size");
  uint16_t extra_size = reader.Get<uint16_t>(at + 30, "extra size");
  uint16_t comment_size = reader.Get<uint16_t>(at + 32, "comment size");
  DirectoryEntry entry;
  entry.name = reader.Text(at + kEntryBytes, name_size, "name");
  entry.checksum = reader.Get<uint32_t>(at + 16, "checksum");
  uint64_t packed = reader.Get<uint32_t>(at + 20, "size");
  entry.size = reader.Get<uint32_t>(at + 24, "size");
  entry.local = reader.Get<uint32_t>(at + 42, "offset");
  uint64_t* fields[] = {&entry.size, &packed, &entry.local};
  ReadZip64(reader, at + kEntryBytes + name_size, extra_size, fields, 3);
  entry.end = at + kEntryBytes + name_size + extra_size + comment_size;

  if (reader.Get<uint16_t>(at + 8, "flags") & 1) reader.Fail("{} is encrypted", entry.name);
  if (reader.Get<uint16_t>(at + 10, "method") != 0 || packed != entry.size) {
    reader.Fail("{} is compressed; only stored archives (numpy.savez) can be read", entry.name);
  }
  if (!entry.name.ends_with(".npy")) reader.Fail("{} is not a .npy file", entry.name);
  return entry;
}

uint64_t DataOffset(const Reader& reader, const DirectoryEntry& entry) {
  if (reader.Get<uint32_t>(entry.local, "local header") != kLocalSignature) {
    reader.Fail("{}: no local header at byte {}", entry.name, entry.local);
  }
  uint64_t offset = entry.local + kLocalBytes +
                    reader.Get<uint16_t>(entry.local + 26, "name size") +
                    reader.Get<uint16_t>(entry.local + 28, "extra size");
  reader.At(offset, entry.size, "data");
  return offset;
}

}  // namespace

HostTensor ParseNpy(std::span<const std::byte> bytes, const std::string& name, Location at) {
  LocationScope scope(at);
  Reader reader(bytes, name);
  if (reader.Text(0, 6, "magic text") != "\x93NUMPY") reader.Fail("not a .npy file");
  int version = reader.Get<uint8_t>(6, "version");
  if (version != 1 && version != 2) reader.Fail(".npy version {} is not 1 or 2", version);
  uint64_t start = version == 1 ? 10 : 12;
  uint64_t length = version == 1 ? reader.Get<uint16_t>(8, "header size")
                                 : reader.Get<uint32_t>(8, "header size");
  HeaderParser header(reader, reader.Text(start, length, "header"));
  header.Parse();
  Shape shape = header.shape();
  uint64_t size = CheckBytes(reader, shape, reader.size() - (start + length));
  HostTensor result(shape);
  const std::byte* from = bytes.data() + start + length;
  if (header.fortran_order() && shape.rank() > 1) {
    CopyTransposed(shape, from, static_cast<std::byte*>(result.mutable_data()));
  } else if (size > 0) {
    std::memcpy(result.mutable_data(), from, size);
  }
  return result;
}

HostTensor ReadNpy(const std::string& path, Location at) {
  LocationScope scope(at);
  return ParseNpy(ReadFile(path), path);
}

void WriteNpy(const std::string& path, const HostTensor& array, Location at) {
  LocationScope scope(at);
  auto type = std::find_if(std::begin(kTypes), std::end(kTypes),
                           [&](const auto& each) { return each.second == array.dtype(); });
  if (type == std::end(kTypes)) {
    Throw<NotSupported>(ErrorCode::kNotSupported, "{}: {} cannot be written", path,
                        array.shape().to_string());
  }
  std::string sizes;
  for (int64_t size : array.shape().sizes()) sizes += fmt::format("{}, ", size);
  std::string header = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                   InfoOf(array.dtype()).bits == 8 ? '|' : '<', type->first, sizes);
  constexpr size_t kAlignment = 64, kStart = 10;
  header.resize((kStart + header.size() + kAlignment) / kAlignment * kAlignment - kStart - 1, ' ');
  header += '\n';
  auto length = static_cast<uint16_t>(header.size());
  std::string start = "\x93NUMPY\x01";
  start += '\0';
  start.append(reinterpret_cast<const char*>(&length), sizeof length);
  std::string_view parts[] = {
      start, header, {static_cast<const char*>(array.data()), static_cast<size_t>(array.bytes())}};
  WriteWholeFile(path, parts);
}

NpzFile NpzFile::Open(const std::string& path, Location at) {
  LocationScope scope(at);
  return Parse(ReadFile(path), path);
}

NpzFile NpzFile::Parse(std::vector<std::byte> bytes, const std::string& name, Location line) {
  LocationScope scope(line);
  NpzFile file;
  file.path_ = name;
  file.bytes_ = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  Reader reader(*file.bytes_, file.path_);
  uint64_t end = FindEnd(reader);
  int count = reader.Get<uint16_t>(end + 10, "entry count");
  uint64_t at = reader.Get<uint32_t>(end + 16, "directory offset");
  for (int i = 0; i < count; ++i) {
    DirectoryEntry entry = ReadEntry(reader, at);
    file.names_.push_back(entry.name.substr(0, entry.name.size() - 4));
    file.entries_.push_back({DataOffset(reader, entry), entry.size, entry.checksum});
    at = entry.end;
  }
  file.by_name_.resize(file.names_.size());
  std::iota(file.by_name_.begin(), file.by_name_.end(), 0);
  auto less = [&](int a, int b) { return file.names_[a] < file.names_[b]; };
  std::sort(file.by_name_.begin(), file.by_name_.end(), less);
  return file;
}

int NpzFile::Find(std::string_view name) const {
  auto less = [&](int index, std::string_view key) { return names_[index] < key; };
  auto found = std::lower_bound(by_name_.begin(), by_name_.end(), name, less);
  return found != by_name_.end() && names_[*found] == name ? *found : -1;
}

HostTensor NpzFile::Read(std::string_view name, Location at) const {
  LocationScope scope(at);
  int index = Find(name);
  if (index < 0) Throw(ErrorCode::kUnknownName, "{}: no array named '{}'", path_, name);
  const Entry& entry = entries_[index];
  Bytes bytes = Bytes(*bytes_).subspan(entry.offset, entry.size);
  std::string where = fmt::format("{}: {}", path_, name);
  if (Crc32(bytes) != entry.checksum) {
    Throw(ErrorCode::kParse, "{}: damaged: its checksum differs", where);
  }
  return ParseNpy(bytes, where);
}

HostTensor NpzFile::Read(std::string_view name, DType dtype, Location at) const {
  LocationScope scope(at);
  HostTensor array = Read(name);
  if (array.dtype() == dtype) return array;
  if (InfoOf(array.dtype()).bits != InfoOf(dtype).bits) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "{}: {} is {}, whose elements cannot be read as {}",
                     path_, name, ToString(array.shape()), NameOf(dtype));
  }
  return HostTensor(array.shape().With(dtype), array.storage());
}

}  // namespace hammock::io
