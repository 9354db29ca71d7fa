#pragma once
/// Compiled libraries of kernels in files, for other processes: a folder with a name for each
/// kernel, which all lead to the file of its library.

#include <optional>
#include <string>
#include <vector>

namespace opencl {

/// Thread-safe. What cannot be read or written counts as absent.
class KernelFiles {
 public:
  /// `fingerprint` is all that a library depends on besides its kernels' names. Without a folder
  /// (option `opencl.kernel_cache`) there are no files.
  explicit KernelFiles(const std::string& fingerprint);

  bool active() const { return !folder_.empty(); }
  std::optional<std::string> Read(const std::string& kernel) const;
  void Write(const std::vector<std::string>& kernels, const std::string& library) const;

 private:
  std::string folder_;
};

}  // namespace opencl
