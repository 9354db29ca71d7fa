#pragma once
/// Matrix products and convolutions of the CPU backend. An object is made when a graph is compiled
/// and chooses by shapes and dtypes how to compute; Run computes. Both are immutable, and several
/// threads may run one object at once, each with its own scratch memory.
///
///   MatMul product(DotGeneral(a.shape(), b.shape(), {1}, {0}, {}, {}));
///   std::vector<std::byte> scratch(product.scratch_bytes(pool.threads()));
///   product.Run({.a = a.data(), .b = b.data(), .out = out.mutable_data()}, scratch, pool);
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

#include "backends/cpu/matmul/operand_copy.h"
#include "backends/cpu/thread_pool.h"
#include "hammock/ir/shape.h"

namespace hammock::cpu {

class MatMulKernel;
class ConvolutionKernel;

/// A part of a result. The result is a matrix whose rows lie one after another: [batch * m, n] of a
/// product, [images * channels, places] of a convolution, or [images * places, channels] where the
/// channels are last.
struct FinishedPart {
  std::byte* data;  ///< of its first element
  int64_t stride;   ///< elements from one row to the next
  int64_t row, rows;
  int64_t column, columns;
};

/// What is done with each part of a result by the thread that computed it, while it is in the
/// cache. Parts together are the whole result, in no order.
class Epilogue {
 public:
  virtual void Run(const FinishedPart& part, std::byte* scratch) const = 0;

 protected:
  ~Epilogue() = default;
};

/// What a product has to know beforehand.
struct EpilogueSpec {
  bool wanted = false;
  bool whole_rows = false;    ///< parts must have all columns
  bool stores = true;         ///< the result is needed in memory as well
  int64_t scratch_bytes = 0;  ///< of each thread, aligned to 64
};

/// Where the elements of a stack of matrices lie: strides in elements.
struct MatrixLayout {
  Dims batch;  ///< for each batch dim; 0 repeats one matrix
  int64_t row = 0;
  int64_t column = 0;
};

/// out[batch, m, n] = a[batch, m, k] * b[batch, k, n]
struct MatMulSpec {
  DType dtype = DType::kF32;      ///< of a and b
  DType out_dtype = DType::kF32;  ///< dtype, or f32 for f16 and bf16
  Dims batch;                     ///< sizes
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  MatrixLayout a, b, out;  ///< rows of out are contiguous: out.column is 1
  EpilogueSpec epilogue;   ///< of a result that is contiguous

  /// All three row-major, one matrix each.
  static MatMulSpec Plain(DType dtype, int64_t m, int64_t k, int64_t n);
};

/// What dot_general of row-major tensors asks for. Where several dims of an operand are one dim of
/// the matrix but do not lie evenly, `copy_*` says how to bring it into the layout in `product`:
/// the operand's dims in that order, made contiguous. Empty: the operand as it is.
struct DotGeneralSpec {
  MatMulSpec product;
  Shape a, b;
  Dims copy_a, copy_b;
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

  /// Throws ValueError for layouts that are not possible, TypeError for dtypes without products.
  explicit MatMul(const MatMulSpec& spec);
  explicit MatMul(const DotGeneralSpec& spec);
  ~MatMul();
  MatMul(MatMul&&) noexcept;
  MatMul& operator=(MatMul&&) noexcept;

  const MatMulSpec& spec() const { return spec_; }
  /// Which implementation was chosen: "onednn", "vector", "tiles" or "empty".
  const char* kernel() const;

  /// Memory for Run by so many threads: aligned to 64 bytes. With less, but at least that of one
  /// thread, fewer take part.
  int64_t scratch_bytes(int workers) const;
  void Run(const Pointers& pointers, std::span<std::byte> scratch, ThreadPool& pool) const;

  /// A form of b that is faster to multiply by, for weights that do not change; 0: there is none.
  int64_t packed_bytes() const;
  /// Products with one key, whatever else they differ in, have the same form.
  const std::string& packed_key() const;
  /// `packed` is aligned to 64 bytes. The product with it has the bits that the product with b has.
  void Pack(const void* b, void* packed, ThreadPool& pool) const;

 private:
  void ChooseLibrary();
  int64_t CopyBytes() const;
  int64_t ResultBytes() const;

  MatMulSpec spec_;
  OperandCopy copy_a_, copy_b_;
  std::unique_ptr<MatMulKernel> kernel_;
};

/// The primitive of that name, of row-major NC* tensors. See ir/primitives.h.
struct ConvolutionSpec {
  Shape input, weight, out;
  Dims stride, padding, dilation;
  bool transposed = false;
  int64_t groups = 1;
  /// The tensor lies as N*C all the same; its type here is NC*. Bits do not depend on it.
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
  const char* kernel() const;  ///< "matmul", "onednn", "tiles" or "empty"

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
