#include "kernel_files.h"

#include <fmt/format.h>
#include <hammock/option.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

namespace opencl {
namespace {

namespace fs = std::filesystem;

constinit hammock::config::Option<std::string> kKernelCache({
    .name = "opencl.kernel_cache",
    .default_value = "",
    .doc = "Folder of compiled OpenCL kernels, for other processes; empty: none are kept.",
});

}  // namespace

KernelFiles::KernelFiles(const std::string& fingerprint) {
  const std::string folder = hammock::config::Get<kKernelCache>();
  if (folder.empty()) return;
  const std::string own = fmt::format("{}/{:016x}", folder, std::hash<std::string>()(fingerprint));
  std::error_code failed;
  fs::create_directories(own, failed);
  if (!failed) folder_ = own;
}

std::optional<std::string> KernelFiles::Read(const std::string& kernel) const {
  std::ifstream in(fs::path(folder_) / kernel, std::ios::binary);
  if (!in) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

void KernelFiles::Write(const std::vector<std::string>& kernels, const std::string& library) const {
  static std::atomic<int> count{0};
  const fs::path written = fs::path(folder_) / fmt::format("new-{}-{}", getpid(), count++);
  std::ofstream out(written, std::ios::binary);
  out << library;
  out.close();
  std::error_code ignored;
  if (out) {
    // A kernel that another process has written meanwhile stays.
    for (const std::string& kernel : kernels) {
      fs::create_hard_link(written, fs::path(folder_) / kernel, ignored);
    }
  }
  fs::remove(written, ignored);
}

}  // namespace opencl
