#include "backends/cuda/driver/nvrtc.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <atomic>
#include <vector>

#include "base/build_id.h"
#include "base/file_cache.h"
#include "base/library.h"
#include "base/never_destroyed.h"
#include "base/throw.h"
#include "hammock/config.h"

namespace hammock::cuda {
namespace {

using NvrtcProgram = struct _nvrtcProgram*;

struct Nvrtc {
  int (*version)(int* major, int* minor);
  int (*create)(NvrtcProgram* program, const char* text, const char* name, int headers,
                const char* const* header_texts, const char* const* header_names);
  int (*compile)(NvrtcProgram program, int options, const char* const* option_texts);
  int (*code_size)(NvrtcProgram program, size_t* size);
  int (*code)(NvrtcProgram program, char* code);
  int (*ptx_size)(NvrtcProgram program, size_t* size);
  int (*ptx)(NvrtcProgram program, char* ptx);
  int (*log_size)(NvrtcProgram program, size_t* size);
  int (*log)(NvrtcProgram program, char* log);
  int (*destroy)(NvrtcProgram* program);
  std::string why_absent;
};

Nvrtc LoadNvrtc() {
  Nvrtc n;
  Library library({"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"});
  library.Find("nvrtcVersion", n.version);
  library.Find("nvrtcCreateProgram", n.create);
  library.Find("nvrtcCompileProgram", n.compile);
  library.Find("nvrtcGetCUBINSize", n.code_size);
  library.Find("nvrtcGetCUBIN", n.code);
  library.Find("nvrtcGetPTXSize", n.ptx_size);
  library.Find("nvrtcGetPTX", n.ptx);
  library.Find("nvrtcGetProgramLogSize", n.log_size);
  library.Find("nvrtcGetProgramLog", n.log);
  library.Find("nvrtcDestroyProgram", n.destroy);
  n.why_absent = library.why_absent();
  return n;
}

const Nvrtc& TheNvrtc() {
  static const auto& nvrtc = NeverDestroyed<Nvrtc>(LoadNvrtc());
  return nvrtc;
}

std::string LogOf(const Nvrtc& nvrtc, NvrtcProgram program) {
  size_t size = 0;
  nvrtc.log_size(program, &size);
  std::string log(size, '\0');
  if (size > 0) nvrtc.log(program, log.data());
  return log;
}

// No contraction: every operation is rounded by itself.
constexpr const char* kOptions[] = {"--std=c++17", "--fmad=false"};

/// With the suffix for instructions that only this architecture has, such as those of "90a".
std::string NameOfArchitecture(int architecture) {
  return fmt::format("{}{}", architecture, architecture == 90 ? "a" : "");
}

/// `target` is "sm_90a" or "compute_90a"; `size` and `get` select machine code or PTX.
std::string Compiled(const std::string& text, const std::string& target,
                     int (*Nvrtc::*size)(NvrtcProgram, size_t*),
                     int (*Nvrtc::*get)(NvrtcProgram, char*)) {
  const Nvrtc& nvrtc = TheNvrtc();
  if (!nvrtc.why_absent.empty()) {
    Throw<CompileError>(ErrorCode::kCompile, "cuda: no compiler: {}", nvrtc.why_absent);
  }
  NvrtcProgram program = nullptr;
  int result = nvrtc.create(&program, text.c_str(), "kernels.cu", 0, nullptr, nullptr);
  if (result != 0) Throw<CompileError>(ErrorCode::kCompile, "cuda: NVRTC error {}", result);
  std::string arch = "--gpu-architecture=" + target;
  std::vector<const char*> options(std::begin(kOptions), std::end(kOptions));
  options.push_back(arch.c_str());
  result = nvrtc.compile(program, static_cast<int>(options.size()), options.data());
  if (result != 0) {
    std::string log = LogOf(nvrtc, program);
    nvrtc.destroy(&program);
    Throw<CompileError>(ErrorCode::kCompile, "cuda: NVRTC error {}: {}", result, log);
  }
  size_t bytes = 0;
  (nvrtc.*size)(program, &bytes);
  std::string code(bytes, '\0');
  (nvrtc.*get)(program, code.data());
  nvrtc.destroy(&program);
  return code;
}

}  // namespace

const std::string& WhyNoNvrtc() { return TheNvrtc().why_absent; }

std::string NvrtcVersion() {
  int major = 0, minor = 0;
  if (WhyNoNvrtc().empty()) TheNvrtc().version(&major, &minor);
  return fmt::format("{}.{}", major, minor);
}

std::string CompilerVersion() {
  constexpr const char* kKind = "cuda-compiler";
  FileCache* files = FileCache::OfConfig();
  if (!WhyNoNvrtc().empty()) {
    return files ? files->Load(kKind, BuildId()).value_or("none") : "none";
  }
  static const std::string& version = NeverDestroyed<std::string>(NvrtcVersion());
  static constinit std::atomic<FileCache*> noted_in{nullptr};
  if (files && noted_in.exchange(files) != files && files->Load(kKind, BuildId()) != version) {
    files->Save(kKind, BuildId(), version, config::Get<config::kCacheDirBytes>());
  }
  return version;
}

std::string NvrtcOptions() { return fmt::format("{}", fmt::join(kOptions, " ")); }

std::string CompileByNvrtc(const std::string& text, int architecture) {
  return Compiled(text, "sm_" + NameOfArchitecture(architecture), &Nvrtc::code_size, &Nvrtc::code);
}

std::string PtxByNvrtc(const std::string& text, int architecture) {
  return Compiled(text, "compute_" + NameOfArchitecture(architecture), &Nvrtc::ptx_size,
                  &Nvrtc::ptx);
}

}  // namespace hammock::cuda
