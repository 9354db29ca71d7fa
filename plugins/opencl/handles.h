#pragma once
/// Owned handles of OpenCL, and its status codes as exceptions.

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <string>
#include <utility>
#include <vector>

namespace opencl {

/// Throws for a status other than CL_SUCCESS: OutOfMemory where memory is short, else DeviceError.
void Check(cl_int status, const std::string& what);

template <class T, cl_int (*kRelease)(T)>
class Handle {
 public:
  Handle() = default;
  explicit Handle(T handle) : handle_(handle) {}
  Handle(Handle&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Handle() {
    if (handle_) kRelease(handle_);
  }
  T get() const { return handle_; }
  /// For functions that return a handle by pointer.
  T* out() { return &handle_; }

 private:
  T handle_ = nullptr;
};

using Context = Handle<cl_context, clReleaseContext>;
using Queue = Handle<cl_command_queue, clReleaseCommandQueue>;
using Memory = Handle<cl_mem, clReleaseMemObject>;
using Event = Handle<cl_event, clReleaseEvent>;
using Library = Handle<cl_program, clReleaseProgram>;
using Function = Handle<cl_kernel, clReleaseKernel>;

/// All devices of all platforms.
std::vector<cl_device_id> FindDevices();

template <class T>
T InfoOf(cl_device_id device, cl_device_info what) {
  T value{};
  Check(clGetDeviceInfo(device, what, sizeof(value), &value, nullptr), "clGetDeviceInfo");
  return value;
}
std::string TextOf(cl_device_id device, cl_device_info what);

}  // namespace opencl
