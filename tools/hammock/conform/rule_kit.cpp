#include "conform/rule_kit.h"

#include <fmt/format.h>

#include <cmath>

#include "hammock/lazy/backend_interface.h"
#include "hammock/plugins.h"

namespace hammock::tool {

Device Open(const Subject& subject) {
  Device device(plugins::Load(subject.plugin).name);
  SetDefaultDevice(device);
  return device;
}

std::string Difference(const HostTensor& got, const HostTensor& wanted, double tolerance) {
  if (got.shape() != wanted.shape()) {
    return fmt::format("{} instead of {}", got.shape().to_string(), wanted.shape().to_string());
  }
  for (int64_t i = 0; i < got.numel(); ++i) {
    const Scalar a = got.at(i), b = wanted.at(i);
    if (a == b) continue;
    const double x = a.ToDouble(), y = b.ToDouble();
    if (std::isnan(x) && std::isnan(y)) continue;
    if (tolerance > 0 && std::abs(x - y) <= tolerance * (1 + std::abs(y))) continue;
    return fmt::format("element {} is {} instead of {}", i, a.to_string(), b.to_string());
  }
  return "";
}

HostTensor Ramp(DType dtype, const Dims& sizes) {
  HostTensor tensor(Shape(dtype, sizes));
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    tensor.set(i, Scalar(static_cast<double>(i % 7) - (IsSigned(dtype) ? 3 : 0)).To(dtype));
  }
  return tensor;
}

std::string Line(const std::string& text) { return text.empty() ? "" : text + "\n"; }

}  // namespace hammock::tool
