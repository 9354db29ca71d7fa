// torch.autocast("hammock"): the lists of ops are PyTorch's own.

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "device/native_kernels.h"

// PyTorch's macros name members of these without their namespace.
namespace at::autocast {

static void RegisterHammock(torch::Library& m) {
#define HAMMOCK_LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define HAMMOCK_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define HAMMOCK_FP32_DTYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define HAMMOCK_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_LOWER_PRECISION_FP(HAMMOCK_LOWER)
  AT_FORALL_FP32(HAMMOCK_FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(HAMMOCK_FP32_DTYPE)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(HAMMOCK_PROMOTE)
#undef HAMMOCK_LOWER
#undef HAMMOCK_FP32
#undef HAMMOCK_FP32_DTYPE
#undef HAMMOCK_PROMOTE
}

}  // namespace at::autocast

namespace hammock_torch {

void RegisterAutocast(torch::Library& library) { at::autocast::RegisterHammock(library); }

}  // namespace hammock_torch
