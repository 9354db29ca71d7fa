#include "queued_command.h"

#include <fmt/format.h>

#include <functional>

namespace opencl {

KernelSource MakeKernel(const std::vector<std::pair<std::string, std::string>>& parameters,
                        const std::string& body, bool one_pointer) {
  std::string pointers, text;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& [type, name] = parameters[i];
    const size_t pointer = one_pointer ? 0 : i;
    if (pointer == i) pointers += fmt::format(", __global uchar* m{}", i);
    text +=
        fmt::format("  __global {0}* {1} = (__global {0}*)(m{2} + all_numbers[own_first + {3}]);\n",
                    type, name, pointer, i);
  }
  text += fmt::format("  __global const long* w = all_numbers + own_first + {};\n{}}}\n",
                      parameters.size(), body);
  std::string name = fmt::format("k{:016x}", std::hash<std::string>()(text));
  return {name,
          fmt::format("__kernel void {}(__global const long* all_numbers, long own_first{}) {{\n{}",
                      name, pointers, text)};
}

std::string Fill(std::string text,
                 const std::vector<std::pair<std::string_view, std::string>>& values) {
  for (const auto& [name, value] : values) {
    const std::string mark = fmt::format("${}$", name);
    for (size_t at = 0; (at = text.find(mark, at)) != text.npos; at += value.size()) {
      text.replace(at, mark.size(), value);
    }
  }
  return text;
}

std::string_view Prelude() {
  return R"(
#pragma OPENCL FP_CONTRACT OFF
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#else
#define double float
#define double2 float2
#define convert_double2 convert_float2
#endif

static inline float from_bf16(ushort x) { return as_float((uint)x << 16); }
static inline ushort to_bf16(float x) {
  uint bits = as_uint(x);
  if (x != x) return (ushort)(bits >> 16 | 0x40);
  return (ushort)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
static inline float from_f16(ushort x) {
  uint size = (uint)(x & 0x7fff) << 13;
  uint bits = as_uint(as_float(size) * 0x1p112f);
  if (size >= 0x0f800000) bits = size | 0x7f800000;
  if (size > 0x0f800000) bits |= 0x00400000;
  return as_float(bits | (uint)(x & 0x8000) << 16);
}
static inline ushort to_f16(float x) {
  uint bits = as_uint(x);
  uint size = bits & 0x7fffffff;
  uint y = (size - 0x38000000 + 0xfff + ((size >> 13) & 1)) >> 13;
  if (size < 0x38800000) y = as_uint(as_float(size) + 0.5f) - 0x3f000000;
  if (size >= 0x47800000) y = 0x7c00;
  if (size > 0x7f800000) y = 0x7e00;
  return (ushort)(y | ((bits >> 16) & 0x8000));
}
// Values that no long holds, and NaN, become its smallest one.
static inline long to_i64(double x) {
  bool in_range = x >= -0x1p63 && x < 0x1p63;
  return in_range ? (long)x : (-0x7fffffffffffffffL - 1);
}
static inline ulong to_u64(double x) {
  if (x >= 0x1p63 && x < 0x1p64) return (ulong)x;
  return (ulong)to_i64(x);
}
// The first element that is wrong, and the number that makes it so: see `faults` in program.h.
static inline void note_fault(__global int* fault, long position) {
  atomic_min(fault, (int)min(position, (long)0x7ffffffe));
}
)";
}

}  // namespace opencl
