#pragma once
/// Instructions of the processor that this process runs on, found once. Loops that gain from wider
/// vectors are compiled for each kind of processor, and the kind that is there is chosen at run
/// time:
///
///   #define HAMMOCK_LOOPS(Name, TARGET) struct Name { TARGET static void Run(...) {...} };
///   HAMMOCK_FOR_PROCESSORS(HAMMOCK_LOOPS)  // Plain, and on x86-64 Avx2 and Avx512
///   auto run = [](auto kind) { return &decltype(kind)::Run; };
///   HAMMOCK_VISIT_PROCESSOR(run)  // run(Avx2{}) on a processor with AVX2

namespace hammock::cpu {

enum class Processor { kPlain, kAvx2, kAvx512 };

struct CpuFeatures {
  bool avx2 = false;
  bool avx512f = false;
  bool f16c = false;
  bool avx512vnni = false, avx512bf16 = false;  ///< only where `processor` is kAvx512
  Processor processor = Processor::kPlain;      ///< kAvx2 has FMA too, kAvx512 also BW, DQ and VL
};
const CpuFeatures& HostFeatures();

}  // namespace hammock::cpu

#if defined(__x86_64__)
#define HAMMOCK_AVX2 [[gnu::target("avx2,fma")]]
#define HAMMOCK_AVX512 \
  [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,fma,prefer-vector-width=512")]]
#define HAMMOCK_FOR_PROCESSORS(LOOPS) \
  LOOPS(Plain, )                      \
  LOOPS(Avx2, HAMMOCK_AVX2)           \
  LOOPS(Avx512, HAMMOCK_AVX512)
/// `visit` of an object of the type that HAMMOCK_FOR_PROCESSORS made for this processor.
#define HAMMOCK_VISIT_PROCESSOR(visit)                                            \
  (::hammock::cpu::HostFeatures().processor == ::hammock::cpu::Processor::kAvx512 \
       ? visit(Avx512{})                                                          \
   : ::hammock::cpu::HostFeatures().processor == ::hammock::cpu::Processor::kAvx2 \
       ? visit(Avx2{})                                                            \
       : visit(Plain{}))
#else
#define HAMMOCK_FOR_PROCESSORS(LOOPS) LOOPS(Plain, )
#define HAMMOCK_VISIT_PROCESSOR(visit) visit(Plain{})
#endif
