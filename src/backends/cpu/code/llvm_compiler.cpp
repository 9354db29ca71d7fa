#include "backends/cpu/code/llvm_compiler.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/cpu/code/llvm/llvm_plugin.h"
#include "base/never_destroyed.h"
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

constexpr const char* kFileName = "libhammock-llvm.so";

/// The result of opening the plug-in: a compiler, or the reason why there is none.
struct Opened {
  std::unique_ptr<const LlvmCompiler> compiler;
  std::string reason;
};

/// The path of the plug-in in the folder of this library.
std::string PathBesideThisLibrary() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<const void*>(&LlvmCompiler::WhyAbsent), &info)) return "";
  std::filesystem::path file = std::filesystem::path(info.dli_fname).parent_path() / kFileName;
  std::error_code none;
  return std::filesystem::exists(file, none) ? file.string() : "";
}

std::vector<std::string> Candidates(const std::string& setting) {
  if (!setting.empty()) return {setting};
  std::vector<std::string> paths;
  if (std::string beside = PathBesideThisLibrary(); !beside.empty()) paths.push_back(beside);
  paths.push_back(kFileName);
  return paths;
}

// Never closed: LLVM does not survive it, and threads may be inside.
Opened Open(const std::string& path) {
  int flags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  flags |= RTLD_DEEPBIND;  // see __cxa_atexit in llvm_plugin.cpp; sanitizers refuse it
#endif
  void* library = dlopen(path.c_str(), flags);
  if (!library) return {nullptr, dlerror()};
  auto entry = reinterpret_cast<decltype(&HammockLlvmTable)>(dlsym(library, HAMMOCK_LLVM_ENTRY));
  if (!entry) return {nullptr, fmt::format("{} has no {}", path, HAMMOCK_LLVM_ENTRY)};
  const HammockLlvmTableV1* table = entry();
  if (table->abi != HAMMOCK_LLVM_ABI) {
    return {nullptr, fmt::format("{} has interface {}, this library needs {}", path, table->abi,
                                 HAMMOCK_LLVM_ABI)};
  }
  return {std::make_unique<const LlvmCompiler>(*table), ""};
}

/// Tried once for each value of the option.
const Opened& OpenedPlugin() {
  static auto& mutex = NeverDestroyed<std::mutex>();
  static auto& tried = NeverDestroyed<std::map<std::string, Opened>>();
  const std::string& setting = config::Get<kLlvmPlugin>();
  std::lock_guard lock(mutex);
  auto [at, added] = tried.try_emplace(setting);
  if (!added) return at->second;
  std::string reasons;
  for (const std::string& path : Candidates(setting)) {
    at->second = Open(path);
    if (at->second.compiler) return at->second;
    reasons += (reasons.empty() ? "" : "; ") + at->second.reason;
  }
  at->second.reason = fmt::format(
      "no code is compiled without the LLVM plug-in (option cpu.llvm_plugin): {}", reasons);
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
