#include "backends/cuda/calls/device_kernel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/cuda/device/device_text.h"
#include "base/never_destroyed.h"

namespace hammock::cuda {

namespace {

KernelSource MakeSource(const DeviceKernel& kernel, const std::string& bounds,
                        const std::string& what) {
  std::string name = SourceName(what);
  std::string text = fmt::format("namespace {}_parts {{\n", name) + DeviceText(kernel.file);
  text += "using namespace hammock::cuda;\n" + kernel.definitions;
  text += fmt::format(
      "using {0}_words = decltype(args_of({1}));\n"
      "static_assert(sizeof({0}_words) == {2}, \"host and device agree on the arguments\");\n"
      "extern \"C\" __global__ void __launch_bounds__({3}) {0}(const __grid_constant__ {0}_words "
      "words) {{\n  wait_for_earlier_kernels();\n  {1}(words);\n}}\n}}\n",
      name, kernel.function, kernel.argument_bytes, bounds);
  return {name, text};
}

}  // namespace

KernelSource SourceOf(const DeviceKernel& kernel) {
  static auto& known = NeverDestroyed<SourceTable<std::string>>();
  std::string bounds = std::to_string(kernel.threads);
  if (kernel.resident > 1) bounds += fmt::format(", {}", kernel.resident);
  std::string what =
      fmt::format("{} {} {} {}", kernel.file, kernel.function, bounds, kernel.definitions);
  return known.Find(fmt::format("{} {}", kernel.argument_bytes, what),
                    [&] { return MakeSource(kernel, bounds, what); });
}

TypeText::TypeText(std::string_view name) : text_(fmt::format("struct {} {{\n", name)) {}

std::string TypeText::Text() const { return text_ + "};\n"; }

TypeText& TypeText::Type(std::string_view name, std::string_view type) {
  text_ += fmt::format("  using {} = {};\n", name, type);
  return *this;
}

TypeText& TypeText::Constant(std::string_view name, int64_t value) {
  text_ += fmt::format("  static constexpr int {} = {};\n", name, value);
  return *this;
}

TypeText& TypeText::Constant(std::string_view name, bool value) {
  text_ += fmt::format("  static constexpr bool {} = {};\n", name, value);
  return *this;
}

TypeText& TypeText::Constants(std::string_view name, const Dims& values) {
  text_ +=
      fmt::format("  static constexpr int64_t {}[] = {{{}}};\n", name, fmt::join(values, ", "));
  return *this;
}

TypeText& TypeText::Function(std::string_view head, std::string_view value) {
  text_ += fmt::format("  static __device__ __forceinline__ {} {{ return {}; }}\n", head, value);
  return *this;
}

}  // namespace hammock::cuda
