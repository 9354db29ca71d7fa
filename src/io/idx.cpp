#include <algorithm>
#include <cstring>

#include "base/throw.h"
#include "hammock/io/readers.h"
#include "io/file_bytes.h"

namespace hammock::io {
namespace {

/// By the third byte of the file.
DType DTypeOfCode(int code, const std::string& path) {
  switch (code) {
    case 0x08:
      return DType::kU8;
    case 0x09:
      return DType::kI8;
    case 0x0b:
      return DType::kI16;
    case 0x0c:
      return DType::kI32;
    case 0x0d:
      return DType::kF32;
    case 0x0e:
      return DType::kF64;
  }
  Throw(ErrorCode::kParse, "{}: element type {:#x} is none of IDX's", path, code);
}

/// Copies big-endian elements of `width` bytes.
void CopyElements(const std::byte* from, std::byte* to, size_t bytes, size_t width) {
  std::memcpy(to, from, bytes);
  if (width == 1) return;
  for (size_t at = 0; at < bytes; at += width) std::reverse(to + at, to + at + width);
}

}  // namespace

HostTensor ReadIdx(const std::string& path, Location at) {
  LocationScope scope(at);
  return ParseIdx(ReadFile(path), path);
}

HostTensor ParseIdx(std::span<const std::byte> packed, const std::string& name, Location line) {
  LocationScope scope(line);
  std::vector<std::byte> storage;
  std::span<const std::byte> bytes = Unzipped(packed, name, storage);
  auto at = [&](size_t offset) { return std::to_integer<int>(bytes[offset]); };
  if (bytes.size() < 4 || at(0) != 0 || at(1) != 0) {
    Throw(ErrorCode::kParse, "{}: not an IDX file", name);
  }
  DType dtype = DTypeOfCode(at(2), name);
  size_t rank = static_cast<size_t>(at(3)), start = 4 + 4 * rank;
  if (rank > kMaxRank || bytes.size() < start) {
    Throw(ErrorCode::kParse, "{}: {} dims, and {} bytes in all", name, rank, bytes.size());
  }
  Dims sizes;
  for (size_t dim = 0; dim < rank; ++dim) {
    int64_t size = 0;
    for (size_t i = 0; i < 4; ++i) size = size * 256 + at(4 + 4 * dim + i);
    sizes.push_back(size);
  }
  CheckSizes(name.c_str(), sizes);
  Shape shape(dtype, sizes);
  if (static_cast<uint64_t>(shape.bytes()) != bytes.size() - start) {
    Throw(ErrorCode::kParse, "{}: {} needs {} bytes, the file has {}", name, shape.to_string(),
          shape.bytes(), bytes.size() - start);
  }
  HostTensor result(shape);
  CopyElements(bytes.data() + start, static_cast<std::byte*>(result.mutable_data()),
               bytes.size() - start, static_cast<size_t>(InfoOf(dtype).bits / 8));
  return result;
}

}  // namespace hammock::io
