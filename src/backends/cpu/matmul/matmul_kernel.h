#pragma once
/// The interface of matmul and convolution kernels. Private to matmul.cpp, convolution.cpp and the
/// kernels.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "backends/cpu/matmul/matmul.h"
#include "base/ceil_div.h"
#include "hammock/option.h"

namespace hammock::cpu {

inline int64_t RoundUp(int64_t value, int64_t multiple) {
  return CeilDiv(value, multiple) * multiple;
}

inline int64_t Product(const Dims& sizes) {
  int64_t product = 1;
  for (int64_t size : sizes) product *= size;
  return product;
}

/// Scratch memory as a kernel sees it: some for all threads, some for each.
struct Scratch {
  std::byte* shared;
  std::byte* first;
  int64_t worker_bytes;
  int workers;  ///< that may take part

  std::byte* of(int worker) const { return first + worker * worker_bytes; }
};

/// One implementation of a matmul or convolution. The constructor sets the sizes; all numbers of
/// bytes are multiples of 64.
template <class Pointers>
class ContractionKernel {
 public:
  virtual ~ContractionKernel() = default;
  virtual const char* name() const = 0;
  virtual void Run(const Pointers& pointers, const Scratch& scratch, ThreadPool& pool) const = 0;
  virtual void Pack(const void*, void*, ThreadPool&) const {}

  int64_t shared_bytes = 0;
  int64_t worker_bytes = 0;
  int64_t packed_bytes = 0;
  std::string packed_key;
  /// Whether Run runs the epilogue. Otherwise the epilogue runs after the whole result was
  /// computed.
  bool finishes = false;
  /// Whether parts that only the epilogue reads are in the scratch memory of threads; otherwise
  /// there is memory for the whole result.
  bool apart = false;

  Scratch Divide(std::span<std::byte> memory, const ThreadPool& pool) const;
};

class MatMulKernel : public ContractionKernel<MatMul::Pointers> {};
class ConvolutionKernel : public ContractionKernel<Convolution::Pointers> {};

/// Runs the epilogue on a whole result, for kernels that do not run it on parts.
void RunEpilogue(const Epilogue& epilogue, void* result, DType dtype, int64_t rows, int64_t columns,
                 const Scratch& scratch, ThreadPool& pool);

/// Reserves the scratch memory of an epilogue that runs after the kernel.
template <class Kernel>
void ReserveEpilogue(Kernel& kernel, const EpilogueSpec& epilogue) {
  if (!kernel.finishes) kernel.worker_bytes = std::max(kernel.worker_bytes, epilogue.scratch_bytes);
}

/// Memory for a result that only the epilogue sees.
template <class Kernel>
int64_t ResultBytesOf(const Kernel& kernel, const EpilogueSpec& epilogue, DType dtype,
                      int64_t elements) {
  bool whole = epilogue.wanted && !epilogue.stores && !kernel.apart;
  return whole ? RoundUp(BytesOf(dtype, elements), 64) : 0;
}

/// Where matrix number `index` of a stack begins.
int64_t BatchOffset(const Dims& sizes, const Dims& strides, int64_t index);

/// Calls `f(task, worker)` for each task. Consecutive tasks form chunks that are large enough to be
/// worth a thread; `work_per_task` counts multiplications.
template <class F>
void ForEachTask(ThreadPool& pool, int workers, int64_t tasks, int64_t work_per_task, F f) {
  constexpr int64_t kMinWork = 1 << 16;
  int64_t group = std::clamp<int64_t>(kMinWork / std::max<int64_t>(work_per_task, 1), 1,
                                      std::max<int64_t>(tasks, 1));
  pool.ForEachChunk(
      CeilDiv(tasks, group),
      [&](int64_t chunk, int worker) {
        int64_t end = std::min(tasks, (chunk + 1) * group);
        for (int64_t task = chunk * group; task < end; ++task) f(task, worker);
      },
      workers);
}

inline constinit config::Option<bool> kOneDnn({
    .name = "cpu.onednn",
    .default_value = true,
    .doc = "Multiply matrices and convolve by oneDNN, where the library was built with it; off: by "
           "own loops.",
    .affects_code = true,
});

/// "2.6.0", of the library that is loaded; "none" where it was built without it.
std::string OneDnnVersion();

/// Null if this implementation cannot, or should not, compute it.
std::unique_ptr<MatMulKernel> MakeVectorMatMul(const MatMulSpec& spec);
std::unique_ptr<MatMulKernel> MakeOneDnnMatMul(const MatMulSpec& spec);
std::unique_ptr<ConvolutionKernel> MakeDirectConvolution(const ConvolutionSpec& spec);
std::unique_ptr<ConvolutionKernel> MakeOneDnnConvolution(const ConvolutionSpec& spec);
/// Never null. Of bytes with sums in i32: rows of a and columns of b are contiguous.
std::unique_ptr<MatMulKernel> MakeByteMatMul(const MatMulSpec& spec);
/// Never null.
std::unique_ptr<MatMulKernel> MakeTileMatMul(const MatMulSpec& spec);
std::unique_ptr<ConvolutionKernel> MakeTileConvolution(const ConvolutionSpec& spec);

}  // namespace hammock::cpu
