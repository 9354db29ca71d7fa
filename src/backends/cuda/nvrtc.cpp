#include "backends/cuda/nvrtc.h"

#include <fmt/format.h>

#include <vector>

#include "backends/cuda/library.h"
#include "base/throw.h"

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
  int (*log_size)(NvrtcProgram program, size_t* size);
  int (*log)(NvrtcProgram program, char* log);
  int (*destroy)(NvrtcProgram* program);
  std::string why_absent;
};

const Nvrtc& TheNvrtc() {
  static const auto& nvrtc = *[] {
    auto* n = new Nvrtc;
    Library library({"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"});
    library.Find("nvrtcVersion", n->version);
    library.Find("nvrtcCreateProgram", n->create);
    library.Find("nvrtcCompileProgram", n->compile);
    library.Find("nvrtcGetCUBINSize", n->code_size);
    library.Find("nvrtcGetCUBIN", n->code);
    library.Find("nvrtcGetProgramLogSize", n->log_size);
    library.Find("nvrtcGetProgramLog", n->log);
    library.Find("nvrtcDestroyProgram", n->destroy);
    n->why_absent = library.why_absent();
    return n;
  }();
  return nvrtc;
}

std::string LogOf(const Nvrtc& nvrtc, NvrtcProgram program) {
  size_t size = 0;
  nvrtc.log_size(program, &size);
  std::string log(size, '\0');
  if (size > 0) nvrtc.log(program, log.data());
  return log;
}

}  // namespace

const std::string& WhyNoNvrtc() { return TheNvrtc().why_absent; }

std::string NvrtcVersion() {
  int major = 0, minor = 0;
  if (WhyNoNvrtc().empty()) TheNvrtc().version(&major, &minor);
  return fmt::format("{}.{}", major, minor);
}

std::string CompileByNvrtc(const std::string& text, int architecture) {
  const Nvrtc& nvrtc = TheNvrtc();
  if (!nvrtc.why_absent.empty()) {
    Throw<CompileError>(ErrorCode::kCompile, "cuda: no compiler: {}", nvrtc.why_absent);
  }
  NvrtcProgram program = nullptr;
  int result = nvrtc.create(&program, text.c_str(), "kernels.cu", 0, nullptr, nullptr);
  if (result != 0) Throw<CompileError>(ErrorCode::kCompile, "cuda: NVRTC error {}", result);
  std::string arch = fmt::format("--gpu-architecture=sm_{}", architecture);
  // Every operation is rounded by itself.
  const char* options[] = {arch.c_str(), "--std=c++17", "--fmad=false"};
  result = nvrtc.compile(program, 3, options);
  if (result != 0) {
    std::string log = LogOf(nvrtc, program);
    nvrtc.destroy(&program);
    Throw<CompileError>(ErrorCode::kCompile, "cuda: NVRTC error {}: {}", result, log);
  }
  size_t size = 0;
  nvrtc.code_size(program, &size);
  std::string code(size, '\0');
  nvrtc.code(program, code.data());
  nvrtc.destroy(&program);
  return code;
}

}  // namespace hammock::cuda
