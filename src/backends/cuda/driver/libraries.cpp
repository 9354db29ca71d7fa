#include "backends/cuda/driver/libraries.h"

#include <fmt/format.h>

#include "backends/cuda/driver/blas.h"
#include "backends/cuda/driver/driver.h"
#include "backends/cuda/driver/fft.h"
#include "backends/cuda/driver/nccl.h"
#include "backends/cuda/driver/nvrtc.h"
#include "base/library.h"
#include "base/never_destroyed.h"

namespace hammock::cuda {

namespace {

lazy::DeviceFact Found(const char* name, const std::string& text) { return {name, text, false}; }
lazy::DeviceFact Missing(const char* name, const std::string& why) { return {name, why, true}; }

/// 91002 -> "9.10.2"; `major` is what the first part is multiplied by.
std::string DottedVersion(int64_t number, int64_t major) {
  return fmt::format("{}.{}.{}", number / major, number / 100 % (major / 100), number % 100);
}

std::string WithPath(const std::string& version, const Library& library) {
  return fmt::format("{} ({})", version, library.path());
}

lazy::DeviceFact DescribeDriver() {
  const Driver* driver = TheDriver();
  if (!driver) return Missing("driver", WhyNoDriver());
  int version = 0;
  driver->driver_version(&version);
  return Found("driver", fmt::format("CUDA {}.{}", version / 1000, version / 10 % 100));
}

/// The version of a library whose function returns it, or writes it to an address.
lazy::DeviceFact DescribeVersion(const char* name, const std::vector<std::string>& files,
                                 const char* returns, const char* writes, int64_t major = 10000) {
  Library library(files);
  size_t (*version)() = nullptr;
  int (*write_version)(int*) = nullptr;
  int number = 0;
  if (returns) {
    library.Find(returns, version);
    if (version) number = static_cast<int>(version());
  } else {
    library.Find(writes, write_version);
    if (write_version) write_version(&number);
  }
  if (!library.why_absent().empty()) return Missing(name, library.why_absent());
  return Found(name, WithPath(DottedVersion(number, major), library));
}

}  // namespace

std::vector<lazy::DeviceFact> DescribeLibraries() {
  return {
      DescribeDriver(),
      WhyNoNvrtc().empty() ? Found("nvrtc", NvrtcVersion()) : Missing("nvrtc", WhyNoNvrtc()),
      DescribeVersion("cublaslt", BlasFiles(), "cublasLtGetVersion", nullptr),
      DescribeVersion("cudnn", {"libcudnn.so.9", "libcudnn.so"}, "cudnnGetVersion", nullptr),
      DescribeVersion("cufft", FftFiles(), nullptr, "cufftGetVersion", 1000),
      DescribeVersion("nccl", NcclFiles(), nullptr, "ncclGetVersion"),
  };
}

const std::string& LibraryVersions() {
  static const auto& versions = NeverDestroyed<std::string>(
      fmt::format("driver {}, cublaslt {}", DescribeDriver().text, BlasVersion()));
  return versions;
}

}  // namespace hammock::cuda
