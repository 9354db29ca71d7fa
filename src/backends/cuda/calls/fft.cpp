// Fourier transforms by the machine's library, and their scales.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "backends/cuda/calls/call_kit.h"
#include "backends/cuda/calls/device_kernel.h"
#include "backends/cuda/device/fft_args.h"
#include "backends/cuda/emit/cuda_text.h"
#include "base/throw.h"
#include "ir/primitives.h"

namespace hammock::cuda {
namespace {

using Kind = Transform::Kind;

/// The library's transforms have up to so many dims at once.
constexpr int kMostDims = 3;

class FftCall : public Call {
 public:
  FftCall(const Graph& graph, const GraphNode& node, Machine& machine)
      : out_(node.type()), part_(RealOf(node.type().dtype())) {
    const Shape& in = graph.TypeOf(node.inputs[0]);
    bytes_ = in.bytes();
    if (out_.numel() == 0) return;
    normalization_ = node.attr("normalization").integer();
    if (node.op == &ops::kFftC2C) {
      const Kind kind = node.attr("forward").boolean() ? Kind::kForward : Kind::kBackward;
      AddComplex(kind, node.attr("dim").ints(), machine);
    } else {
      const bool to_real = node.op == &ops::kFftC2R;
      // The library may overwrite what it makes real.
      if (to_real) copied_bytes_ = (bytes_ + 255) / 256 * 256;
      AddAlong(to_real ? Kind::kToReal : Kind::kToComplex, in, out_,
               static_cast<int>(node.attr("dim").integer()), machine);
    }
  }

  bool prepared() const { return prepared_; }
  std::vector<KernelSource> Sources() const override {
    if (scale_ == 1) return {};
    return {SourceOf({.file = "fft.cuh",
                      .function = fmt::format("scale<{}>", MemoryType(part_)),
                      .argument_bytes = sizeof(ScaleArgs<void>)})};
  }
  int64_t scratch_bytes() const override {
    int64_t bytes = 0;
    for (const Step& step : steps_) bytes = std::max(bytes, step.transform->scratch_bytes());
    return bytes + copied_bytes_ + aligned_bytes_;
  }
  void Run(Machine& machine, const Operands& operands) const override {
    if (out_.numel() == 0) return;
    Address from = operands.in[0];
    const Address to = operands.out[0];
    Address scratch = operands.scratch;
    if (steps_.empty()) machine.Copy(to, from, bytes_);
    if (copied_bytes_ > 0) {
      machine.Copy(scratch, from, bytes_);
      from = scratch;
      scratch += static_cast<Address>(copied_bytes_);
    }
    const Address aligned = scratch;
    scratch += static_cast<Address>(aligned_bytes_);
    for (const Step& step : steps_) {
      for (int64_t i = 0; i < step.repeats; ++i) {
        Address part = from + static_cast<Address>(i * step.in_bytes);
        const Address result = to + static_cast<Address>(i * step.out_bytes);
        if (!IsAligned(part)) {
          machine.Copy(aligned, part, step.in_bytes);
          part = aligned;
        }
        const Address made = IsAligned(result) ? result : aligned;
        machine.RunTransform(*step.transform, part, made, scratch);
        if (made != result) machine.Copy(result, made, step.out_bytes);
      }
      from = to;
    }
    if (scale_ == 1) return;
    const int64_t count = out_.numel() * (IsComplex(out_.dtype()) ? 2 : 1);
    machine.Launch(function(0), ElementGrid(count),
                   WordsOf(ScaleArgs<void>{.count = count, .factor = scale_, .at = At(to)}));
  }

 private:
  struct Step {
    std::shared_ptr<PreparedOp> transform;
    int64_t repeats;  ///< over the dims before
    int64_t in_bytes, out_bytes;
  };

  /// The library takes no real signals that begin in the middle of a complex number; one side at
  /// most is real.
  bool IsAligned(Address address) const {
    return address % static_cast<Address>(2 * BytesOf(part_, 1)) == 0;
  }

  /// The last dims at once where all are transformed, others one after the other.
  void AddComplex(Kind kind, const std::vector<int64_t>& dims, Machine& machine) {
    Dims last;
    int first = out_.rank();
    auto wanted = [&](int d) { return std::ranges::find(dims, d) != dims.end(); };
    while (first > 0 && last.size() < kMostDims && wanted(first - 1)) {
      last.insert(0, out_.size(--first));
    }
    if (!last.empty()) {
      int64_t size = 1;
      for (int64_t each : last) size *= each;
      Add({.kind = kind,
           .dtype = part_,
           .sizes = last,
           .batch = out_.numel() / size,
           .in_distance = size,
           .out_distance = size},
          size, 1, 0, 0, machine);
    }
    for (int64_t dim : dims) {
      if (dim < first) AddAlong(kind, out_, out_, static_cast<int>(dim), machine);
    }
  }

  void AddAlong(Kind kind, const Shape& in, const Shape& out, int dim, Machine& machine) {
    const CallAxis from(in.sizes(), dim), to(out.sizes(), dim);
    const int64_t size = kind == Kind::kToComplex ? from.extent : to.extent;
    Transform transform = {.kind = kind, .dtype = part_, .sizes = {size}};
    if (from.inner == 1) {
      transform.batch = from.outer;
      transform.in_distance = from.extent;
      transform.out_distance = to.extent;
      return Add(transform, size, 1, 0, 0, machine);
    }
    transform.batch = from.inner;
    transform.in_stride = transform.out_stride = from.inner;
    transform.in_distance = transform.out_distance = 1;
    Add(transform, size, from.outer, BytesOf(in.dtype(), from.extent * from.inner),
        BytesOf(out.dtype(), to.extent * to.inner), machine);
  }

  void Add(const Transform& transform, int64_t size, int64_t repeats, int64_t in_bytes,
           int64_t out_bytes, Machine& machine) {
    std::shared_ptr<PreparedOp> prepared = machine.Prepare(transform);
    prepared_ = prepared_ && prepared;
    steps_.push_back({std::move(prepared), repeats, in_bytes, out_bytes});
    for (int64_t bytes : {in_bytes, out_bytes}) {
      if (IsAligned(static_cast<Address>(bytes))) continue;
      aligned_bytes_ = std::max(aligned_bytes_, (bytes + 255) / 256 * 256);
    }
    const auto count = static_cast<double>(size);
    if (normalization_ == 1) scale_ /= std::sqrt(count);
    if (normalization_ == 2) scale_ /= count;
  }

  Shape out_;
  DType part_;
  int64_t bytes_ = 0, copied_bytes_ = 0;
  int64_t aligned_bytes_ = 0;  // of a real signal that does not begin where a complex one could
  int64_t normalization_ = 0;
  double scale_ = 1;
  bool prepared_ = true;
  std::vector<Step> steps_;
};

std::unique_ptr<Call> MakeFft(const Graph& graph, const GraphNode& node,
                              const CallContext& context) {
  auto call = std::make_unique<FftCall>(graph, node, context.machine);
  if (!call->prepared()) {
    Throw<DeviceError>(ErrorCode::kDevice, "{}: cuFFT cannot transform {}", node.op->name(),
                       graph.TypeOf(node.inputs[0]).to_string());
  }
  return call;
}

constexpr CallEntry kCalls[] = {
    {&ops::kFftC2C, MakeFft}, {&ops::kFftR2C, MakeFft}, {&ops::kFftC2R, MakeFft}};

}  // namespace

std::span<const CallEntry> FftCalls() { return kCalls; }

}  // namespace hammock::cuda
