#include "handles.h"

#include <fmt/format.h>
#include <hammock/error.h>

namespace opencl {

void Check(cl_int status, const std::string& what) {
  if (status == CL_SUCCESS) return;
  const bool memory = status == CL_MEM_OBJECT_ALLOCATION_FAILURE || status == CL_OUT_OF_RESOURCES ||
                      status == CL_OUT_OF_HOST_MEMORY || status == CL_INVALID_BUFFER_SIZE;
  std::string text = fmt::format("opencl: {} failed with status {}", what, status);
  if (memory) throw hammock::OutOfMemory(hammock::ErrorCode::kOutOfMemory, std::move(text));
  throw hammock::DeviceError(hammock::ErrorCode::kDevice, std::move(text));
}

std::vector<cl_device_id> FindDevices() {
  cl_uint platform_count = 0;
  if (clGetPlatformIDs(0, nullptr, &platform_count) != CL_SUCCESS) return {};  // no driver at all
  std::vector<cl_platform_id> platforms(platform_count);
  Check(clGetPlatformIDs(platform_count, platforms.data(), nullptr), "clGetPlatformIDs");
  std::vector<cl_device_id> devices;
  for (cl_platform_id platform : platforms) {
    cl_uint count = 0;
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS) continue;
    const size_t before = devices.size();
    devices.resize(before + count);
    Check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, &devices[before], nullptr),
          "clGetDeviceIDs");
  }
  return devices;
}

std::string TextOf(cl_device_id device, cl_device_info what) {
  size_t size = 0;
  Check(clGetDeviceInfo(device, what, 0, nullptr, &size), "clGetDeviceInfo");
  std::string text(size, '\0');
  Check(clGetDeviceInfo(device, what, size, text.data(), nullptr), "clGetDeviceInfo");
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

}  // namespace opencl
