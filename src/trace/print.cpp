/// Tensors as text, laid out as PyTorch does: one number format for all elements that are shown,
/// chosen by the smallest and the largest of them.

#include "hammock/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <ostream>
#include <vector>

#include "base/never_destroyed.h"
#include "base/throw.h"
#include "hammock/tensor.h"
#include "ir/text.h"

namespace hammock {

namespace {

struct Options {
  std::mutex mutex;
  TensorPrintOptions value;
};
Options& Current() {
  static auto& options = NeverDestroyed<Options>();
  return options;
}

constexpr int64_t kGap = -1;  // stands for the indices that are left out

/// The indices of a dim that are shown.
std::vector<int64_t> Shown(int64_t size, bool summarise, int64_t edge) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < size; ++i) {
    if (summarise && i == edge && size > 2 * edge) {
      indices.push_back(kGap);
      i = size - edge;
      if (i == size) break;
    }
    indices.push_back(i);
  }
  return indices;
}

/// How the numbers of one tensor are written.
class NumberFormat {
 public:
  NumberFormat(const std::vector<Scalar>& numbers, const TensorPrintOptions& options)
      : precision_(options.precision) {
    double smallest = INFINITY, largest = 0;
    for (const Scalar& number : numbers) {
      double size = std::abs(number.ToDouble());
      if (!number.IsFloating() || size == 0 || !std::isfinite(size)) continue;
      smallest = std::min(smallest, size);
      largest = std::max(largest, size);
      if (size != std::floor(size)) whole_ = false;
    }
    bool wide = largest > 0 && (largest / smallest > 1000 || largest > 1e8);
    scientific_ = options.sci_mode.value_or(wide || (!whole_ && smallest < 1e-4));
    for (const Scalar& number : numbers) width_ = std::max(width_, Text(number).size());
  }

  std::string Padded(const Scalar& number) const {
    return fmt::format("{:>{}}", Text(number), width_);
  }
  size_t width() const { return width_; }

 private:
  std::string Text(const Scalar& number) const {
    if (!number.IsFloating()) return NumberText(number);
    double value = number.ToDouble();
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    if (scientific_) return fmt::format("{:.{}e}", value, precision_);
    return whole_ ? fmt::format("{:.0f}.", value) : fmt::format("{:.{}f}", value, precision_);
  }

  int precision_;
  bool whole_ = true;
  bool scientific_ = false;
  size_t width_ = 0;
};

/// How elements are written: complex numbers as both parts, each in its own format.
class ElementFormat {
 public:
  ElementFormat(const std::vector<Scalar>& elements, const TensorPrintOptions& options)
      : real_(RealParts(elements), options) {
    if (!elements.empty() && elements[0].IsComplex()) imag_.emplace(ImagParts(elements), options);
  }

  std::string Padded(const Scalar& element) const {
    if (!imag_) return real_.Padded(element);
    std::string imag = imag_->Padded(Scalar(element.imag()));
    imag.erase(0, imag.find_first_not_of(' '));
    return real_.Padded(Scalar(element.ToDouble())) + (imag[0] == '-' ? "" : "+") + imag + 'j';
  }
  size_t width() const { return real_.width() + (imag_ ? imag_->width() + 1 : 0); }

 private:
  static std::vector<Scalar> RealParts(const std::vector<Scalar>& elements) {
    std::vector<Scalar> parts;
    for (const Scalar& element : elements) {
      parts.push_back(element.IsComplex() ? Scalar(element.ToDouble()) : element);
    }
    return parts;
  }
  static std::vector<Scalar> ImagParts(const std::vector<Scalar>& elements) {
    std::vector<Scalar> parts;
    for (const Scalar& element : elements) parts.emplace_back(element.imag());
    return parts;
  }

  NumberFormat real_;
  std::optional<NumberFormat> imag_;
};

class Printer {
 public:
  Printer(const HostTensor& values, const TensorPrintOptions& options)
      : values_(values),
        options_(options),
        strides_(ContiguousStrides(values.shape().sizes())),
        summarise_(values.numel() > options.threshold),
        format_(ShownNumbers(), options) {}

  std::string Text() const { return Block(0, 0); }

 private:
  const Dims& sizes() const { return values_.shape().sizes(); }
  std::vector<int64_t> ShownOf(int dim) const {
    return Shown(sizes()[dim], summarise_, options_.edgeitems);
  }

  std::vector<Scalar> ShownNumbers() const {
    std::vector<int64_t> offsets = {0};
    for (int dim = 0; dim < sizes().size(); ++dim) {
      std::vector<int64_t> deeper;
      for (int64_t offset : offsets) {
        for (int64_t i : ShownOf(dim)) {
          if (i != kGap) deeper.push_back(offset + i * strides_[dim]);
        }
      }
      offsets = std::move(deeper);
    }
    std::vector<Scalar> numbers;
    for (int64_t offset : offsets) numbers.push_back(values_.at(offset));
    return numbers;
  }

  /// The elements from `dim` on.
  std::string Block(int dim, int64_t offset) const {
    if (dim == sizes().size()) return format_.Padded(values_.at(offset));
    if (dim == sizes().size() - 1) return Row(dim, offset);
    std::string indent(static_cast<size_t>(dim) + 1, ' ');
    std::string between = "," + std::string(static_cast<size_t>(sizes().size() - dim - 1), '\n');
    std::string text;
    for (int64_t i : ShownOf(dim)) {
      if (!text.empty()) text += between + indent;
      text += i == kGap ? "..." : Block(dim + 1, offset + i * strides_[dim]);
    }
    return "[" + text + "]";
  }

  std::string Row(int dim, int64_t offset) const {
    size_t item = format_.width() + 2;
    size_t indent = static_cast<size_t>(dim) + 1;
    size_t room = static_cast<size_t>(std::max(options_.linewidth, 0));
    size_t per_line = room > indent + item ? (room - indent) / item : 1;
    std::string text;
    size_t count = 0;
    for (int64_t i : ShownOf(dim)) {
      if (count > 0) text += count % per_line == 0 ? ",\n" + std::string(indent, ' ') : ", ";
      text += i == kGap ? "..." : format_.Padded(values_.at(offset + i * strides_[dim]));
      ++count;
    }
    return "[" + text + "]";
  }

  const HostTensor& values_;
  const TensorPrintOptions& options_;
  Dims strides_;
  bool summarise_;
  ElementFormat format_;
};

}  // namespace

void set_printoptions(const TensorPrintOptions& options, Location at) {
  LocationScope scope(at);
  if (options.precision < 0 || options.threshold < 0 || options.edgeitems < 0 ||
      options.linewidth < 0) {
    Throw(ErrorCode::kValue,
          "set_printoptions: precision {}, threshold {}, edgeitems {} and linewidth {} must not be "
          "negative",
          options.precision, options.threshold, options.edgeitems, options.linewidth);
  }
  std::lock_guard lock(Current().mutex);
  Current().value = options;
}

TensorPrintOptions get_printoptions() {
  std::lock_guard lock(Current().mutex);
  return Current().value;
}

std::string FormatElements(const HostTensor& values, const TensorPrintOptions& options) {
  return Printer(values, options).Text();
}

std::ostream& operator<<(std::ostream& os, const TensorAt& tensor) {
  if (!tensor.tensor.defined()) return os << "undefined";
  HostTensor values = tensor.tensor.host(tensor.at);
  return os << FormatElements(values, get_printoptions()) << " : " << values.shape().to_string();
}

}  // namespace hammock
