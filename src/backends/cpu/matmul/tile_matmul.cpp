// Matmuls of any dtype by tiles: a panel of the right operand is packed so that the innermost loop
// reads it sequentially, and is multiplied by all rows of the left operand.
#include <cstring>
#include <type_traits>

#include "backends/cpu/interpret/inner_loops.h"
#include "backends/cpu/matmul/matmul_kernel.h"
#include "ir/convert.h"

namespace hammock::cpu {
namespace {

constexpr int64_t kRowBlock = 192;  // rows of a task: 6 * 32
constexpr int64_t kDepth = 2048;    // terms whose panel is held at once

/// The type in which sums of T are computed. Integers wrap, so unsigned ones of that width serve
/// all.
template <class T>
struct SumOf {
  using Type = std::conditional_t<(sizeof(T) > 4), uint64_t, uint32_t>;
};
template <>
struct SumOf<float> {
  using Type = float;
};
template <>
struct SumOf<Half> {
  using Type = float;
};
template <>
struct SumOf<BFloat16> {
  using Type = float;
};
template <>
struct SumOf<double> {
  using Type = double;
};

template <class T, class Sum>
constexpr bool kIsItsSum = std::is_same_v<T, Sum> || (std::is_integral_v<T> && sizeof(T) >= 4);

/// Calls `f(T{})` with the element type; TypeError for bool.
template <class F>
void VisitNumber(DType dtype, F f) {
  VisitDType(dtype, [&](auto zero) {
    if constexpr (std::is_same_v<decltype(zero), bool>) {
      Throw<TypeError>(ErrorCode::kDTypeMismatch, "matmul: bool operands are not supported");
    } else {
      f(zero);
    }
  });
}

/// to[i] = from[i * step] for i < count.
template <class T, class Sum>
void Widen(int64_t count, const T* from, int64_t step, Sum* to) {
  if constexpr (std::is_same_v<T, Half>) {
    if (step == 1) return WidenHalves(count, from, to);
  }
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<Sum>(from[i * step]);
}

/// The left side for the terms at hand.
template <class Sum>
struct Left {
  const Sum* data;
  int64_t row;
  int64_t column;
};

/// The memory of one thread: a panel, the sums of a tile, converted rows of the left side.
template <class Sum>
class TileScratch {
 public:
  TileScratch(int64_t rows, int64_t depth, int width)
      : panel_(RoundUp(depth * width * sizeof(Sum), 64)),
        tile_(RoundUp(rows * width * sizeof(Sum), 64)),
        left_(RoundUp(rows * depth * sizeof(Sum), 64)) {}
  int64_t bytes() const { return panel_ + tile_ + left_; }
  Sum* panel(std::byte* memory) const { return reinterpret_cast<Sum*>(memory); }
  Sum* tile(std::byte* memory) const { return reinterpret_cast<Sum*>(memory + panel_); }
  Sum* left(std::byte* memory) const { return reinterpret_cast<Sum*>(memory + panel_ + tile_); }

 private:
  int64_t panel_, tile_, left_;
};

/// out[i, j] = tile[i, j], rounded.
template <class Out, class Sum>
void StoreTile(const Sum* tile, int width, int64_t rows, int64_t columns, Out* out,
               int64_t out_row) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      out[i * out_row + j] = static_cast<Out>(tile[i * width + j]);
    }
  }
}

template <class T, class Out>
class TileMatMul : public MatMulKernel {
  using Sum = typename SumOf<T>::Type;

 public:
  explicit TileMatMul(const MatMulSpec& spec)
      : spec_(spec),
        loop_(TileLoopFor<Sum>(spec.n)),
        rows_(std::min(spec.m, kRowBlock)),
        depth_(std::min(spec.k, kDepth)),
        scratch_(rows_, depth_, loop_.width) {
    worker_bytes = scratch_.bytes();
  }
  const char* name() const override { return "tiles"; }

