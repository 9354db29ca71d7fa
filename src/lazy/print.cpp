/// Tensors as text.

#include <fmt/format.h>

#include <ostream>

#include "hammock/tensor.h"

namespace hammock {

namespace {

constexpr int64_t kEdge = 3;         // items shown at each end of a long dim
constexpr int64_t kMaxWhole = 1000;  // tensors of more elements are summarised

std::string Element(const HostTensor& values, int64_t index) {
  Scalar value = values.at(index);
  if (value.IsFloating()) return fmt::format("{:.6g}", value.ToDouble());
  return value.to_string();
}

void Print(std::string& text, const HostTensor& values, int dim, int64_t offset, int64_t stride) {
  const Dims& sizes = values.shape().sizes();
  if (dim == sizes.size()) {
    text += Element(values, offset);
    return;
  }
  bool cut = values.numel() > kMaxWhole && sizes[dim] > 2 * kEdge;
  int64_t step = sizes[dim] ? stride / sizes[dim] : 0;
  text += '[';
  for (int64_t i = 0; i < sizes[dim]; ++i) {
    if (cut && i == kEdge) {
      text += ", ...";
      i = sizes[dim] - kEdge;
    }
    if (i > 0)
      text +=
          dim + 1 < sizes.size() ? ",\n" + std::string(static_cast<size_t>(dim) + 1, ' ') : ", ";
    Print(text, values, dim + 1, offset + i * step, step);
  }
  text += ']';
}

}  // namespace

std::ostream& operator<<(std::ostream& os, const TensorAt& tensor) {
  if (!tensor.tensor.defined()) return os << "undefined";
  HostTensor values = tensor.tensor.host(tensor.at);
  std::string text;
  Print(text, values, 0, 0, values.numel());
  return os << text << " : " << values.shape().to_string();
}

}  // namespace hammock
