// Fourier transforms, one dim after the other.

#include <cmath>

#include "backends/cpu/calls/call_kit.h"
#include "backends/cpu/fft/row_fft.h"
#include "ir/primitives.h"

namespace hammock::cpu {
namespace {

template <class T>
T ScaleOf(int64_t normalization, int64_t size) {
  if (normalization == 0 || size == 0) return 1;
  const auto count = static_cast<double>(size);
  return static_cast<T>(1 / (normalization == 1 ? std::sqrt(count) : count));
}

template <class T>
class FftCall : public Call {
 public:
  FftCall(const Graph& graph, const GraphNode& node)
      : bytes_(graph.TypeOf(node.inputs[0]).bytes()) {
    const Shape& in = graph.TypeOf(node.inputs[0]);
    const int64_t normalization = node.attr("normalization").integer();
    auto add = [&](FftKind kind, const Shape& type, int64_t dim, bool forward) {
      const CallAxis axis(type.sizes(), dim);
      steps_.emplace_back(kind, axis, forward, ScaleOf<T>(normalization, axis.extent));
    };
    if (node.op == &ops::kFftC2C) {
      const bool forward = node.attr("forward").boolean();
      for (int64_t dim : node.attr("dim").ints()) add(FftKind::kComplex, in, dim, forward);
    } else if (node.op == &ops::kFftR2C) {
      add(FftKind::kRealToComplex, in, node.attr("dim").integer(), true);
    } else {
      add(FftKind::kComplexToReal, node.types[0], node.attr("dim").integer(), false);
    }
    for (const RowFft<T>& step : steps_) scratch_ = std::max(scratch_, step.scratch_bytes());
  }

  int64_t scratch_bytes() const override { return scratch_; }
  void Run(std::span<const char* const> in, std::span<char* const> out,
           char* scratch) const override {
    if (steps_.empty() && bytes_ > 0) std::copy(in[0], in[0] + bytes_, out[0]);
    const char* from = in[0];
    for (const RowFft<T>& step : steps_) {
      step.Run(from, out[0], scratch);
      from = out[0];
    }
  }
  const char* kernel() const override { return steps_.empty() ? "copy" : steps_[0].name(); }

 private:
  int64_t bytes_;
  int64_t scratch_ = 0;
  std::vector<RowFft<T>> steps_;
};

std::unique_ptr<Call> MakeFft(const Graph& graph, const GraphNode& node) {
  if (RealOf(graph.TypeOf(node.inputs[0]).dtype()) == DType::kF64) {
    return std::make_unique<FftCall<double>>(graph, node);
  }
  return std::make_unique<FftCall<float>>(graph, node);
}

constexpr CallEntry kCalls[] = {
    {&ops::kFftC2C, MakeFft}, {&ops::kFftR2C, MakeFft}, {&ops::kFftC2R, MakeFft}};

}  // namespace

std::span<const CallEntry> FftCalls() { return kCalls; }

}  // namespace hammock::cpu
