#include "backends/cuda/driver/driver.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/driver/machine.h"
#include "base/library.h"
#include "base/never_destroyed.h"

namespace hammock::cuda {

struct CUlaunchAttribute {
  int id;
  int unused = 0;
  union {
    int value;
    char bytes[64];
  };
};
struct CUlaunchConfig {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  CUstream stream;
  CUlaunchAttribute* attributes;
  unsigned attribute_count;
};

namespace {

struct Opened {
  Driver driver = {};
  std::string why_absent;
};

void FindAll(Library& library, Driver& d) {
  library.Find("cuInit", d.init);
  library.Find("cuDriverGetVersion", d.driver_version);
  library.Find("cuDeviceGetCount", d.device_count);
  library.Find("cuDeviceGet", d.device_get);
  library.Find("cuDeviceGetName", d.device_name);
  library.Find("cuDeviceTotalMem_v2", d.device_memory);
  library.Find("cuDeviceGetAttribute", d.device_attribute);
  library.Find("cuDevicePrimaryCtxRetain", d.context_retain);
  library.Find("cuCtxSetCurrent", d.context_set);
  library.Find("cuCtxGetCurrent", d.context_get);
  library.Find("cuMemAlloc_v2", d.memory_take);
  library.Find("cuMemFree_v2", d.memory_give);
  library.Find("cuMemHostAlloc", d.host_take);
  library.Find("cuMemFreeHost", d.host_give);
  library.Find("cuMemcpyHtoDAsync_v2", d.copy_to_device);
  library.Find("cuMemcpyDtoHAsync_v2", d.copy_to_host);
  library.Find("cuMemcpyDtoDAsync_v2", d.copy_on_device);
  library.Find("cuMemcpyPeerAsync", d.copy_between);
  library.Find("cuMemsetD8Async", d.fill);
  library.Find("cuStreamCreate", d.stream_create);
  library.Find("cuStreamWaitEvent", d.stream_wait_event);
  library.Find("cuStreamSynchronize", d.stream_synchronize);
  library.FindOptional("cuStreamWriteValue32_v2", d.stream_write);
  library.Find("cuEventCreate", d.event_create);
  library.Find("cuEventRecord", d.event_record);
  library.Find("cuEventSynchronize", d.event_synchronize);
  library.Find("cuEventDestroy_v2", d.event_destroy);
  library.Find("cuEventElapsedTime", d.event_elapsed);
  library.Find("cuModuleLoadData", d.module_load);
  library.Find("cuModuleUnload", d.module_unload);
  library.Find("cuModuleGetFunction", d.module_function);
  library.Find("cuLaunchKernel", d.launch);
  library.FindOptional("cuLaunchKernelEx", d.launch_as);
  library.Find("cuStreamBeginCapture_v2", d.capture_begin);
  library.Find("cuStreamEndCapture", d.capture_end);
  library.FindOptional("cuStreamGetCaptureInfo_v2", d.capture_info);
  library.FindOptional("cuStreamUpdateCaptureDependencies", d.capture_after);
  library.FindOptional("cuGraphExecUpdate_v2", d.graph_update);
  library.FindOptional("cuGraphExecKernelNodeSetParams", d.graph_set_kernel);
  library.Find("cuGraphInstantiateWithFlags", d.graph_instantiate);
  library.Find("cuGraphLaunch", d.graph_launch);
  library.Find("cuGraphExecDestroy", d.graph_exec_destroy);
  library.Find("cuGraphDestroy", d.graph_destroy);
  library.Find("cuGetErrorName", d.error_name);
  library.Find("cuGetErrorString", d.error_string);
}

Opened Open() {
  Opened opened;
  Library library({"libcuda.so.1", "libcuda.so"});
  FindAll(library, opened.driver);
  opened.why_absent = library.why_absent();
  if (!opened.why_absent.empty()) return opened;
  int count = 0;
  CUresult result = opened.driver.init(0);
  if (result == kCudaSuccess) result = opened.driver.device_count(&count);
  if (result != kCudaSuccess) {
    opened.why_absent = fmt::format("the CUDA driver reports error {}", result);
  } else if (count == 0) {
    opened.why_absent = "the CUDA driver sees no GPU";
  }
  return opened;
}

const Opened& TheOpened() {
  static const auto& opened = NeverDestroyed<Opened>(Open());
  return opened;
}

/// Errors after which every call of the context fails.
bool LosesTheCard(CUresult result) {
  constexpr CUresult kLosing[] = {
      4,    // deinitialized
      46,   // device unavailable
      201,  // invalid context
      214,  // uncorrectable ECC error
      220,  // uncorrectable NVLink error
      226,  // contained error
      700,  // illegal address
      702,  // launch timeout
      709,  // context is destroyed
      710,  // assert
      714,  // hardware stack error
      715,  // illegal instruction
      716,  // misaligned address
      717,  // invalid address space
      718,  // invalid program counter
      719,  // launch failed
      999,  // unknown
  };
  return std::ranges::find(kLosing, result) != std::end(kLosing);
}

}  // namespace

CUresult Driver::LaunchEarly(CUfunction function, unsigned grid_x, unsigned grid_y,
                             unsigned block_x, unsigned block_y, CUstream stream,
                             void** parameters) const {
  constexpr int kProgrammaticSerialization = 6;
  CUlaunchAttribute early = {.id = kProgrammaticSerialization, .value = 1};
  const CUlaunchConfig config = {grid_x, grid_y, 1, block_x, block_y, 1, 0, stream, &early, 1};
  return launch_as(&config, function, parameters, nullptr);
}

void Driver::Check(CUresult result, std::string_view what) const {
  if (result == kCudaSuccess) return;
  const char* name = nullptr;
  const char* text = nullptr;
  error_name(result, &name);
  error_string(result, &text);
  std::string message = fmt::format("cuda: {} failed: {} ({})", what, text ? text : "unknown error",
                                    name ? name : "?");
  if (LosesTheCard(result)) throw MachineLost(ErrorCode::kDevice, std::move(message));
  throw DeviceError(ErrorCode::kDevice, std::move(message));
}

const Driver* TheDriver() { return TheOpened().why_absent.empty() ? &TheOpened().driver : nullptr; }

const std::string& WhyNoDriver() { return TheOpened().why_absent; }

}  // namespace hammock::cuda
