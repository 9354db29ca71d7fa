#include "backends/cpu/code/llvm_compiler.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <optional>

#include "backends/cpu/code/llvm/llvm_plugin.h"
#include "base/never_destroyed.h"
#include "base/plugin_library.h"
#include "base/throw.h"
#include "hammock/config.h"

namespace hammock::cpu {

namespace {

constinit config::Option<std::string> kLlvmPlugin({
    .name = "cpu.llvm_plugin",
    .default_value = "",
    .doc =
        "File of the plug-in that compiles for the CPU; empty: `libhammock-llvm.so` beside the "
        "library, or where the system finds it; `none`: kernels are interpreted, and `reference` "
        "is the default device.",
});

/// The compiler, or the reason why there is none.
struct Opened {
  std::optional<LlvmCompiler> compiler;
  std::string reason;
};

/// One for each value of the option.
const Opened& OpenedPlugin() {
  static auto& plugin = NeverDestroyed<PluginLibrary>(PluginSpec{
      .file = "libhammock-llvm.so",
      .entry = HAMMOCK_LLVM_ENTRY,
      .abi = HAMMOCK_LLVM_ABI,
      .without = "no code is compiled without the LLVM plug-in (option cpu.llvm_plugin)",
      .own_symbols = true,  // see __cxa_atexit in llvm_plugin.cpp
  });
  static auto& mutex = NeverDestroyed<std::mutex>();
  static auto& compilers = NeverDestroyed<std::map<std::string, Opened>>();
  const std::string& setting = config::Get<kLlvmPlugin>();
  std::lock_guard lock(mutex);
  auto [at, added] = compilers.try_emplace(setting);
  if (!added) return at->second;
  if (auto* table = plugin.Find<HammockLlvmTableV1>(setting)) at->second.compiler.emplace(*table);
  at->second.reason = plugin.Open(setting).reason;
  return at->second;
}

void Keep(void* context, const char* bytes, size_t size) {
  static_cast<std::string*>(context)->assign(bytes, size);
}

}  // namespace

const LlvmCompiler& LlvmCompiler::Get() {
  const Opened& opened = OpenedPlugin();
  if (!opened.compiler) Throw<NotSupported>(ErrorCode::kNotSupported, "cpu: {}", opened.reason);
  return *opened.compiler;
}

bool LlvmCompiler::IsOff() { return config::Get<kLlvmPlugin>() == "none"; }

std::string LlvmCompiler::WhyAbsent() {
  const Opened& opened = OpenedPlugin();
  return opened.compiler ? "" : opened.reason;
}

std::string_view LlvmCompiler::version() const { return table_.version; }
std::string_view LlvmCompiler::host_cpu() const { return table_.host_cpu; }
std::string_view LlvmCompiler::host_features() const { return table_.host_features; }

std::string LlvmCompiler::Compile(std::string_view ir, const CompileOptions& options) const {
  return Run(ir, options, false);
}

std::string LlvmCompiler::Assembly(std::string_view ir, const CompileOptions& options) const {
  return Run(ir, options, true);
}

std::string LlvmCompiler::Run(std::string_view ir, const CompileOptions& options,
                              bool assembly) const {
  if (ir.find('\0') != ir.npos) {  // where LLVM would stop reading
    Throw<CompileError>(ErrorCode::kCompile, "cpu: the IR text has a zero byte");
  }
  bool host = options.cpu.empty();
  HammockLlvmRequest request = {
      .ir = ir.data(),
      .ir_size = ir.size(),
      .cpu = host ? table_.host_cpu : options.cpu.c_str(),
      .features = host ? table_.host_features : options.features.c_str(),
      .effort = static_cast<int32_t>(options.effort),
      .assembly = assembly,
  };
  std::string bytes;
  if (table_.compile(&request, Keep, &bytes) == 0) return bytes;
  Throw<CompileError>(ErrorCode::kCompile, "cpu: LLVM {}: {}", version(), bytes);
}

}  // namespace hammock::cpu
