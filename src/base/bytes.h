#pragma once
/// Bytes of saved things: integers in LEB128 (signed ones zigzag), texts with their length, fixed
/// words little-endian. A reader trusts nothing: it never reads past its end, and a count is
/// bounded by the bytes that are left.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/throw.h"

namespace hammock {

class ByteWriter {
 public:
  void Byte(uint8_t value) { bytes_ += static_cast<char>(value); }
  template <class T>
  void Fixed(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xff);
  }
  void Count(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  void Signed(int64_t value) {
    Count(static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63));
  }
  void Text(std::string_view text) {
    Count(text.size());
    bytes_ += text;
  }
  void Raw(std::string_view bytes) { bytes_ += bytes; }

  const std::string& bytes() const { return bytes_; }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Errors are ValueErrors (kParse) that begin with `what`.
class ByteReader {
 public:
  ByteReader(std::string what, std::string_view bytes) : what_(std::move(what)), rest_(bytes) {}

  uint8_t Byte();
  template <class T>
  T Fixed() {
    std::string_view bytes = Raw(sizeof(T));
    T value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) {
      value |= static_cast<T>(static_cast<unsigned char>(bytes[i])) << (8 * i);
    }
    return value;
  }
  uint64_t Varint();
  int64_t Signed();
  int32_t Small();  ///< a signed integer of 32 bits
  /// How many items follow; each takes at least a byte.
  uint64_t Count();
  /// An index below `limit`; `noun` is for messages ("an op").
  uint64_t Bounded(uint64_t limit, const char* noun);
  std::string Text() { return std::string(Raw(Count())); }
  std::string_view Raw(uint64_t size);
  size_t left() const { return rest_.size(); }
  void ExpectEnd() const;

  template <class... Args>
  [[noreturn]] void Fail(fmt::format_string<Args...> format, Args&&... args) const {
    Throw(ErrorCode::kParse, "{}: {}", what_, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  std::string what_;
  std::string_view rest_;
};

}  // namespace hammock
