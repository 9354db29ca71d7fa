#include "backends/cpu/fft/row_fft.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "backends/cpu/host/thread_pool.h"

namespace hammock::cpu {
namespace {

/// Bytes of planes up to which rows are transformed together.
constexpr int64_t kLaneBytes = 1 << 20;
/// The smallest row that is worth splitting.
constexpr int64_t kSplitSize = 64;

/// The divisor of `size` that is nearest to its root from below.
int64_t NearRoot(int64_t size) {
  auto divisor = static_cast<int64_t>(std::sqrt(static_cast<double>(size)));
  while (size % divisor != 0) --divisor;
  return divisor;
}

template <class T>
T* Aligned(T* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  return reinterpret_cast<T*>((address + 63) / 64 * 64);
}

/// So many elements and the alignment of what comes behind them.
template <class T>
int64_t Rounded(int64_t elements) {
  constexpr int64_t kLine = 64 / sizeof(T);
  return (elements + kLine - 1) / kLine * kLine;
}

template <class T>
struct WorkPlanes {
  WorkPlanes(T* memory, int64_t plane)
      : first{memory, memory + plane}, second{memory + 2 * plane, memory + 3 * plane} {}
  Planes<T> first, second;
};

template <class F>
void ForEachGroup(int64_t groups, int64_t work, int workers, F&& f) {
  constexpr int64_t kSerial = 1 << 14;
  if (groups * work < kSerial) {
    for (int64_t group = 0; group < groups; ++group) f(group, 0);
    return;
  }
  ThreadPool::Get().ForEachChunk(groups, f, workers);
}

/// Backward transforms have exchanged planes.
template <class T>
Planes<T> RunIn(const LaneFft<T>& fft, Planes<T> from, Planes<T> other, bool forward) {
  if (forward) return fft.Run(from, other);
  return fft.Run(from.Exchanged(), other.Exchanged()).Exchanged();
}

template <class T>
void Multiply(T* z, T re, T im) {
  const T real = z[0] * re - z[1] * im;
  z[1] = z[0] * im + z[1] * re;
  z[0] = real;
}

}  // namespace

// ---- LongFft

template <class T>
bool LongFft<T>::Splits(int64_t size) {
  return size >= kSplitSize && (!HasSmallFactors(size) || NearRoot(size) >= 4);
}

template <class T>
LongFft<T>::LongFft(int64_t size)
    : size_(size), length_(HasSmallFactors(size) ? size : NextWithSmallFactors(2 * size - 1)) {
  rows_ = NearRoot(length_);
  columns_ = length_ / rows_;
  along_columns_ = LaneFft<T>::Of(rows_);
  along_rows_ = LaneFft<T>::Of(columns_);

  coarse_step_ = int64_t{1} << ((63 - __builtin_clzll(static_cast<uint64_t>(length_))) / 2);
  auto add = [&](std::vector<double>& table, int64_t step) {
    const Root<double> root(step, length_);
    table.insert(table.end(), {root.real, root.imag});
  };
  for (int64_t j = 0; j < coarse_step_; ++j) add(fine_, j);
  for (int64_t j = 0; j < length_; j += coarse_step_) add(coarse_, j);
  const int lanes = LaneFft<T>::lanes();
  lane_roots_.resize(static_cast<size_t>(2 * rows_ * lanes + 64));
  T* roots = Aligned(lane_roots_.data());
  for (int64_t k = 0; k < rows_; ++k) {
    for (int v = 0; v < lanes; ++v) {
      const Root<T> root(k * v, length_);
      roots[(2 * k) * lanes + v] = root.real;
      roots[(2 * k + 1) * lanes + v] = root.imag;
    }
  }
  if (length_ == size_) return;

  for (int64_t k = 0; k < size_; ++k) {
    const Root<T> root(static_cast<int64_t>(__int128{k} * k % (2 * size_)), 2 * size_);
    chirp_.insert(chirp_.end(), {root.real, root.imag});
  }
  spectrum_.resize(static_cast<size_t>(2 * length_));
  for (int64_t k = 0; k < size_; ++k) {
    for (int64_t at : {k, (length_ - k) % length_}) {
      spectrum_[2 * at] = chirp_[2 * k];
      spectrum_[2 * at + 1] = -chirp_[2 * k + 1];
    }
  }
  std::vector<T> memory(static_cast<size_t>(scratch(1) + 64));
  T* planes = Aligned(memory.data());
  RunSplit(spectrum_.data(), spectrum_.data(), static_cast<T>(1.0L / length_), true, planes,
           planes + Rounded<T>(2 * length_), 1);
}

template <class T>
int64_t LongFft<T>::worker_scratch() const {
  const int64_t plane = Rounded<T>(std::max(along_rows_->plane(), along_columns_->plane()));
  return 4 * plane + Rounded<T>(2 * rows_);
}

template <class T>
int64_t LongFft<T>::scratch(int workers) const {
  const int64_t convolution = length_ == size_ ? 0 : Rounded<T>(2 * length_);
  return Rounded<T>(2 * length_) + convolution + workers * worker_scratch();
}

template <class T>
void LongFft<T>::RunSplit(const T* from, T* to, T scale, bool forward, T* temporary, T* planes,
                          int workers) const {
  const int lanes = LaneFft<T>::lanes();
  const int64_t plane = Rounded<T>(std::max(along_rows_->plane(), along_columns_->plane()));
  const T* lane_roots = Aligned(const_cast<T*>(lane_roots_.data()));
  auto group_of = [&](auto* first, int64_t group, int64_t count, int64_t step, int64_t pitch) {
    Signals<std::remove_pointer_t<decltype(first)>> signals;
    signals.count = static_cast<int>(std::min<int64_t>(lanes, count - group * lanes));
    for (int v = 0; v < signals.count; ++v) signals.lane[v] = first + (group * lanes + v) * step;
    signals.pitch = pitch;
    return signals;
  };
  auto groups = [&](int64_t count) { return (count + lanes - 1) / lanes; };

  // Columns: element (i, j) of the matrix becomes (k, j), times exp(-2 pi i j k / length).
  ForEachGroup(groups(columns_), rows_ * lanes, workers, [&](int64_t group, int worker) {
    T* memory = planes + worker * worker_scratch();
    WorkPlanes<T> work(memory, plane);
    LoadLanes<T>(group_of(from, group, columns_, 2, 2 * columns_), rows_, work.first);
    Planes<T> result = RunIn(*along_columns_, work.first, work.second, forward);
    T* row_roots = memory + 4 * plane;
    for (int64_t k = 0, step = 0; k < rows_; ++k) {
      const double* a = &fine_[2 * (step % coarse_step_)];
      const double* b = &coarse_[2 * (step / coarse_step_)];
      row_roots[2 * k] = static_cast<T>(a[0] * b[0] - a[1] * b[1]);
      row_roots[2 * k + 1] = static_cast<T>(a[0] * b[1] + a[1] * b[0]);
      step += group * lanes;  // k * first column, modulo length
      if (step >= length_) step -= length_;
    }
    RotateLanes<T>(forward ? result : result.Exchanged(), rows_, lane_roots, row_roots);
    StoreLanes<T>(result, rows_, T(1), group_of(temporary, group, columns_, 2, 2 * columns_));
  });
  // Rows, each of which becomes a column.
  const T* matrix = temporary;
  ForEachGroup(groups(rows_), columns_ * lanes, workers, [&](int64_t group, int worker) {
    WorkPlanes<T> work(planes + worker * worker_scratch(), plane);
    LoadLanes<T>(group_of(matrix, group, rows_, 2 * columns_, 2), columns_, work.first);
    Planes<T> result = RunIn(*along_rows_, work.first, work.second, forward);
    StoreLanes<T>(result, columns_, scale, group_of(to, group, rows_, 2, 2 * rows_));
  });
}

template <class T>
void LongFft<T>::Run(const T* from, T* to, T scale, bool forward, T* scratch, int workers) const {
  T* temporary = scratch;
  if (length_ == size_) {
    return RunSplit(from, to, scale, forward, temporary, scratch + Rounded<T>(2 * length_),
                    workers);
  }
  T* line = scratch + Rounded<T>(2 * length_);
  T* planes = line + Rounded<T>(2 * length_);
  const T sign = forward ? 1 : -1;  // a backward transform is that of conjugates, conjugated
  for (int64_t k = 0; k < size_; ++k) {
    line[2 * k] = from[2 * k];
    line[2 * k + 1] = sign * from[2 * k + 1];
    Multiply(line + 2 * k, chirp_[2 * k], chirp_[2 * k + 1]);
  }
  std::fill(line + 2 * size_, line + 2 * length_, T(0));
  RunSplit(line, line, 1, true, temporary, planes, workers);
  for (int64_t k = 0; k < length_; ++k) {
    Multiply(line + 2 * k, spectrum_[2 * k], spectrum_[2 * k + 1]);
  }
  RunSplit(line, line, scale, false, temporary, planes, workers);
  for (int64_t k = 0; k < size_; ++k) {
    Multiply(line + 2 * k, chirp_[2 * k], chirp_[2 * k + 1]);
    to[2 * k] = line[2 * k];
    to[2 * k + 1] = sign * line[2 * k + 1];
  }
}

// ---- RowFft

template <class T>
RowFft<T>::RowFft(FftKind kind, const CallAxis& axis, bool forward, T scale)
    : kind_(kind), axis_(axis), forward_(forward), scale_(scale), bins_(axis.extent) {
  if (kind != FftKind::kComplex) {
    bins_ = axis.extent / 2 + 1;
    pairs_ = axis.extent % 2 == 0;
    forward_ = kind == FftKind::kRealToComplex;
  }
  size_ = pairs_ ? axis.extent / 2 : axis.extent;
  const int64_t rows = axis.outer * axis.inner;
  if (rows == 0 || size_ == 0) return;
  for (int64_t k = 0; pairs_ && k <= size_; ++k) {
    const Root<T> root(k, axis.extent);
    roots_.insert(roots_.end(), {root.real, root.imag});
  }
  const int lanes = LaneFft<T>::lanes();
  const int64_t bytes = 4 * size_ * lanes * static_cast<int64_t>(sizeof(T));
  workers_ = ThreadPool::threads();
  if (LongFft<T>::Splits(size_) && (2 * rows <= lanes || bytes > kLaneBytes)) {
    long_ = std::make_unique<LongFft<T>>(size_);
  } else {
    lanes_ = LaneFft<T>::Of(size_);
  }
}

template <class T>
int64_t RowFft<T>::scratch_bytes() const {
  int64_t elements = 0;
  if (lanes_) {
    const int64_t plane = std::max(lanes_->plane(), bins_ * LaneFft<T>::lanes());
    elements = workers_ * 4 * Rounded<T>(plane);
  } else if (long_) {
    elements = 2 * Rounded<T>(2 * axis_.extent + 2) + long_->scratch(workers_);
  }
  return elements * static_cast<int64_t>(sizeof(T)) + 64;
}

template <class T>
void RowFft<T>::Run(const char* from, char* to, char* scratch) const {
  if (!lanes_ && !long_) return;
  T* memory = Aligned(reinterpret_cast<T*>(scratch));
  const T* in = reinterpret_cast<const T*>(from);
  T* out = reinterpret_cast<T*>(to);
  if (lanes_) {
    RunLanes(in, out, memory);
  } else {
    RunLong(in, out, memory);
  }
}

namespace {

/// Rows along a dim of a tensor of real or complex numbers.
template <class T>
struct RowsOf {
  T* data;
  int64_t inner, extent;
  bool is_complex;

