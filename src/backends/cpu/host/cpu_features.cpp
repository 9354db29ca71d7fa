#include "backends/cpu/host/cpu_features.h"

namespace hammock::cpu {
namespace {

CpuFeatures Detect() {
  CpuFeatures features;
#if defined(__x86_64__)
  features.avx2 = __builtin_cpu_supports("avx2");
  features.avx512f = __builtin_cpu_supports("avx512f");
  features.f16c = __builtin_cpu_supports("f16c");
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq") && features.avx512f) {
    features.processor = Processor::kAvx512;
    features.avx512vnni = __builtin_cpu_supports("avx512vnni");
    features.avx512bf16 = __builtin_cpu_supports("avx512bf16");
  } else if (features.avx2 && __builtin_cpu_supports("fma")) {
    features.processor = Processor::kAvx2;
  }
#endif
  return features;
}

}  // namespace

const CpuFeatures& HostFeatures() {
  static const CpuFeatures features = Detect();
  return features;
}

}  // namespace hammock::cpu