  void Run(const MatMul::Pointers& pointers, const Scratch& scratch,
           ThreadPool& pool) const override {
    int64_t blocks = CeilDiv(spec_.m, rows_);
    int64_t panels = CeilDiv(spec_.n, loop_.width);
    int64_t tasks = Product(spec_.batch) * blocks * panels;
    ForEachTask(pool, scratch.workers, tasks, rows_ * spec_.k * loop_.width,
                [&](int64_t task, int worker) {
                  RunTask(pointers, task / panels / blocks, task / panels % blocks * rows_,
                          task % panels * loop_.width, scratch.of(worker));
                });
  }

 private:
  void RunTask(const MatMul::Pointers& pointers, int64_t batch, int64_t row, int64_t column,
               std::byte* memory) const {
    const T* a = static_cast<const T*>(pointers.a) +
                 BatchOffset(spec_.batch, spec_.a.batch, batch) + row * spec_.a.row;
    const T* b = static_cast<const T*>(pointers.b) +
                 BatchOffset(spec_.batch, spec_.b.batch, batch) + column * spec_.b.column;
    Out* out = static_cast<Out*>(pointers.out) + BatchOffset(spec_.batch, spec_.out.batch, batch) +
               row * spec_.out.row + column;
    int64_t rows = std::min(rows_, spec_.m - row);
    int64_t columns = std::min<int64_t>(loop_.width, spec_.n - column);
    Sum* tile = scratch_.tile(memory);
    std::fill_n(tile, rows * loop_.width, Sum(0));
    for (int64_t k = 0; k < spec_.k; k += depth_) {
      int64_t depth = std::min(depth_, spec_.k - k);
      Left<Sum> left = LoadLeft(a + k * spec_.a.column, rows, depth, scratch_.left(memory));
      PackPanel(b + k * spec_.b.row, depth, columns, scratch_.panel(memory));
      loop_.run(rows, depth, left.data, left.row, left.column, scratch_.panel(memory), tile);
    }
    StoreTile(tile, loop_.width, rows, columns, out, spec_.out.row);
  }

  Left<Sum> LoadLeft(const T* a, int64_t rows, int64_t depth, Sum* memory) const {
    if constexpr (kIsItsSum<T, Sum>) {
      return {reinterpret_cast<const Sum*>(a), spec_.a.row, spec_.a.column};
    } else {
      for (int64_t i = 0; i < rows; ++i) {
        Widen(depth, a + i * spec_.a.row, spec_.a.column, memory + i * depth);
      }
      return {memory, depth, 1};
    }
  }

  void PackPanel(const T* b, int64_t depth, int64_t columns, Sum* panel) const {
    int width = loop_.width;
    if (spec_.b.column == 1) {
      for (int64_t p = 0; p < depth; ++p) {
        Sum* to = panel + p * width;
        Widen(columns, b + p * spec_.b.row, 1, to);
        for (int64_t j = columns; j < width; ++j) to[j] = Sum(0);
      }
      return;
    }
    if (columns < width) std::fill_n(panel, depth * width, Sum(0));
    for (int64_t j = 0; j < columns; ++j) {
      const T* column = b + j * spec_.b.column;
      for (int64_t p = 0; p < depth; ++p) {
        panel[p * width + j] = static_cast<Sum>(column[p * spec_.b.row]);
      }
    }
  }

  const MatMulSpec spec_;
  const TileLoop<Sum>& loop_;
  const int64_t rows_;
  const int64_t depth_;
  const TileScratch<Sum> scratch_;
};

/// For each image and group: weight[out channels, terms] times the unfolded input [terms,
/// positions], where a term is an input channel and a tap of the kernel. The input is unfolded
/// panel by panel.
template <class T>
class TileConvolution : public ConvolutionKernel {
  using Sum = typename SumOf<T>::Type;

