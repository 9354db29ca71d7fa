#pragma once
/// Matmuls and convolutions of the CPU backend. An object is made when a graph is compiled
/// and chooses by shapes and dtypes how to compute; Run computes. Both are immutable, and several
/// threads may run one object at once, each with its own scratch memory.
///
///   MatMul matmul(DotGeneral(a.shape(), b.shape(), {1}, {0}, {}, {}));
///   std::vector<std::byte> scratch(matmul.scratch_bytes(pool.threads()));
///   matmul.Run({.a = a.data(), .b = b.data(), .out = out.mutable_data()}, scratch, pool);
///
/// A result depends on shapes, dtypes and the bits of the operands, never on the number of threads:
/// work is split by shape alone, over dims that are not summed. Sums of f32, f16 and bf16 are f32
/// and are rounded once; f64 sums are f64; integers wrap.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/host/thread_pool.h"
#include "backends/cpu/matmul/operand_copy.h"
#include "hammock/ir/shape.h"

namespace hammock::cpu {

class MatMulKernel;
class ConvolutionKernel;

/// A part of a result. The result is a matrix with contiguous rows: [batch * m, n] of a matmul,
/// [images * channels, positions] of a convolution, or [images * positions, channels] if the
/// channels are last.
struct FinishedPart {
  std::byte* data;  ///< of its first element
  int64_t stride;   ///< elements from one row to the next
  int64_t row, rows;
  int64_t column, columns;
};

/// out = min(max(result + bias[column] + other, low), high) of f32; `out` and `other` lie as the
/// result does, and may be the same.
struct ChannelEpilogue {
  const float* bias = nullptr;
  const float* other = nullptr;  ///< or null
  float* out = nullptr;
  float low = 0, high = 0;
};

/// Work on each part of a result, done by the thread that computed the part while it is in the
/// cache. The parts cover the result once, in any order.
class Epilogue {
 public:
  virtual void Run(const FinishedPart& part, std::byte* scratch) const = 0;
  /// The same, for kernels that compute it themselves where EpilogueSpec allows.
  virtual ChannelEpilogue OfChannels() const { return {}; }

 protected:
  ~Epilogue() = default;
};

/// Facts about an epilogue that a kernel has to know when it is made.
struct EpilogueSpec {
  bool wanted = false;
  bool whole_rows = false;    ///< parts must have all columns
  bool stores = true;         ///< the result is needed in memory as well
  int64_t scratch_bytes = 0;  ///< of each thread, aligned to 64
  int64_t bias_size = 0;      ///< of a ChannelEpilogue; 0: it is none
  bool operator==(const EpilogueSpec&) const = default;
};

/// The strides of a stack of matrices, in elements.
struct MatrixLayout {
  Dims batch;  ///< for each batch dim; 0 repeats one matrix
  int64_t row = 0;
  int64_t column = 0;
  bool operator==(const MatrixLayout&) const = default;
};

/// out[batch, m, n] = a[batch, m, k] * b[batch, k, n]
struct MatMulSpec {
  DType dtype = DType::kF32;      ///< of a and b; with u8 and sums in i32, b is i8
  DType out_dtype = DType::kF32;  ///< dtype, f32 for f16 and bf16, or i32 for bytes
  Dims batch;                     ///< sizes
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  MatrixLayout a, b, out;  ///< rows of out are contiguous: out.column is 1
  EpilogueSpec epilogue;   ///< of a result that is contiguous

  /// All three row-major, one matrix each.
  static MatMulSpec Plain(DType dtype, int64_t m, int64_t k, int64_t n);
  bool operator==(const MatMulSpec&) const = default;
};

/// dot_general of row-major tensors as a matmul. If several dims of an operand form one dim of the
/// matrix without a common stride, the operand is copied first: `copy_*` is the order of its dims
/// in the contiguous copy that `matmul` reads. Empty: no copy is needed.
struct DotGeneralSpec {
  MatMulSpec matmul;
  Shape a, b;
  Dims copy_a, copy_b;
  bool operator==(const DotGeneralSpec&) const = default;
};
DotGeneralSpec DotGeneral(const Shape& a, const Shape& b, const Dims& a_contract,
                          const Dims& b_contract, const Dims& a_batch, const Dims& b_batch);

class MatMul {
 public:
  struct Pointers {
    const void* a = nullptr;
    const void* b = nullptr;       ///< unused where `packed` is given
    const void* packed = nullptr;  ///< b as Pack made it, or null
    void* out = nullptr;           ///< unused where the epilogue says that it is not stored
    const Epilogue* epilogue = nullptr;
  };

