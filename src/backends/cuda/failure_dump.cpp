#include "backends/cuda/failure_dump.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "backends/cuda/device/device_text.h"
#include "base/log.h"
#include "base/whole_file.h"
#include "hammock/config.h"
#include "hammock/repro.h"

namespace hammock::cuda {

namespace {

void WriteText(const std::string& path, std::string_view text) {
  const std::string_view parts[] = {text};
  WriteWholeFile(path, parts);
}

}  // namespace

void FailureDump::Write(const Error& error) const {
  static std::atomic<int> count{0};
  std::filesystem::path folder = config::Get<kDumpFailures>();
  std::string base = folder / fmt::format("failure-{}-{}", getpid(), ++count);
  try {
    std::filesystem::create_directories(folder);
    WriteTo(base, error);
    Log(LogLevel::kWarn, "cuda.dump_failures: a computation that failed is in {}.repro", base);
  } catch (const std::exception& problem) {
    Log(LogLevel::kWarn, "cuda.dump_failures: {} cannot be written: {}", base, problem.what());
  }
}

void FailureDump::WriteTo(const std::string& base, const Error& error) const {
  WriteRepro(base + ".repro", graph_, inputs_);
  std::string kernels = Prelude();
  for (const KernelSource& source : program_->Sources()) kernels += source.text;
  WriteText(base + ".cu", kernels);
  WriteText(base + ".txt",
            fmt::format("{}\n\n{}\n{}", error.what(), ToText(graph_, {.locations = true}),
                        program_->ToText("schedule")));
}

}  // namespace hammock::cuda
