#include "io/file_bytes.h"

#include <fstream>

#include "base/throw.h"

#ifdef HAMMOCK_WITH_ZLIB
#include <zlib.h>
#endif

namespace hammock::io {

std::vector<std::byte> ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) Throw(ErrorCode::kParse, "{}: cannot be opened", path);
  std::streamoff size = in.tellg();
  if (size < 0) Throw(ErrorCode::kParse, "{}: cannot be read", path);
  std::vector<std::byte> bytes(static_cast<size_t>(size));
  in.seekg(0);
  in.read(reinterpret_cast<char*>(bytes.data()), size);
  if (in.gcount() != size) Throw(ErrorCode::kParse, "{}: cannot be read", path);
  return bytes;
}

namespace {

bool IsGzip(std::span<const std::byte> bytes) {
  return bytes.size() > 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

#ifdef HAMMOCK_WITH_ZLIB
std::vector<std::byte> Inflate(std::span<const std::byte> packed, const std::string& path,
                               size_t max_bytes) {
  constexpr int kGzip = 15 + 16;
  constexpr size_t kPart = size_t{1} << 20;
  z_stream stream{};
  if (inflateInit2(&stream, kGzip) != Z_OK) Throw(ErrorCode::kParse, "{}: zlib fails", path);
  struct End {
    z_stream* stream;
    ~End() { inflateEnd(stream); }
  } end{&stream};
  std::vector<std::byte> result;
  size_t used = 0, filled = 0;
  int status = Z_OK;
  while (status != Z_STREAM_END) {
    if (filled == result.size()) {
      if (filled >= max_bytes) {
        Throw(ErrorCode::kParse, "{}: holds more than {} bytes", path, max_bytes);
      }
      result.resize(std::min(std::max(2 * filled, kPart), max_bytes));
    }
    size_t input = std::min(packed.size() - used, kPart);
    size_t room = std::min(result.size() - filled, kPart);
    stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(packed.data() + used));
    stream.avail_in = static_cast<uInt>(input);
    stream.next_out = reinterpret_cast<Bytef*>(result.data() + filled);
    stream.avail_out = static_cast<uInt>(room);
    status = inflate(&stream, Z_NO_FLUSH);
    used += input - stream.avail_in;
    filled += room - stream.avail_out;
    bool moved = stream.avail_in < input || stream.avail_out < room;
    if ((status != Z_OK && status != Z_STREAM_END) || (status == Z_OK && !moved)) {
      Throw(ErrorCode::kParse, "{}: damaged or cut off after {} bytes of its contents", path,
            filled);
    }
  }
  result.resize(filled);
  return result;
}
#endif

}  // namespace

std::span<const std::byte> Unzipped(std::span<const std::byte> bytes, const std::string& path,
                                    [[maybe_unused]] std::vector<std::byte>& storage,
                                    [[maybe_unused]] size_t max_bytes) {
  if (!IsGzip(bytes)) return bytes;
#ifdef HAMMOCK_WITH_ZLIB
  storage = Inflate(bytes, path, max_bytes);
  return storage;
#else
  Throw<NotSupported>(ErrorCode::kNotSupported, "{}: a gzip file; this build is without zlib",
                      path);
#endif
}

}  // namespace hammock::io
