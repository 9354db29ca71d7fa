#include "base/bytes.h"

namespace hammock {

uint8_t ByteReader::Byte() {
  if (rest_.empty()) Fail("they end too early");
  auto byte = static_cast<uint8_t>(rest_[0]);
  rest_.remove_prefix(1);
  return byte;
}

uint64_t ByteReader::Varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    uint8_t byte = Byte();
    if (shift == 63 && byte > 1) break;
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  Fail("an integer that does not fit 64 bits");
}

int64_t ByteReader::Signed() {
  uint64_t value = Varint();
  return static_cast<int64_t>(value >> 1 ^ (0 - (value & 1)));
}

int32_t ByteReader::Small() {
  int64_t value = Signed();
  if (value != static_cast<int32_t>(value)) Fail("{} where a small number is needed", value);
  return static_cast<int32_t>(value);
}

uint64_t ByteReader::Count() {
  uint64_t count = Varint();
  if (count > rest_.size()) Fail("{} items announced, {} bytes left", count, rest_.size());
  return count;
}

uint64_t ByteReader::Bounded(uint64_t limit, const char* noun) {
  uint64_t value = Varint();
  if (value >= limit) Fail("{} {} of {}", noun, value, limit);
  return value;
}

std::string_view ByteReader::Raw(uint64_t size) {
  if (size > rest_.size()) Fail("they end too early");
  std::string_view bytes = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return bytes;
}

void ByteReader::ExpectEnd() const {
  if (!rest_.empty()) Fail("{} bytes too many", rest_.size());
}

}  // namespace hammock