 public:
  explicit TileConvolution(const ConvolutionSpec& spec)
      : spec_(spec),
        in_channels_(spec.input.size(1) / spec.groups),
        out_channels_(spec.out.size(1) / spec.groups),
        taps_(Spatial(spec.weight)),
        positions_(Spatial(spec.out)),
        image_(Spatial(spec.input)),
        loop_(TileLoopFor<Sum>(positions_)),
        rows_(std::min(out_channels_, kRowBlock)),
        channels_(std::clamp<int64_t>(kDepth / taps_, 1, std::max<int64_t>(in_channels_, 1))),
        scratch_(rows_, channels_ * taps_, loop_.width) {
    worker_bytes = scratch_.bytes();
  }
  const char* name() const override { return "tiles"; }

  void Run(const Convolution::Pointers& pointers, const Scratch& scratch,
           ThreadPool& pool) const override {
    int64_t blocks = CeilDiv(out_channels_, rows_);
    int64_t panels = CeilDiv(positions_, loop_.width);
    int64_t tasks = spec_.out.size(0) * spec_.groups * panels * blocks;
    int64_t work = rows_ * in_channels_ * taps_ * loop_.width;
    ForEachTask(pool, scratch.workers, tasks, work, [&](int64_t task, int worker) {
      RunTask(pointers, task / blocks / panels, task / blocks % panels * loop_.width,
              task % blocks * rows_, scratch.of(worker));
    });
  }

 private:
  static int64_t Spatial(const Shape& shape) {
    int64_t count = 1;
    for (int d = 2; d < shape.rank(); ++d) count *= shape.size(d);
    return count;
  }

  /// `part` counts images and groups.
  void RunTask(const Convolution::Pointers& pointers, int64_t part, int64_t position,
               int64_t channel, std::byte* memory) const {
    int64_t group = part % spec_.groups;
    const T* image = static_cast<const T*>(pointers.input) + part * in_channels_ * image_;
    const T* weight =
        static_cast<const T*>(pointers.weight) + group * in_channels_ * out_channels_ * taps_;
    T* out =
        static_cast<T*>(pointers.out) + (part * out_channels_ + channel) * positions_ + position;
    int64_t rows = std::min(rows_, out_channels_ - channel);
    int64_t columns = std::min<int64_t>(loop_.width, positions_ - position);
    Sum* tile = scratch_.tile(memory);
    std::fill_n(tile, rows * loop_.width, Sum(0));
    for (int64_t c = 0; c < in_channels_; c += channels_) {
      int64_t count = std::min(channels_, in_channels_ - c);
      Left<Sum> left = LoadLeft(weight, channel, rows, c, count, scratch_.left(memory));
      Unfold(image + c * image_, count, position, columns, scratch_.panel(memory));
      loop_.run(rows, count * taps_, left.data, left.row, left.column, scratch_.panel(memory),
                tile);
    }
    StoreTile(tile, loop_.width, rows, columns, out, positions_);
  }

