#pragma once
/// Kernels whose code is a function of device/, and their arguments.
///   KernelSource source = SourceOf({.file = "transpose.cuh",
///                                   .function = "transpose<float, 1>",
///                                   .argument_bytes = sizeof(TransposeArgs<void>) + 32});
///   machine.Launch(function, grid, WordsOf(TransposeArgs<void>{.from = At(address), ...}));

#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "backends/cuda/driver/machine.h"

namespace hammock::cuda {

struct DeviceKernel {
  std::string file;           ///< in device/
  std::string function;       ///< with its template arguments; its parameter is the argument struct
  size_t argument_bytes = 0;  ///< of the argument struct on the host
  std::string definitions = {};  ///< text in front of the kernel, of types that `function` names
  int threads = 256;             ///< of a block
  int resident = 1;              ///< blocks that fit on a multiprocessor at once, at least
};
KernelSource SourceOf(const DeviceKernel& kernel);

/// Sources by what they depend on, written once in a process: programs at new sizes ask for those
/// of their calls again. Thread-safe.
template <class Key>
class SourceTable {
 public:
  template <class Write>
  KernelSource Find(const Key& key, const Write& write) {
    std::lock_guard lock(mutex_);
    auto found = sources_.find(key);
    if (found == sources_.end()) found = sources_.emplace(key, write()).first;
    return found->second;
  }

 private:
  std::mutex mutex_;
  std::map<Key, KernelSource> sources_;
};

/// The text of a struct of types and functions, as a template argument of device code.
class TypeText {
 public:
  explicit TypeText(std::string_view name);
  TypeText& Type(std::string_view name, std::string_view type);
  TypeText& Constant(std::string_view name, int64_t value);
  TypeText& Constant(std::string_view name, bool value);
  TypeText& Constants(std::string_view name, const Dims& values);
  /// `head` is such as "float square(float x)", `value` the expression that it returns.
  TypeText& Function(std::string_view head, std::string_view value);
  std::string Text() const;

 private:
  std::string text_;
};

/// An address as a pointer of an argument struct.
struct At {
  explicit At(Address address) : address(address) {}
  template <class T>
  operator T*() const {  // NOLINT: converts
    return reinterpret_cast<T*>(address);
  }
  Address address;
};

/// An argument struct as it is passed to Launch.
template <class Args>
std::vector<uint64_t> WordsOf(const Args& args) {
  static_assert(std::is_trivially_copyable_v<Args> && alignof(Args) == 8);
  std::vector<uint64_t> words(sizeof(Args) / 8);
  std::memcpy(words.data(), &args, sizeof(Args));
  return words;
}

}  // namespace hammock::cuda
