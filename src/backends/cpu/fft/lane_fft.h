#pragma once
/// Fourier transforms of several signals at once, one in each lane of the processor's vectors.
///
/// The elements of a transform lie in planes: real parts [size][lanes], imaginary parts the same.
/// Transforms go forward; one of exchanged planes goes backward. Sizes whose prime factors are
/// small are transformed factor by factor (Stockham's order), others as a convolution of a size
/// that is (Bluestein).

#include <cstdint>
#include <memory>
#include <vector>

namespace hammock::cpu {

/// As many as a vector of any processor has.
inline constexpr int kMostLanes = 16;

/// Signals in memory: element i of lane v has its real part at lane[v] + i * pitch, its imaginary
/// part at `imag` elements from there; imag == 0: there are none.
template <class T>
struct Signals {
  T* lane[kMostLanes];
  int count = 0;  ///< lanes that are used
  int64_t pitch = 2;
  int64_t imag = 1;
};

template <class T>
struct Planes {
  T* real;
  T* imag;
  Planes Exchanged() const { return {imag, real}; }
};

/// exp(-2 pi i step / size), the nearest T.
template <class T>
struct Root {
  T real, imag;
  Root(int64_t step, int64_t size);
};

/// Whether no prime factor of `size` is large.
bool HasSmallFactors(int64_t size);
/// The smallest such size that is at least `size`.
int64_t NextWithSmallFactors(int64_t size);

/// Immutable.
template <class T>
class LaneFft {
 public:
  explicit LaneFft(int64_t size);
  /// One for each size and process, as long as it is used.
  static std::shared_ptr<const LaneFft> Of(int64_t size);

  static int lanes();
  int64_t size() const { return size_; }
  /// Elements of a plane that a transform needs: at least `size` for each lane.
  int64_t plane() const { return plane_; }
  /// Transforms `from`, using the planes of `other`; returns where the result is.
  Planes<T> Run(Planes<T> from, Planes<T> other) const;

  /// One step: `radix` parts that are multiplied by roots, which the others then see as more lanes.
  struct Pass {
    int radix;
    int64_t rest;          ///< the product of the factors that are still to come
    int64_t stride;        ///< the product of those before
    std::vector<T> roots;  ///< (radix - 1) pairs for each of `rest`
    std::vector<T> waves;  ///< of other radices than 2, 3, 4, 5 and 8: cosines, then sines
  };

 private:
  void Plan(int64_t size);
  Planes<T> RunPasses(Planes<T> from, Planes<T> other) const;

  int64_t size_;
  int64_t plane_;
  std::vector<Pass> passes_;
  // Bluestein's: exp(-i pi k^2 / size), and the transform of its conjugate over the length of it.
  int64_t length_ = 0;
  std::vector<T> chirp_, spectrum_;
};

/// The first `size` elements of `signals` in planes; unused lanes have any values.
template <class T>
void LoadLanes(const Signals<const T>& signals, int64_t size, Planes<T> planes);
/// The reverse, times `scale`.
template <class T>
void StoreLanes(Planes<T> planes, int64_t size, T scale, const Signals<T>& signals);
/// planes[k][v] *= lane_roots[k][v] * row_roots[k]: pairs of vectors, and pairs of numbers.
template <class T>
void RotateLanes(Planes<T> planes, int64_t count, const T* lane_roots, const T* row_roots);

/// The spectrum of 2 * half real numbers from that of pairs of them; `roots` are pairs of
/// exp(-2 pi i k / (2 half)) for k up to half. `to` has half + 1 elements.
template <class T>
void SplitPairs(Planes<T> from, int64_t half, const T* roots, Planes<T> to);
/// The reverse, times two: `from` has half + 1 elements.
template <class T>
void JoinPairs(Planes<T> from, int64_t half, const T* roots, Planes<T> to);

}  // namespace hammock::cpu