  T* Row(int64_t row) const {
    const int64_t first = row / inner * extent * inner + row % inner;
    return data + (is_complex ? 2 : 1) * first;
  }
  /// Elements as complex numbers, as pairs of reals, or as reals alone.
  void Describe(bool pairs, Signals<T>& signals) const {
    signals.pitch = (is_complex || pairs ? 2 : 1) * inner;
    signals.imag = is_complex ? 1 : pairs ? inner : 0;
  }
};

}  // namespace

template <class T>
void RowFft<T>::RunLanes(const T* from, T* to, T* scratch) const {
  const int lanes = LaneFft<T>::lanes();
  const int64_t rows = axis_.outer * axis_.inner, inner = axis_.inner;
  const int64_t plane = Rounded<T>(std::max(lanes_->plane(), bins_ * lanes));
  const bool from_real = kind_ == FftKind::kRealToComplex,
             to_real = kind_ == FftKind::kComplexToReal;
  const RowsOf<const T> in = {from, inner, from_real ? axis_.extent : bins_, !from_real};
  const RowsOf<T> out = {to, inner, to_real ? axis_.extent : bins_, !to_real};
  // Lanes that lie side by side are loaded and stored as vectors: a group does not cross the end of
  // `inner`, unless that is short.
  const bool crosses = 2 * inner < lanes;
  const int64_t in_line = crosses ? rows : inner, groups_in_line = (in_line + lanes - 1) / lanes;
  ForEachGroup(
      rows / in_line * groups_in_line, size_ * lanes, workers_, [&](int64_t group, int worker) {
        const int64_t line = group / groups_in_line, first = group % groups_in_line * lanes;
        Signals<const T> sources;
        Signals<T> targets;
        sources.count = targets.count = static_cast<int>(std::min<int64_t>(lanes, in_line - first));
        for (int v = 0; v < sources.count; ++v) {
          sources.lane[v] = in.Row(line * in_line + first + v);
          targets.lane[v] = out.Row(line * in_line + first + v);
        }
        in.Describe(pairs_, sources);
        out.Describe(pairs_, targets);
        WorkPlanes<T> work(scratch + worker * 4 * plane, plane);
        Planes<T> a = work.first, b = work.second;
        if (!to_real) {
          LoadLanes<T>(sources, size_, a);
        } else if (pairs_) {
          LoadLanes<T>(sources, bins_, b);
          JoinPairs<T>(b, size_, roots_.data(), a);
        } else {
          LoadLanes<T>(sources, bins_, a);
          std::fill(a.imag, a.imag + lanes, T(0));
          for (int64_t k = bins_; k < size_; ++k) {
            for (int v = 0; v < lanes; ++v) {
              a.real[k * lanes + v] = a.real[(size_ - k) * lanes + v];
              a.imag[k * lanes + v] = -a.imag[(size_ - k) * lanes + v];
            }
          }
        }
        Planes<T> result = RunIn(*lanes_, a, b, forward_);
        if (from_real && pairs_) {
          const bool in_first = result.real == a.real;
          SplitPairs<T>(result, size_, roots_.data(), in_first ? b : a);
          result = in_first ? b : a;
        }
        if (from_real && !pairs_) std::fill(result.imag, result.imag + lanes, T(0));
        StoreLanes<T>(result, to_real ? size_ : bins_, scale_, targets);
      });
}

template <class T>
void RowFft<T>::RunLong(const T* from, T* to, T* scratch) const {
  const int64_t rows = axis_.outer * axis_.inner, inner = axis_.inner;
  const bool from_real = kind_ == FftKind::kRealToComplex,
             to_real = kind_ == FftKind::kComplexToReal;
  const RowsOf<const T> in = {from, inner, from_real ? axis_.extent : bins_, !from_real};
  const RowsOf<T> out = {to, inner, to_real ? axis_.extent : bins_, !to_real};
  T* line = scratch;
  T* spectrum = line + Rounded<T>(2 * axis_.extent + 2);
  T* memory = spectrum + Rounded<T>(2 * axis_.extent + 2);
  // The elements of a row on the side of the transform of complex numbers, as they lie in memory.
  Signals<const T> source;
  Signals<T> target;
  in.Describe(pairs_, source);
  out.Describe(pairs_, target);
  const bool direct_in = source.pitch == 2 && source.imag == 1 && !to_real;
  const bool direct_out = target.pitch == 2 && target.imag == 1 && !from_real;
  for (int64_t row = 0; row < rows; ++row) {
    const T* x = in.Row(row);
    T* y = out.Row(row);
    if (!direct_in) {
      const int64_t count = to_real ? bins_ : size_;
      T* z = to_real && pairs_ ? spectrum : line;
      for (int64_t i = 0; i < count; ++i) {
        z[2 * i] = x[i * source.pitch];
        z[2 * i + 1] = source.imag ? x[i * source.pitch + source.imag] : 0;
      }
      if (to_real) {
        z[1] = 0;
        if (pairs_) {
          z[2 * size_ + 1] = 0;
          for (int64_t k = 0; k < size_; ++k) {
            const T *a = z + 2 * k, *b = z + 2 * (size_ - k);
            T odd[] = {a[0] - b[0], a[1] + b[1]};
            Multiply(odd, roots_[2 * k], -roots_[2 * k + 1]);
            line[2 * k] = a[0] + b[0] - odd[1];
            line[2 * k + 1] = a[1] - b[1] + odd[0];
          }
        } else {
          for (int64_t k = bins_; k < size_; ++k) {
            z[2 * k] = z[2 * (size_ - k)];
            z[2 * k + 1] = -z[2 * (size_ - k) + 1];
          }
        }
      }
    }
    T* result = direct_out ? y : spectrum;
    long_->Run(direct_in ? x : line, result, scale_, forward_, memory, workers_);
    if (from_real) {
      for (int64_t k = 0; k < bins_; ++k) {
        T z[] = {result[2 * k], result[2 * k + 1]};
        if (pairs_) {
          const T* a = result + 2 * (k == size_ ? 0 : k);
          const T* b = result + 2 * (k == 0 ? 0 : size_ - k);
          T odd[] = {(a[1] + b[1]) / 2, (b[0] - a[0]) / 2};
          Multiply(odd, roots_[2 * k], roots_[2 * k + 1]);
          z[0] = (a[0] + b[0]) / 2 + odd[0];
          z[1] = (a[1] - b[1]) / 2 + odd[1];
        }
        y[k * target.pitch] = z[0];
        y[k * target.pitch + 1] = k == 0 || (pairs_ && k == size_) ? 0 : z[1];
      }
    } else if (!direct_out) {
      for (int64_t i = 0; i < size_; ++i) {
        y[i * target.pitch] = result[2 * i];
        if (target.imag) y[i * target.pitch + target.imag] = result[2 * i + 1];
      }
    }
  }
}

template class LongFft<float>;
template class LongFft<double>;
template class RowFft<float>;
template class RowFft<double>;

}  // namespace hammock::cpu
