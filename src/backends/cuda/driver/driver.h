#pragma once
/// Driver: the functions of the CUDA driver that this backend uses, opened at run time. The
/// declarations are our own: no header of CUDA is needed to build.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hammock::cuda {

// As in the driver's interface, whose layout never changes.
using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphNode = struct CUgraphNode_st*;
using CUgraphExec = struct CUgraphExec_st*;

inline constexpr CUresult kCudaSuccess = 0;
inline constexpr CUresult kCudaOutOfMemory = 2;

struct CUgraphUpdate {
  int result;
  CUgraphNode node, other;
};
struct CUkernelNode {
  CUfunction function;
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  void** parameters;
  void** extra;
};

struct CUlaunchConfig;

struct Driver {
  CUresult (*init)(unsigned flags);
  CUresult (*driver_version)(int* version);
  CUresult (*device_count)(int* count);
  CUresult (*device_get)(CUdevice* device, int ordinal);
  CUresult (*device_name)(char* name, int size, CUdevice device);
  CUresult (*device_memory)(size_t* bytes, CUdevice device);
  CUresult (*device_attribute)(int* value, int attribute, CUdevice device);
  CUresult (*context_retain)(CUcontext* context, CUdevice device);
  CUresult (*context_set)(CUcontext context);
  CUresult (*context_get)(CUcontext* context);
  CUresult (*memory_take)(CUdeviceptr* address, size_t bytes);
  CUresult (*memory_give)(CUdeviceptr address);
  CUresult (*host_take)(void** memory, size_t bytes, unsigned flags);
  CUresult (*host_give)(void* memory);
  CUresult (*copy_to_device)(CUdeviceptr to, const void* from, size_t bytes, CUstream stream);
  CUresult (*copy_to_host)(void* to, CUdeviceptr from, size_t bytes, CUstream stream);
  CUresult (*copy_on_device)(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
  CUresult (*copy_between)(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                           CUcontext from_context, size_t bytes, CUstream stream);
  CUresult (*fill)(CUdeviceptr at, unsigned char value, size_t bytes, CUstream stream);
  CUresult (*stream_create)(CUstream* stream, unsigned flags);
  CUresult (*stream_wait_event)(CUstream stream, CUevent event, unsigned flags);
  CUresult (*stream_synchronize)(CUstream stream);
  CUresult (*stream_write)(CUstream stream, CUdeviceptr at, uint32_t value,
                           unsigned flags);  ///< null in old drivers
  CUresult (*event_create)(CUevent* event, unsigned flags);
  CUresult (*event_record)(CUevent event, CUstream stream);
  CUresult (*event_synchronize)(CUevent event);
  CUresult (*event_destroy)(CUevent event);
  CUresult (*event_elapsed)(float* milliseconds, CUevent from, CUevent to);
  CUresult (*module_load)(CUmodule* module, const void* image);
  CUresult (*module_unload)(CUmodule module);
  CUresult (*module_function)(CUfunction* function, CUmodule module, const char* name);
  CUresult (*launch)(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                     unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                     CUstream stream, void** parameters, void** extra);
  CUresult (*launch_as)(const CUlaunchConfig* config, CUfunction function, void** parameters,
                        void** extra);  ///< null in old drivers
  CUresult (*capture_begin)(CUstream stream, int mode);
  CUresult (*capture_end)(CUstream stream, CUgraph* graph);
  CUresult (*capture_info)(CUstream stream, int* status, uint64_t* id, CUgraph* graph,
                           const CUgraphNode** last, size_t* count);  ///< null in old drivers
  CUresult (*capture_after)(CUstream stream, CUgraphNode* nodes, size_t count,
                            unsigned flags);  ///< null in old drivers
  CUresult (*graph_instantiate)(CUgraphExec* exec, CUgraph graph, unsigned long long flags);
  CUresult (*graph_update)(CUgraphExec exec, CUgraph graph,
                           CUgraphUpdate* update);  ///< null in old drivers
  CUresult (*graph_set_kernel)(CUgraphExec exec, CUgraphNode node,
                               const CUkernelNode* kernel);  ///< null in old drivers
  CUresult (*graph_launch)(CUgraphExec exec, CUstream stream);
  CUresult (*graph_exec_destroy)(CUgraphExec exec);
  CUresult (*graph_destroy)(CUgraph graph);
  CUresult (*error_name)(CUresult error, const char** name);
  CUresult (*error_string)(CUresult error, const char** text);

  /// A launch of a kernel that waits for those before it, Note [Early launches].
  CUresult LaunchEarly(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned block_x,
                       unsigned block_y, CUstream stream, void** parameters) const;
  /// Throws DeviceError with `what` and the name of the error; MachineLost if the context is lost.
  void Check(CUresult result, std::string_view what) const;
};

/// Null where there is no driver or no GPU; `WhyNoDriver` says which.
const Driver* TheDriver();
const std::string& WhyNoDriver();

}  // namespace hammock::cuda
