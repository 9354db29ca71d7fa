#include "backends/cpu/code/host_cpu.h"

#include "backends/cpu/host/cpu_features.h"
#include "base/never_destroyed.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace hammock::cpu {

namespace {

#if defined(__x86_64__)

struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers Cpuid(unsigned leaf, unsigned subleaf = 0) {
  Registers r;
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
  return r;
}

/// The registers that the operating system saves, which says whether vectors can be used.
uint64_t SavedStates() {
  constexpr unsigned kOsxsave = 1u << 27;
  if (!(Cpuid(1).ecx & kOsxsave)) return 0;
  uint32_t low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}

std::string ReadHostCpu() {
  constexpr unsigned kWithoutStepping = ~0xfu;
  Registers vendor = Cpuid(0);
  Registers basic = Cpuid(1);  // ebx has the number of the core: not taken
  Registers more = Cpuid(7), most = Cpuid(7, 1), extended = Cpuid(0x80000001);
  char maker[13] = {};
  std::memcpy(maker, &vendor.ebx, 4);
  std::memcpy(maker + 4, &vendor.edx, 4);
  std::memcpy(maker + 8, &vendor.ecx, 4);
  return fmt::format("x86-64-{}-{:x}-{:x}.{:x}-{:x}.{:x}.{:x}-{:x}.{:x}-{:x}.{:x}-{:x}", maker,
                     basic.eax & kWithoutStepping, basic.ecx, basic.edx, more.ebx, more.ecx,
                     more.edx, most.eax, most.edx, extended.ecx, extended.edx, SavedStates());
}

#else

std::string ReadHostCpu() { return "other"; }

#endif

}  // namespace

compiler::IrTarget HostTarget() { return {.scale = HostFeatures().avx512f}; }

const std::string& HostCpuKey() {
  static const auto& key = NeverDestroyed<std::string>(ReadHostCpu());
  return key;
}

}  // namespace hammock::cpu
