#include "backends/cpu/describe.h"

#include <fmt/format.h>

#include <fstream>

#include "backends/cpu/code/llvm_compiler.h"
#include "backends/cpu/host/cpu_features.h"
#include "backends/cpu/host/thread_pool.h"
#include "backends/cpu/matmul/matmul_kernel.h"
#include "backends/cpu/program.h"
#include "hammock/compiler/describe_schedule.h"
#include "hammock/config.h"

namespace hammock::cpu {

lazy::ComputationInfo Program::Describe(std::string_view what) const {
  compiler::ScheduledGraph at = AtOwnSizes();
  std::vector<lazy::KernelInfo> commands = compiler::DescribeCommands(at.graph, at.schedule);
  lazy::ComputationInfo info{std::move(at.graph), std::move(commands), plan_.peak_bytes()};
  for (size_t i = 0; i < info.kernels.size(); ++i) {
    if (const char* call = CallName(i)) info.kernels[i].kind = call;
    if (std::string code = CodeText(i, what); !code.empty()) info.kernels[i].text += "\n" + code;
  }
  return info;
}

namespace {

std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::string VectorsText() {
#if defined(__x86_64__)
  if (HostFeatures().avx512f) return "AVX-512";
  if (HostFeatures().avx2) return "AVX2";
  return "SSE2";
#else
  return "of the compiler's choice";
#endif
}

}  // namespace

std::vector<lazy::DeviceFact> DescribeHost() {
  std::vector<lazy::DeviceFact> facts = {{"processor", ProcessorName()},
                                         {"vectors", VectorsText()},
                                         {"threads", std::to_string(ThreadPool::threads())}};
  if (std::string why = LlvmCompiler::WhyAbsent(); why.empty()) {
    const LlvmCompiler& llvm = LlvmCompiler::Get();
    facts.push_back({"compiler", fmt::format("LLVM {} for {}", llvm.version(), llvm.host_cpu())});
  } else {
    facts.push_back({"compiler", why + "; kernels are interpreted", true});
  }
  const char* why_not = config::Get<kOneDnn>() ? nullptr : "the option cpu.onednn is off";
#ifndef HAMMOCK_WITH_ONEDNN
  why_not = "built without oneDNN";
#endif
  facts.push_back({"matmuls", why_not ? fmt::format("{}; own loops are slower", why_not) : "oneDNN",
                   why_not != nullptr});
  const std::string& folder = config::Get<config::kCacheDir>();
  facts.push_back({"code on disk", folder.empty() ? "none; see the option cache_dir" : folder});
  return facts;
}

}  // namespace hammock::cpu
