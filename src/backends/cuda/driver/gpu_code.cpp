#include "backends/cuda/driver/gpu_code.h"

#include <fmt/format.h>

#include <atomic>
#include <system_error>
#include <thread>

#include "backends/cuda/device/device_text.h"
#include "backends/cuda/driver/nvrtc.h"
#include "base/file_cache.h"
#include "base/throw.h"
#include "hammock/config.h"
#include "hammock/metric.h"

namespace hammock::cuda {
namespace {

constinit const metrics::DeclaredCounter kKernelsCompiled({
    .name = "cuda::KernelsCompiled",
    .doc = "Kernels compiled by NVRTC.",
});

constexpr size_t kMostKept = 4096;

std::string KeyOf(const KernelSource& source) { return ToString(HashString(source.text)); }

}  // namespace

std::string GpuCode::key() const {
  return fmt::format("sm_{} nvrtc {} {}", architecture_, CompilerVersion(), NvrtcOptions());
}

std::vector<std::shared_ptr<Function>> GpuCode::Load(std::span<const KernelSource> sources) {
  std::lock_guard lock(mutex_);
  std::vector<const KernelSource*> missing;
  std::vector<std::shared_ptr<GpuFunction>> fresh;
  std::vector<std::shared_ptr<Function>> functions;
  for (const KernelSource& source : sources) {
    std::shared_ptr<GpuFunction> known = functions_[source.name].lock();
    if (!known) {
      known = std::make_shared<GpuFunction>(driver_, source.text);
      functions_[source.name] = known;
      missing.push_back(&source);
      fresh.push_back(known);
    }
    HAMMOCK_CHECK(known->text == source.text, "two kernels are called {}", source.name);
    functions.push_back(std::move(known));
  }
  try {
    std::vector<std::string> codes = CompileAll(missing);
    for (size_t i = 0; i < missing.size(); ++i) {
      LoadCode(*missing[i], std::move(codes[i]), *fresh[i]);
      kept_.push_back(fresh[i]);
      if (kept_.size() > kMostKept) kept_.pop_front();
    }
  } catch (...) {
    for (const KernelSource* source : missing) functions_.erase(source->name);
    throw;
  }
  return functions;
}

std::string GpuCode::Assembly(const KernelSource& source) const {
  return PtxByNvrtc(Prelude() + source.text, architecture_);
}

std::map<std::string, std::string> GpuCode::Save(std::span<const KernelSource> sources) {
  std::map<std::string, std::string> code;
  for (const KernelSource& source : sources) {
    std::string& of_source = code[KeyOf(source)];
    if (of_source.empty()) of_source = CodeOf(source);
  }
  return code;
}

void GpuCode::Add(std::map<std::string, std::string> code) {
  std::lock_guard lock(saved_mutex_);
  saved_.merge(std::move(code));
}

std::optional<std::string> GpuCode::TakeSaved(const std::string& key) {
  std::lock_guard lock(saved_mutex_);
  auto found = saved_.find(key);
  if (found == saved_.end()) return std::nullopt;
  std::string code = std::move(found->second);
  saved_.erase(found);
  return code;
}

// By several threads, where there is code to compile.
std::vector<std::string> GpuCode::CompileAll(const std::vector<const KernelSource*>& sources) {
  std::vector<std::string> codes(sources.size());
  std::vector<std::exception_ptr> errors(sources.size());
  std::atomic<size_t> next{0};
  auto work = [&] {
    for (size_t i = next++; i < sources.size(); i = next++) {
      try {
        codes[i] = CodeOf(*sources[i]);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  const size_t threads = std::min<size_t>(sources.size(), std::thread::hardware_concurrency());
  std::vector<std::jthread> others;
  try {
    for (size_t i = 1; i < threads; ++i) others.emplace_back(work);
  } catch (const std::system_error&) {  // those that could be started do the work
  }
  work();
  others.clear();  // waits for them
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return codes;
}

// Code from the disk that the driver refuses is compiled again.
void GpuCode::LoadCode(const KernelSource& source, std::string code, GpuFunction& function) const {
  CUresult result = driver_.module_load(&function.module, code.data());
  if (result != kCudaSuccess) {
    code = CompileByNvrtc(Prelude() + source.text, architecture_);
    driver_.Check(driver_.module_load(&function.module, code.data()), "cuModuleLoadData");
  }
  driver_.Check(driver_.module_function(&function.function, function.module, source.name.c_str()),
                "cuModuleGetFunction");
}

std::string GpuCode::CodeOf(const KernelSource& source) {
  if (std::optional<std::string> code = TakeSaved(KeyOf(source))) return std::move(*code);
  std::string text = Prelude() + source.text;
  FileCache* files = FileCache::OfConfig();
  std::string file_key = key() + "\n" + text;
  if (files) {
    if (std::optional<std::string> code = files->Load("cuda", file_key)) return *code;
  }
  std::string code = CompileByNvrtc(text, architecture_);
  metrics::Get<kKernelsCompiled>().Add();
  if (files) files->Save("cuda", file_key, code, config::Get<config::kCacheDirBytes>());
  return code;
}

}  // namespace hammock::cuda
