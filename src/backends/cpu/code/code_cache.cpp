#include "backends/cpu/code/code_cache.h"

#include <fmt/format.h>

#include <mutex>
#include <optional>
#include <unordered_map>

#include "backends/cpu/code/host_cpu.h"
#include "base/build_id.h"
#include "base/file_cache.h"
#include "base/log.h"
#include "base/never_destroyed.h"
#include "hammock/config.h"
#include "hammock/error.h"
#include "hammock/metric.h"

namespace hammock::cpu {

namespace {

constinit const metrics::DeclaredMetric kLlvmTime({
    .name = "cpu::LlvmTime",
    .kind = metrics::Kind::kTime,
    .doc = "Time in LLVM.",
    .old_name = "CpuCompileTime",
});

constinit const metrics::DeclaredCounter kCodeShared({
    .name = "cpu::CodeShared",
    .doc = "Kernels whose code was in memory.",
    .old_name = "CpuCodeShared",
});

constinit const metrics::DeclaredCounter kCodeFromDisk({
    .name = "cpu::CodeFromDisk",
    .doc = "Kernels whose code was on disk.",
    .old_name = "CpuCodeFromDisk",
});

constinit const metrics::DeclaredCounter kCodeCompiled({
    .name = "cpu::CodeCompiled",
    .doc = "Kernels compiled by LLVM.",
    .old_name = "CpuCodeCompiled",
});

constexpr std::string_view kKind = "cpu-code";

/// The code that this process holds, by key. Entries of code that nobody holds any more are removed
/// when as many were added as there were.
class LiveCode {
 public:
  std::shared_ptr<const LoadedCode> Find(const std::string& key) {
    std::lock_guard lock(mutex_);
    auto at = by_key_.find(key);
    return at == by_key_.end() ? nullptr : at->second.lock();
  }

  /// Returns the code that is already there, else `code`.
  std::shared_ptr<const LoadedCode> Add(const std::string& key,
                                        std::shared_ptr<const LoadedCode> code) {
    std::lock_guard lock(mutex_);
    std::weak_ptr<const LoadedCode>& known = by_key_[key];
    if (auto present = known.lock()) return present;
    known = code;
    if (by_key_.size() >= sweep_at_) {
      std::erase_if(by_key_, [](const auto& entry) { return entry.second.expired(); });
      sweep_at_ = 2 * by_key_.size() + 64;
    }
    return code;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::weak_ptr<const LoadedCode>> by_key_;
  size_t sweep_at_ = 64;
};

LiveCode& Live() {
  static auto& live = NeverDestroyed<LiveCode>();
  return live;
}

std::optional<CodeBlob> LoadBlob(const std::string& key) {
  FileCache* cache = FileCache::OfConfig();
  if (!cache) return std::nullopt;
  std::optional<std::string> bytes = cache->Load(kKind, key);
  if (!bytes) return std::nullopt;
  try {
    return DeserializeCode(*bytes);
  } catch (const Error& error) {
    Log(LogLevel::kWarn, "cache_dir: {}/{}: {}", cache->directory(),
        FileCache::FileName(kKind, key), error.message());
    return std::nullopt;
  }
}

void SaveBlob(const std::string& key, const CodeBlob& blob) {
  if (FileCache* cache = FileCache::OfConfig()) {
    cache->Save(kKind, key, SerializeCode(blob), config::Get<config::kCacheDirBytes>());
  }
}

}  // namespace

std::string CodeKey(std::string_view source, const CompileOptions& options) {
  return fmt::format("hammock {} llvm {} host {} effort {} cpu {} features {}\n{}", BuildId(),
                     HAMMOCK_LLVM_VERSION, HostCpuKey(), static_cast<int>(options.effort),
                     options.cpu, options.features, source);
}

CodeBlob CompileCode(std::string_view ir, const CompileOptions& options) {
  metrics::ScopedTimer timer(metrics::Get<kLlvmTime>());
  return LinkObject(LlvmCompiler::Get().Compile(ir, options));
}

std::shared_ptr<const LoadedCode> AddCode(const std::string& key, const CodeBlob& blob) {
  if (auto code = Live().Find(key)) return code;
  return Live().Add(key, std::make_shared<const LoadedCode>(blob));
}

bool IsLive(std::string_view source, const CompileOptions& options) {
  return Live().Find(CodeKey(source, options)) != nullptr;
}

std::shared_ptr<const LoadedCode> FindCode(std::string_view source, const CompileOptions& options) {
  std::string key = CodeKey(source, options);
  if (auto code = Live().Find(key)) {
    metrics::Get<kCodeShared>().Add();
    return code;
  }
  std::optional<CodeBlob> blob = LoadBlob(key);
  if (!blob) return nullptr;
  metrics::Get<kCodeFromDisk>().Add();
  return Live().Add(key, std::make_shared<const LoadedCode>(*blob));
}

std::shared_ptr<const LoadedCode> GetCode(std::string_view source,
                                          const std::function<std::string()>& emit,
                                          const CompileOptions& options) {
  if (auto code = FindCode(source, options)) return code;
  CodeBlob blob = CompileCode(emit(), options);
  metrics::Get<kCodeCompiled>().Add();
  std::string key = CodeKey(source, options);
  SaveBlob(key, blob);
  return Live().Add(key, std::make_shared<const LoadedCode>(blob));
}

}  // namespace hammock::cpu