  /// Throws ValueError for layouts that are not possible, TypeError for dtypes that have no matmul.
  explicit MatMul(const MatMulSpec& spec);
  explicit MatMul(const DotGeneralSpec& spec);
  /// One that others may use too: layers of a model repeat their matmuls.
  static std::shared_ptr<const MatMul> Shared(const DotGeneralSpec& spec);
  ~MatMul();
  MatMul(MatMul&&) noexcept;
  MatMul& operator=(MatMul&&) noexcept;

  const MatMulSpec& spec() const { return spec_; }
  /// Which implementation was chosen: "onednn", "onednn gemm", "vector", "rows of bytes", "tiles"
  /// or "empty".
  const char* kernel() const;

  /// Memory for Run by that many threads, aligned to 64 bytes. With less, but at least that of one
  /// thread, fewer threads take part.
  int64_t scratch_bytes(int workers) const;
  void Run(const Pointers& pointers, std::span<std::byte> scratch, ThreadPool& pool) const;

  /// Size of b as packed weights, which are faster to multiply by; 0: they cannot be packed.
  int64_t packed_bytes() const;
  /// Matmuls with equal keys, whatever else they differ in, can share packed weights.
  const std::string& packed_key() const;
  /// `packed` is aligned to 64 bytes. Packing does not change a bit of the result.
  void Pack(const void* b, void* packed, ThreadPool& pool) const;

 private:
  void ChooseLibrary();
  void ChooseBytes();
  int64_t CopyBytes() const;
  int64_t ResultBytes() const;

  MatMulSpec spec_;
  OperandCopy copy_a_, copy_b_;
  std::unique_ptr<MatMulKernel> kernel_;
};

/// The primitive `convolution` of row-major NC* tensors; see ir/primitives.h.
struct ConvolutionSpec {
  Shape input, weight, out;  ///< of bytes, with i8 weights, `out` may be i32
  Dims stride, padding, dilation;
  bool transposed = false;
  int64_t groups = 1;
  /// The layout is N*C, although the type here is NC*. Results do not depend on it.
  bool input_last = false, out_last = false;
  EpilogueSpec epilogue;

  /// With the sizes of `out` inferred; the arguments are as the primitive's, and valid.
  static ConvolutionSpec Of(const Shape& input, const Shape& weight, const Dims& stride,
                            const Dims& padding, const Dims& dilation, bool transposed,
                            const Dims& output_padding, int64_t groups);
};

class Convolution {
 public:
  struct Pointers {
    const void* input = nullptr;
    const void* weight = nullptr;  ///< unused where `packed` is given
    const void* packed = nullptr;
    void* out = nullptr;
    const Epilogue* epilogue = nullptr;
  };

  explicit Convolution(const ConvolutionSpec& spec);
  /// Whether the channels of input and result may be last.
  static bool TakesLayouts(const ConvolutionSpec& spec);
  ~Convolution();
  Convolution(Convolution&&) noexcept;
  Convolution& operator=(Convolution&&) noexcept;

  const ConvolutionSpec& spec() const { return spec_; }
  const char* kernel() const;  ///< "direct", "onednn", "matmul", "tiles" or "empty"

  // As those of MatMul.
  int64_t scratch_bytes(int workers) const;
  void Run(const Pointers& pointers, std::span<std::byte> scratch, ThreadPool& pool) const;
  int64_t packed_bytes() const;
  const std::string& packed_key() const;
  void Pack(const void* weight, void* packed, ThreadPool& pool) const;

 private:
  int64_t ResultBytes() const;

  ConvolutionSpec spec_;
  std::unique_ptr<ConvolutionKernel> kernel_;
};

}  // namespace hammock::cpu
