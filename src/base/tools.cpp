#include "base/tools.h"

#include <atomic>
#include <optional>
#include <string_view>

#include "base/library.h"
#include "base/log.h"
#include "base/never_destroyed.h"
#include "hammock/option.h"

namespace hammock::tools {
namespace {

constinit std::atomic<uint32_t> chosen{0};

/// Nothing if the text is not a list of tools.
std::optional<uint32_t> ParseTools(std::string_view text) {
  uint32_t tools = 0;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view name = text.substr(0, comma);
    if (name == "perf") {
      tools |= kPerf;
    } else if (name == "gdb") {
      tools |= kGdb;
    } else if (name == "nvtx") {
      tools |= kNvtx;
    } else {
      return std::nullopt;
    }
    text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
  }
  return tools;
}

std::optional<std::string> CheckTools(std::string_view value) {
  if (ParseTools(value)) return std::nullopt;
  return "a list of perf, gdb and nvtx, separated by commas";
}

void Choose();

constinit config::Option<std::string> kTools({
    .name = "tools",
    .default_value = "",
    .doc = "Tools that are told what happens, separated by commas: `perf` finds the names of "
           "compiled functions in /tmp/perf-PID.map, `gdb` by its JIT interface; `nvtx` shows "
           "steps and kernels as ranges of Nsight Systems.",
    .check = CheckTools,
    .changed = Choose,
});

// Options that `tools` replaces, for one version.
constinit config::Option<bool> kPerfMap({
    .name = "cpu.perf_map",
    .default_value = false,
    .doc = "Old form of `tools=perf`.",
    .changed = Choose,
});
constinit config::Option<bool> kOldGdb({
    .name = "cpu.gdb",
    .default_value = false,
    .doc = "Old form of `tools=gdb`.",
    .changed = Choose,
});

uint32_t IfSet(bool is_set, const char* option, const char* name, Tool tool) {
  if (!is_set) return 0;
  LogOnce(option, LogLevel::kWarn,
          "config: option '{}' is now tools={}; the next version does not know it", option, name);
  return tool;
}

void Choose() {
  const uint32_t old = IfSet(config::Get<kPerfMap>(), "cpu.perf_map", "perf", kPerf) |
                       IfSet(config::Get<kOldGdb>(), "cpu.gdb", "gdb", kGdb);
  chosen.store(ParseTools(config::Get<kTools>()).value_or(0) | old, std::memory_order_relaxed);
}

struct Nvtx {
  // The first is of CUDA 13 and later; both forward to the tool that runs the process, if any.
  Library library{{"libnvtx3interop.so.1", "libnvToolsExt.so.1"}};
  int (*push)(const char*) = nullptr;
  int (*pop)() = nullptr;

  Nvtx() {
    library.Find("nvtxRangePushA", push);
    library.Find("nvtxRangePop", pop);
    if (library.why_absent().empty()) return;
    Log(LogLevel::kWarn, "tools: there are no NVTX ranges: {}", library.why_absent());
    push = nullptr;
  }
};

const Nvtx& TheNvtx() {
  static const auto& nvtx = NeverDestroyed<Nvtx>();
  return nvtx;
}

}  // namespace

bool IsOn(Tool tool) {
  config::Get<kTools>();  // the first time it reads the environment
  return (chosen.load(std::memory_order_relaxed) & tool) != 0;
}

bool Range::Push(const std::string& name) {
  const Nvtx& nvtx = TheNvtx();
  if (!nvtx.push) return false;
  nvtx.push(name.c_str());
  return true;
}

void Range::Pop() { TheNvtx().pop(); }

}  // namespace hammock::tools
