#pragma once
/// Machine code without a linker or LLVM. A CodeBlob is code and its constants as one image that
/// runs at any address, plus the names of its functions, as stored in caches and archives.
/// LoadedCode is a blob in executable memory.
///   CodeBlob blob = LinkObject(LlvmCompiler::Get().Compile(ir));
///   LoadedCode code(blob);
///   auto* add = code.Function<void(float*, int64_t)>("add");

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace hammock::cpu {

struct CodeSymbol {
  std::string name;
  uint64_t offset = 0;  ///< of its first byte in the image
  uint64_t size = 0;

  friend bool operator==(const CodeSymbol&, const CodeSymbol&) = default;
};

struct CodeBlob {
  std::string image;
  std::vector<CodeSymbol> symbols;  ///< by name

  friend bool operator==(const CodeBlob&, const CodeBlob&) = default;
};

/// Links an x86-64 ELF object into a blob. CompileError if it uses functions or data that it does
/// not define (the error names them), has writable data, or holds absolute addresses.
CodeBlob LinkObject(std::string_view object);

/// Bytes with a version and a checksum; equal blobs give equal bytes.
std::string SerializeCode(const CodeBlob& blob);
/// ValueError (kParse) if the bytes are not those of `SerializeCode`.
CodeBlob DeserializeCode(std::string_view bytes);

/// Code that can be called from any thread as long as this lives. Its memory is never writable and
/// executable at once.
class LoadedCode {
 public:
  /// OutOfMemory or NotSupported where the system refuses executable memory.
  explicit LoadedCode(const CodeBlob& blob);
  ~LoadedCode();
  LoadedCode(const LoadedCode&) = delete;
  LoadedCode& operator=(const LoadedCode&) = delete;

  /// Null where there is no such function.
  const void* Find(std::string_view name) const;
  /// ValueError where there is no such function.
  template <class Signature>
  Signature* Function(std::string_view name) const {
    static_assert(std::is_function_v<Signature>);
    return reinterpret_cast<Signature*>(reinterpret_cast<uintptr_t>(Get(name)));
  }

  CodeBlob blob() const { return {{memory_, image_size_}, symbols_}; }
  const char* begin() const { return memory_; }
  size_t size() const { return size_; }  ///< of the memory that it takes
  const std::vector<CodeSymbol>& symbols() const { return symbols_; }

 private:
  const void* Get(std::string_view name) const;

  char* memory_ = nullptr;
  size_t size_ = 0;
  size_t image_size_ = 0;
  std::vector<CodeSymbol> symbols_;
  void* gdb_entry_ = nullptr;  // see code_symbols.h
};

}  // namespace hammock::cpu