  /// The weights of `rows` output channels and `count` input channels. They lie as [out, in, taps],
  /// those of a transposed convolution as [in, out, taps].
  Left<Sum> LoadLeft(const T* weight, int64_t row, int64_t rows, int64_t c, int64_t count,
                     Sum* memory) const {
    int64_t out_stride = spec_.transposed ? taps_ : in_channels_ * taps_;
    int64_t in_stride = spec_.transposed ? out_channels_ * taps_ : taps_;
    const T* first = weight + row * out_stride + c * in_stride;
    if constexpr (kIsItsSum<T, Sum>) {
      if (!spec_.transposed) return {reinterpret_cast<const Sum*>(first), out_stride, 1};
    }
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < count; ++j) {
        const T* from = first + i * out_stride + j * in_stride;
        Sum* to = memory + (i * count + j) * taps_;
        for (int64_t tap = 0; tap < taps_; ++tap) to[tap] = static_cast<Sum>(from[tap]);
      }
    }
    return {memory, count * taps_, 1};
  }

  /// The position of the input that `tap` reads for position `to` of the output; -1: in the
  /// padding.
  int64_t Find(int64_t to, int64_t tap) const {
    int64_t flat = 0;
    int64_t scale = 1;
    for (int d = spec_.out.rank() - 1; d >= 2; --d) {
      int64_t at = to % spec_.out.size(d);
      int64_t step = tap % spec_.weight.size(d) * spec_.dilation[d - 2];
      int64_t position;
      if (spec_.transposed) {
        position = at + spec_.padding[d - 2] - step;
        if (position < 0 || position % spec_.stride[d - 2] != 0) return -1;
        position /= spec_.stride[d - 2];
      } else {
        position = at * spec_.stride[d - 2] + step - spec_.padding[d - 2];
      }
      if (position < 0 || position >= spec_.input.size(d)) return -1;
      flat += position * scale;
      scale *= spec_.input.size(d);
      to /= spec_.out.size(d);
      tap /= spec_.weight.size(d);
    }
    return flat;
  }

  void Unfold(const T* image, int64_t channels, int64_t position, int64_t columns,
              Sum* panel) const {
    int width = loop_.width;
    int64_t from[TileLoop<Sum>::kMaxWidth];
    for (int64_t tap = 0; tap < taps_; ++tap) {
      for (int64_t j = 0; j < width; ++j) from[j] = j < columns ? Find(position + j, tap) : -1;
      for (int64_t c = 0; c < channels; ++c) {
        Sum* to = panel + (c * taps_ + tap) * width;
        const T* plane = image + c * image_;
        for (int64_t j = 0; j < width; ++j) {
          to[j] = from[j] < 0 ? Sum(0) : static_cast<Sum>(plane[from[j]]);
        }
      }
    }
  }

  const ConvolutionSpec spec_;
  const int64_t in_channels_, out_channels_;  // of one group
  const int64_t taps_, positions_, image_;
  const TileLoop<Sum>& loop_;
  const int64_t rows_;
  const int64_t channels_;  // whose panel is held at once
  const TileScratch<Sum> scratch_;
};

/// A matmul with a vector as one operand: the other operand is read once, in its own layout.
template <class T, class Out>
class VectorMatMul : public MatMulKernel {
  using Sum = typename SumOf<T>::Type;

 public:
  explicit VectorMatMul(const MatMulSpec& spec)
      : spec_(spec),
        from_left_(spec.m == 1),
        count_(from_left_ ? spec.n : spec.m),
        vector_step_(from_left_ ? spec.a.column : spec.b.row),
        out_step_(from_left_ ? spec.out.column : spec.out.row),
        free_step_(from_left_ ? spec.b.column : spec.a.row),
        sum_step_(from_left_ ? spec.b.row : spec.a.column),
        part_(std::min<int64_t>(count_, std::clamp<int64_t>(RoundUp(count_ / 4, 64), 256, 2048))) {
    vector_bytes_ = RoundUp(spec.k * sizeof(Sum), 64);
    sums_bytes_ = RoundUp(part_ * sizeof(Sum), 64);
    out_bytes_ = RoundUp(part_ * sizeof(Out), 64);
    finishes = apart = from_left_ && !(spec.epilogue.whole_rows && part_ < count_);
    worker_bytes = vector_bytes_ + sums_bytes_ + out_bytes_ + spec.epilogue.scratch_bytes;
  }
  const char* name() const override { return "vector"; }

  /// Whether the matrix lies so that one of the two loops reads it in order.
  static bool Suits(const MatMulSpec& spec) {
    if (spec.m != 1 && spec.n != 1) return false;
    return spec.m == 1 ? spec.b.column == 1 || spec.b.row == 1
                       : spec.a.column == 1 || spec.a.row == 1;
  }

  void Run(const MatMul::Pointers& pointers, const Scratch& scratch,
           ThreadPool& pool) const override {
    int64_t parts = CeilDiv(count_, part_);
    ForEachTask(pool, scratch.workers, Product(spec_.batch) * parts, part_ * spec_.k,
                [&](int64_t task, int worker) {
                  RunTask(pointers, task / parts, task % parts * part_, scratch.of(worker));
                });
  }

