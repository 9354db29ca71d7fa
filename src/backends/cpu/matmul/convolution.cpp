/// Convolutions; matmul.h declares them.

#include "backends/cpu/matmul/matmul.h"
#include "backends/cpu/matmul/matmul_kernel.h"
#include "base/throw.h"

namespace hammock::cpu {
namespace {

#ifndef HAMMOCK_WITH_ONEDNN
std::unique_ptr<ConvolutionKernel> MakeLibraryConvolution(const ConvolutionSpec&) {
  return nullptr;
}
#else
constexpr auto MakeLibraryConvolution = MakeOneDnnConvolution;
#endif

class EmptyConvolution : public ConvolutionKernel {
 public:
  const char* name() const override { return "empty"; }
  void Run(const Convolution::Pointers&, const Scratch&, ThreadPool&) const override {}
};

/// A convolution with a 1x1 kernel and stride 1: the matmul of weight[out, in] and each image
/// [in, positions].
class PointwiseConvolution : public ConvolutionKernel {
 public:
  explicit PointwiseConvolution(const ConvolutionSpec& spec) : matmul_(Of(spec)) {
    finishes = apart = true;  // the matmul runs the epilogue
    // The difference between no thread and one is the need of each thread.
    shared_bytes = matmul_.scratch_bytes(0);
    worker_bytes = matmul_.scratch_bytes(1) - shared_bytes;
  }
  const char* name() const override { return "matmul"; }

  static bool Suits(const ConvolutionSpec& spec) {
    if (spec.transposed || spec.groups != 1) return false;
    for (int i = 0; i < spec.stride.size(); ++i) {
      if (spec.weight.size(i + 2) != 1 || spec.stride[i] != 1 || spec.padding[i] != 0) return false;
    }
    return true;
  }

  void Run(const Convolution::Pointers& pointers, const Scratch& scratch,
           ThreadPool& pool) const override {
    matmul_.Run({.a = pointers.weight,
                 .b = pointers.input,
                 .out = pointers.out,
                 .epilogue = pointers.epilogue},
                {scratch.shared, static_cast<size_t>(matmul_.scratch_bytes(scratch.workers))},
                pool);
  }

 private:
  static MatMulSpec Of(const ConvolutionSpec& spec) {
    int64_t in = spec.input.size(1);
    int64_t positions = spec.out.numel() / spec.out.size(0) / spec.out.size(1);
    MatMulSpec matmul = MatMulSpec::Plain(spec.input.dtype(), spec.out.size(1), in, positions);
    matmul.batch = {spec.out.size(0)};
    matmul.a.batch = {0};
    matmul.b.batch = {in * positions};
    matmul.out.batch = {spec.out.size(1) * positions};
    matmul.epilogue = spec.epilogue;
    return matmul;
  }

  const MatMul matmul_;
};

/// Best first; null if no kernel takes images with their channels last.
std::unique_ptr<ConvolutionKernel> MakeForLayouts(const ConvolutionSpec& spec) {
  if (spec.out.numel() == 0 || spec.input.numel() == 0 || spec.weight.numel() == 0) return nullptr;
  if (auto kernel = MakeDirectConvolution(spec)) return kernel;
  return MakeLibraryConvolution(spec);
}

}  // namespace

ConvolutionSpec ConvolutionSpec::Of(const Shape& input, const Shape& weight, const Dims& stride,
                                    const Dims& padding, const Dims& dilation, bool transposed,
                                    const Dims& output_padding, int64_t groups) {
  Dims sizes = {input.size(0), transposed ? weight.size(1) * groups : weight.size(0)};
  for (int d = 2; d < input.rank(); ++d) {
    int i = d - 2;
    int64_t reach = dilation[i] * (weight.size(d) - 1) + 1;
    sizes.push_back(transposed ? (input.size(d) - 1) * stride[i] - 2 * padding[i] + reach +
                                     output_padding[i]
                               : (input.size(d) + 2 * padding[i] - reach) / stride[i] + 1);
  }
  ConvolutionSpec spec;
  spec.input = input;
  spec.weight = weight;
  spec.out = input.With(sizes);
  spec.stride = stride;
  spec.padding = padding;
  spec.dilation = dilation;
  spec.transposed = transposed;
  spec.groups = groups;
  return spec;
}

bool Convolution::TakesLayouts(const ConvolutionSpec& spec) {
  return MakeForLayouts(spec) != nullptr;
}

Convolution::Convolution(const ConvolutionSpec& spec) : spec_(spec) {
  if (spec.out.numel() == 0) {
    kernel_ = std::make_unique<EmptyConvolution>();
  } else {
    kernel_ = MakeForLayouts(spec);
    HAMMOCK_CHECK(kernel_ || (!spec.input_last && !spec.out_last),
                  "no kernel takes channels that are last");
    HAMMOCK_CHECK(kernel_ || spec.out.dtype() == spec.input.dtype(),
                  "only the library sums {} in {}", NameOf(spec.input.dtype()),
                  NameOf(spec.out.dtype()));
    if (!kernel_ && PointwiseConvolution::Suits(spec)) {
      kernel_ = std::make_unique<PointwiseConvolution>(spec);
    }
    if (!kernel_) kernel_ = MakeTileConvolution(spec);
  }
  ReserveEpilogue(*kernel_, spec.epilogue);
}

Convolution::~Convolution() = default;
Convolution::Convolution(Convolution&&) noexcept = default;
Convolution& Convolution::operator=(Convolution&&) noexcept = default;

const char* Convolution::kernel() const { return kernel_->name(); }

int64_t Convolution::ResultBytes() const {
  return ResultBytesOf(*kernel_, spec_.epilogue, spec_.out.dtype(), spec_.out.numel());
}

int64_t Convolution::scratch_bytes(int workers) const {
  return ResultBytes() + kernel_->shared_bytes + workers * kernel_->worker_bytes;
}

int64_t Convolution::packed_bytes() const { return kernel_->packed_bytes; }

const std::string& Convolution::packed_key() const { return kernel_->packed_key; }

void Convolution::Pack(const void* weight, void* packed, ThreadPool& pool) const {
  HAMMOCK_CHECK(packed_bytes() > 0, "this convolution has no packed weights");
  kernel_->Pack(weight, packed, pool);
}

void Convolution::Run(const Pointers& pointers, std::span<std::byte> scratch,
                      ThreadPool& pool) const {
  Pointers used = pointers;
  if (ResultBytes() > 0) used.out = scratch.data();
  Scratch memory = kernel_->Divide(scratch.subspan(ResultBytes()), pool);
  kernel_->Run(used, memory, pool);
  if (!pointers.epilogue || kernel_->finishes) return;
  int64_t rows = spec_.out_last ? spec_.out.numel() / spec_.out.size(1)
                                : spec_.out.size(0) * spec_.out.size(1);
  RunEpilogue(*pointers.epilogue, used.out, spec_.out.dtype(), rows,
              rows == 0 ? 0 : spec_.out.numel() / rows, memory, pool);
}

}  // namespace hammock::cpu
