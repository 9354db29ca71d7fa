#pragma once

namespace hammock {

/// Tells the processor that the thread is spinning, where it has an instruction for that.
inline void CpuRelax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace hammock
