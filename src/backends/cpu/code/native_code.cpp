#include "backends/cpu/code/native_code.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backends/cpu/code/code_symbols.h"
#include "base/throw.h"
#include "hammock/ir/hash.h"

namespace hammock::cpu {

namespace {

// Magic, then the checksum of all that follows: size of the image, number of symbols, the symbols
// (offset, size, length of the name, name), the image. Numbers are 64 bits, little-endian.
constexpr std::string_view kMagic = "HMCODE01";
constexpr size_t kHead = 24;

void PutInt(std::string& bytes, uint64_t value) {
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(value >> (8 * i));
}

std::string Checksum(std::string_view bytes) {
  Hash128 hash = HashString(bytes);
  std::string text;
  PutInt(text, hash.lo);
  PutInt(text, hash.hi);
  return text;
}

[[noreturn]] void Damaged(const char* what) {
  Throw(ErrorCode::kParse, "cpu: saved machine code is damaged: {}", what);
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  uint64_t Int() {
    std::string_view bytes = Bytes(8);
    uint64_t value = 0;
    for (int i = 7; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
    return value;
  }
  std::string_view Bytes(uint64_t count) {
    if (count > bytes_.size()) Damaged("it ends too early");
    std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  size_t left() const { return bytes_.size(); }

 private:
  std::string_view bytes_;
};

CodeSymbol ReadSymbol(Reader& reader, uint64_t image_size) {
  CodeSymbol symbol;
  symbol.offset = reader.Int();
  symbol.size = reader.Int();
  symbol.name = reader.Bytes(reader.Int());
  if (symbol.offset >= image_size || symbol.size > image_size - symbol.offset) {
    Damaged("a function lies outside");
  }
  return symbol;
}

bool ByName(const CodeSymbol& a, const CodeSymbol& b) { return a.name < b.name; }

char* MapWritable(size_t size) {
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) return static_cast<char*>(memory);
  Throw<OutOfMemory>(ErrorCode::kOutOfMemory, "cpu: no memory for {} bytes of machine code: {}",
                     size, std::strerror(errno));
}

}  // namespace

std::string SerializeCode(const CodeBlob& blob) {
  std::string body;
  PutInt(body, blob.image.size());
  PutInt(body, blob.symbols.size());
  for (const CodeSymbol& symbol : blob.symbols) {
    PutInt(body, symbol.offset);
    PutInt(body, symbol.size);
    PutInt(body, symbol.name.size());
    body += symbol.name;
  }
  body += blob.image;
  return std::string(kMagic) + Checksum(body) + body;
}

CodeBlob DeserializeCode(std::string_view bytes) {
  if (bytes.size() < kHead) Damaged("it ends too early");
  if (bytes.substr(0, kMagic.size()) != kMagic) Damaged("it is none, or of another version");
  std::string_view body = bytes.substr(kHead);
  if (bytes.substr(kMagic.size(), kHead - kMagic.size()) != Checksum(body)) {
    Damaged("its checksum differs");
  }
  Reader reader(body);
  uint64_t image_size = reader.Int();
  uint64_t count = reader.Int();
  CodeBlob blob;
  for (uint64_t i = 0; i < count; ++i) blob.symbols.push_back(ReadSymbol(reader, image_size));
  blob.image = reader.Bytes(image_size);
  if (reader.left() != 0) Damaged("more bytes follow");
  if (blob.image.empty()) Damaged("it is empty");
  if (!std::is_sorted(blob.symbols.begin(), blob.symbols.end(), ByName)) {
    Damaged("its functions are not in order");
  }
  return blob;
}

LoadedCode::LoadedCode(const CodeBlob& blob)
    : image_size_(blob.image.size()), symbols_(blob.symbols) {
  HAMMOCK_CHECK(!blob.image.empty());
  size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  size_ = (blob.image.size() + page - 1) / page * page;
  memory_ = MapWritable(size_);
  std::memcpy(memory_, blob.image.data(), blob.image.size());
  if (mprotect(memory_, size_, PROT_READ | PROT_EXEC) != 0) {
    int error = errno;
    munmap(memory_, size_);
    Throw<NotSupported>(ErrorCode::kNotSupported,
                        "cpu: the system does not let this process run new machine code: {}",
                        std::strerror(error));
  }
  gdb_entry_ = AnnounceCode(memory_, symbols_);
}

LoadedCode::~LoadedCode() {
  ForgetCode(gdb_entry_);
  munmap(memory_, size_);
}

const void* LoadedCode::Find(std::string_view name) const {
  auto at = std::lower_bound(symbols_.begin(), symbols_.end(), name,
                             [](const CodeSymbol& s, std::string_view n) { return s.name < n; });
  return at != symbols_.end() && at->name == name ? memory_ + at->offset : nullptr;
}

const void* LoadedCode::Get(std::string_view name) const {
  if (const void* found = Find(name)) return found;
  std::string names;
  for (const CodeSymbol& symbol : symbols_) names += (names.empty() ? "" : ", ") + symbol.name;
  Throw(ErrorCode::kUnknownName, "cpu: no function '{}' in this code, which has: {}", name, names);
}

}  // namespace hammock::cpu