 private:
  void RunTask(const MatMul::Pointers& pointers, int64_t batch, int64_t begin,
               std::byte* memory) const {
    const T* a = static_cast<const T*>(pointers.a) + BatchOffset(spec_.batch, spec_.a.batch, batch);
    const T* b = static_cast<const T*>(pointers.b) + BatchOffset(spec_.batch, spec_.b.batch, batch);
    Out* out = pointers.out
                   ? static_cast<Out*>(pointers.out) +
                         BatchOffset(spec_.batch, spec_.out.batch, batch) + begin * out_step_
                   : reinterpret_cast<Out*>(memory + vector_bytes_ + sums_bytes_);
    const T* vector = from_left_ ? a : b;
    const T* matrix = (from_left_ ? b : a) + begin * free_step_;
    int64_t count = std::min(part_, count_ - begin);
    Sum* x = reinterpret_cast<Sum*>(memory);
    Sum* sums = reinterpret_cast<Sum*>(memory + vector_bytes_);
    for (int64_t p = 0; p < spec_.k; ++p) x[p] = static_cast<Sum>(vector[p * vector_step_]);
    const VectorLoops<T, Sum>& loops = VectorLoopsFor<T, Sum>();
    if (sum_step_ == 1) {
      loops.dots(count, spec_.k, matrix, free_step_, x, sums);
    } else {
      std::fill_n(sums, count, Sum(0));
      loops.rows(count, spec_.k, matrix, sum_step_, x, sums);
    }
    StoreTile(sums, 1, count, 1, out, out_step_);
    if (!finishes || !pointers.epilogue) return;
    pointers.epilogue->Run({reinterpret_cast<std::byte*>(out), count_, batch, 1, begin, count},
                           memory + vector_bytes_ + sums_bytes_ + out_bytes_);
  }

  const MatMulSpec spec_;
  const bool from_left_;  // the vector is a, the matrix b
  const int64_t count_;
  const int64_t vector_step_, out_step_;
  const int64_t free_step_, sum_step_;  // of the matrix
  const int64_t part_;                  // elements of the result in a task
  int64_t vector_bytes_ = 0, sums_bytes_ = 0, out_bytes_ = 0;
};

/// As spec's dtypes say: Kernel<T, T> or, for 16-bit floats with f32 results, Kernel<T, float>.
template <template <class, class> class Kernel, class T>
std::unique_ptr<MatMulKernel> MakeFor(const MatMulSpec& spec) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    if (spec.out_dtype == DType::kF32) return std::make_unique<Kernel<T, float>>(spec);
  }
  return std::make_unique<Kernel<T, T>>(spec);
}

}  // namespace

std::unique_ptr<MatMulKernel> MakeTileMatMul(const MatMulSpec& spec) {
  std::unique_ptr<MatMulKernel> kernel;
  VisitNumber(spec.dtype, [&](auto zero) { kernel = MakeFor<TileMatMul, decltype(zero)>(spec); });
  return kernel;
}

std::unique_ptr<MatMulKernel> MakeVectorMatMul(const MatMulSpec& spec) {
  if (!VectorMatMul<float, float>::Suits(spec)) return nullptr;
  if (spec.dtype == DType::kF32) return MakeFor<VectorMatMul, float>(spec);
  if (spec.dtype == DType::kF64) return MakeFor<VectorMatMul, double>(spec);
  if (spec.dtype == DType::kF16) return MakeFor<VectorMatMul, Half>(spec);
  if (spec.dtype == DType::kBF16) return MakeFor<VectorMatMul, BFloat16>(spec);
  return nullptr;
}

std::unique_ptr<ConvolutionKernel> MakeTileConvolution(const ConvolutionSpec& spec) {
  std::unique_ptr<ConvolutionKernel> kernel;
  VisitNumber(spec.input.dtype(),
              [&](auto zero) { kernel = std::make_unique<TileConvolution<decltype(zero)>>(spec); });
  return kernel;
}

}  // namespace hammock::cpu
