#pragma once
/// The interface of `libhammock-llvm.so`: one function that returns one table. It has plain C types
/// only; neither ownership of memory nor exceptions cross it.

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HAMMOCK_LLVM_ABI 1
#define HAMMOCK_LLVM_ENTRY "HammockLlvmTable"

/// The optimisation level: 0 little, 1 the usual, 2 all of LLVM's usual passes.
struct HammockLlvmRequest {
  const char* ir;  ///< a module as text
  size_t ir_size;
  const char* cpu;       ///< LLVM's name of a CPU
  const char* features;  ///< such as "+avx2,-avx512f"
  int32_t effort;
  int32_t assembly;  ///< 1: the result is assembly text instead of an ELF object
};

/// Receives the result or the error text, which are valid during the call only.
typedef void (*HammockLlvmTake)(void* context, const char* bytes, size_t size);

struct HammockLlvmTableV1 {
  uint32_t abi;
  const char* version;        ///< of LLVM, such as "19.1.7"
  const char* host_cpu;       ///< of this machine
  const char* host_features;  ///< of this machine
  /// 0: `take` got the code. 1: it got an error text. May be called by several threads at once.
  int32_t (*compile)(const struct HammockLlvmRequest* request, HammockLlvmTake take, void* context);
};

/// The only exported function. May be called by several threads.
const struct HammockLlvmTableV1* HammockLlvmTable(void);

#ifdef __cplusplus
}
#endif
