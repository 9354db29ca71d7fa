#include "backends/cpu/fft/lane_kernels.h"

#include <numbers>
#include <string_view>
#include <utility>

#include "backends/cpu/host/cpu_features.h"

namespace hammock::cpu {
namespace {

// One body for all processors: it is inlined into functions that are compiled for one of them.
#define HAMMOCK_BODY [[gnu::always_inline]] inline
#define HAMMOCK_INLINE __attribute__((always_inline))

template <class T, int kBytes>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kBytes)));
  typedef T Loose __attribute__((vector_size(kBytes), aligned(alignof(T)), may_alias));
  static constexpr int kLanes = kBytes / sizeof(T);
};

// ---- Butterflies: complex vectors, in place

template <class V>
struct Complex {
  V re, im;
};

template <class V>
HAMMOCK_BODY Complex<V> operator+(const Complex<V>& a, const Complex<V>& b) {
  return {a.re + b.re, a.im + b.im};
}
template <class V>
HAMMOCK_BODY Complex<V> operator-(const Complex<V>& a, const Complex<V>& b) {
  return {a.re - b.re, a.im - b.im};
}
/// -i z
template <class V>
HAMMOCK_BODY Complex<V> TimesMinusI(const Complex<V>& z) {
  return {z.im, -z.re};
}
template <class V, class T>
HAMMOCK_BODY Complex<V> Times(const Complex<V>& z, T factor) {
  return {z.re * factor, z.im * factor};
}

template <class V>
HAMMOCK_BODY void Butterfly4(Complex<V>& a, Complex<V>& b, Complex<V>& c, Complex<V>& d) {
  const Complex<V> ac = a + c, a_c = a - c, bd = b + d, b_d = TimesMinusI(b - d);
  a = ac + bd;
  b = a_c + b_d;
  c = ac - bd;
  d = a_c - b_d;
}

template <class T, class V, int kRadix>
HAMMOCK_BODY void Butterfly(Complex<V> (&x)[kRadix]) {
  if constexpr (kRadix == 2) {
    const Complex<V> a = x[0];
    x[0] = a + x[1];
    x[1] = a - x[1];
  } else if constexpr (kRadix == 3) {
    constexpr T kSine = std::numbers::sqrt3_v<T> / 2;
    const Complex<V> sum = x[1] + x[2], rotated = Times(TimesMinusI(x[1] - x[2]), kSine);
    const Complex<V> middle = x[0] - Times(sum, T(0.5));
    x[0] = x[0] + sum;
    x[1] = middle + rotated;
    x[2] = middle - rotated;
  } else if constexpr (kRadix == 4) {
    Butterfly4(x[0], x[1], x[2], x[3]);
  } else if constexpr (kRadix == 5) {
    constexpr T kCos1 = static_cast<T>(0.30901699437494742410229341718281906L);
    constexpr T kCos2 = static_cast<T>(-0.80901699437494742410229341718281906L);
    constexpr T kSin1 = static_cast<T>(0.95105651629515357211643933337938214L);
    constexpr T kSin2 = static_cast<T>(0.58778525229247312916870595463907277L);
    const Complex<V> sum1 = x[1] + x[4], sum2 = x[2] + x[3];
    const Complex<V> dif1 = TimesMinusI(x[1] - x[4]), dif2 = TimesMinusI(x[2] - x[3]);
    const Complex<V> even1 = x[0] + Times(sum1, kCos1) + Times(sum2, kCos2);
    const Complex<V> even2 = x[0] + Times(sum1, kCos2) + Times(sum2, kCos1);
    const Complex<V> odd1 = Times(dif1, kSin1) + Times(dif2, kSin2);
    const Complex<V> odd2 = Times(dif1, kSin2) - Times(dif2, kSin1);
    x[0] = x[0] + sum1 + sum2;
    x[1] = even1 + odd1;
    x[4] = even1 - odd1;
    x[2] = even2 + odd2;
    x[3] = even2 - odd2;
  } else {
    static_assert(kRadix == 8);
    constexpr T kHalfRoot = std::numbers::sqrt2_v<T> / 2;
    Butterfly4(x[0], x[2], x[4], x[6]);
    Butterfly4(x[1], x[3], x[5], x[7]);
    const Complex<V> e0 = x[0], e1 = x[2], e2 = x[4], e3 = x[6];
    const Complex<V> o0 = x[1], o2 = TimesMinusI(x[5]);
    const Complex<V> o1 = Times(x[3] + TimesMinusI(x[3]), kHalfRoot);
    const Complex<V> o3 = Times(TimesMinusI(x[7]) - x[7], kHalfRoot);
    x[0] = e0 + o0;
    x[4] = e0 - o0;
    x[1] = e1 + o1;
    x[5] = e1 - o1;
    x[2] = e2 + o2;
    x[6] = e2 - o2;
    x[3] = e3 + o3;
    x[7] = e3 - o3;
  }
}

template <class V, class T>
HAMMOCK_BODY Complex<V> Rotated(const Complex<V>& z, const T* root) {
  return {z.re * root[0] - z.im * root[1], z.re * root[1] + z.im * root[0]};
}

template <class T, int kBytes, int kRadix, bool kRotates>
HAMMOCK_BODY void RunRadix(const typename LaneFft<T>::Pass& pass, Planes<T> from, Planes<T> to) {
  using V = typename VectorOf<T, kBytes>::Type;
  const V* in_re = reinterpret_cast<const V*>(from.real);
  const V* in_im = reinterpret_cast<const V*>(from.imag);
  V* out_re = reinterpret_cast<V*>(to.real);
  V* out_im = reinterpret_cast<V*>(to.imag);
  const int64_t rest = pass.rest, stride = pass.stride;
  for (int64_t p = 0; p < rest; ++p) {
    const T* roots = pass.roots.data() + p * 2 * (kRadix - 1);
    for (int64_t q = 0; q < stride; ++q) {
      Complex<V> x[kRadix];
#pragma GCC unroll 8
      for (int j = 0; j < kRadix; ++j) {
        const int64_t at = q + stride * (p + rest * j);
        x[j] = {in_re[at], in_im[at]};
      }
      Butterfly<T, V, kRadix>(x);
      const int64_t at = q + stride * kRadix * p;
      out_re[at] = x[0].re;
      out_im[at] = x[0].im;
#pragma GCC unroll 8
      for (int j = 1; j < kRadix; ++j) {
        if constexpr (kRotates) x[j] = Rotated(x[j], roots + 2 * (j - 1));
        out_re[at + stride * j] = x[j].re;
        out_im[at + stride * j] = x[j].im;
      }
    }
  }
}

/// Any odd radix, by sums and differences of elements that are as far from both ends.
template <class T, int kBytes>
HAMMOCK_BODY void RunOddRadix(const typename LaneFft<T>::Pass& pass, Planes<T> from, Planes<T> to) {
  using V = typename VectorOf<T, kBytes>::Type;
  const V* in_re = reinterpret_cast<const V*>(from.real);
  const V* in_im = reinterpret_cast<const V*>(from.imag);
  V* out_re = reinterpret_cast<V*>(to.real);
  V* out_im = reinterpret_cast<V*>(to.imag);
  const int radix = pass.radix, half = radix / 2;
  const T* cosines = pass.waves.data();
  const T* sines = cosines + radix;
  const int64_t rest = pass.rest, stride = pass.stride;
  for (int64_t p = 0; p < rest; ++p) {
    const T* roots = pass.roots.data() + p * 2 * (radix - 1);
    for (int64_t q = 0; q < stride; ++q) {
      Complex<V> sum[kMostRadix / 2], dif[kMostRadix / 2];
      auto in = [&](int j) HAMMOCK_INLINE -> Complex<V> {
        const int64_t at = q + stride * (p + rest * j);
        return {in_re[at], in_im[at]};
      };
      auto out = [&](int j, Complex<V> z) HAMMOCK_INLINE {
        if (j > 0) z = Rotated(z, roots + 2 * (j - 1));
        const int64_t at = q + stride * (radix * p + j);
        out_re[at] = z.re;
        out_im[at] = z.im;
      };
      const Complex<V> first = in(0);
      Complex<V> all = first;
      for (int j = 0; j < half; ++j) {
        const Complex<V> a = in(j + 1), b = in(radix - 1 - j);
        sum[j] = a + b;
        dif[j] = TimesMinusI(a - b);
        all = all + sum[j];
      }
      out(0, all);
      for (int k = 1; k <= half; ++k) {
        Complex<V> even = first, odd = {};
        for (int j = 0, at = 0; j < half; ++j) {
          at += k;
          if (at >= radix) at -= radix;
          even = even + Times(sum[j], cosines[at]);
          odd = odd + Times(dif[j], sines[at]);
        }
        out(k, even + odd);
        out(radix - k, even - odd);
      }
    }
  }
}

template <class T, int kBytes, int kRadix>
HAMMOCK_BODY void RunRadix(const typename LaneFft<T>::Pass& pass, Planes<T> from, Planes<T> to) {
  if (pass.rest == 1) {
    RunRadix<T, kBytes, kRadix, false>(pass, from, to);
  } else {
    RunRadix<T, kBytes, kRadix, true>(pass, from, to);
  }
}

// ---- Between memory and planes

/// The elements of two vectors in a row of which `kIndex(i)` says the positions.
template <auto kIndex, class V, int... I>
HAMMOCK_BODY V Shuffled(const V& a, const V& b, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, kIndex(I)...);
}
template <auto kIndex, class V>
HAMMOCK_BODY V Shuffled(const V& a, const V& b) {
  constexpr int kLanes = sizeof(V) / sizeof(a[0]);
  return Shuffled<kIndex>(a, b, std::make_integer_sequence<int, kLanes>());
}

/// Exchanges rows[i][j] and rows[j][i], for one binary digit of i and j after the other.
template <int kLanes, int kStep, class V>
HAMMOCK_BODY void Transpose(V* rows) {
  constexpr auto kLow = [](int k) { return k & kStep ? kLanes + k - kStep : k; };
  constexpr auto kHigh = [](int k) { return k & kStep ? kLanes + k : k + kStep; };
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    if (i & kStep) continue;
    const V a = rows[i], b = rows[i + kStep];
    rows[i] = Shuffled<kLow>(a, b);
    rows[i + kStep] = Shuffled<kHigh>(a, b);
  }
  if constexpr (kStep * 2 < kLanes) Transpose<kLanes, kStep * 2>(rows);
}

/// Complex numbers in memory as two vectors, and as their parts.
template <int kLanes, class V>
HAMMOCK_BODY Complex<V> PartsOf(const V& a, const V& b) {
  return {Shuffled<[](int k) { return 2 * k; }>(a, b),
          Shuffled<[](int k) { return 2 * k + 1; }>(a, b)};
}
template <int kLanes, class V>
HAMMOCK_BODY std::pair<V, V> JoinedParts(const V& re, const V& im) {
  return {Shuffled<[](int k) { return k / 2 + (k & 1) * kLanes; }>(re, im),
          Shuffled<[](int k) { return k / 2 + kLanes / 2 + (k & 1) * kLanes; }>(re, im)};
}

/// Where all lanes lie one after the other in memory, `step` elements apart.
template <class T>
bool AreAdjacent(const Signals<T>& signals, int lanes, int64_t step) {
  if (signals.count != lanes) return false;
  for (int v = 1; v < lanes; ++v) {
    if (signals.lane[v] != signals.lane[0] + v * step) return false;
  }
  return true;
}

template <class T, int kBytes>
HAMMOCK_BODY void Load(const Signals<const T>& signals, int64_t size, Planes<T> planes) {
  using Traits = VectorOf<T, kBytes>;
  using V = typename Traits::Type;
  using Loose = typename Traits::Loose;
  constexpr int kLanes = Traits::kLanes;
  V* re = reinterpret_cast<V*>(planes.real);
  V* im = reinterpret_cast<V*>(planes.imag);
  const int64_t pitch = signals.pitch;
  auto at = [](const T* from) HAMMOCK_INLINE { return V(*reinterpret_cast<const Loose*>(from)); };
  int64_t i = 0;
  if (signals.imag == 1 && AreAdjacent(signals, kLanes, 2)) {
    for (; i < size; ++i) {
      const T* from = signals.lane[0] + i * pitch;
      const Complex<V> z = PartsOf<kLanes>(at(from), at(from + kLanes));
      re[i] = z.re;
      im[i] = z.im;
    }
    return;
  }
  if (AreAdjacent(signals, kLanes, 1)) {
    for (; i < size; ++i) {
      const T* from = signals.lane[0] + i * pitch;
      re[i] = at(from);
      im[i] = signals.imag ? at(from + signals.imag) : V{};
    }
    return;
  }
  if (signals.imag == 1 && pitch == 2) {
    for (; i + kLanes <= size; i += kLanes) {
      V rows_re[kLanes], rows_im[kLanes];
#pragma GCC unroll 16
      for (int v = 0; v < kLanes; ++v) {
        const T* from = signals.lane[v < signals.count ? v : 0] + i * 2;
        const Complex<V> z = PartsOf<kLanes>(at(from), at(from + kLanes));
        rows_re[v] = z.re;
        rows_im[v] = z.im;
      }
      Transpose<kLanes, 1>(rows_re);
      Transpose<kLanes, 1>(rows_im);
#pragma GCC unroll 16
      for (int v = 0; v < kLanes; ++v) {
        re[i + v] = rows_re[v];
        im[i + v] = rows_im[v];
      }
    }
  }
  for (; i < size; ++i) {
    V real = {}, imag = {};
    for (int v = 0; v < signals.count; ++v) {
      const T* from = signals.lane[v] + i * pitch;
      real[v] = from[0];
      if (signals.imag) imag[v] = from[signals.imag];
    }
    re[i] = real;
    im[i] = imag;
  }
}

template <class T, int kBytes>
HAMMOCK_BODY void Store(Planes<T> planes, int64_t size, T scale, const Signals<T>& signals) {
  using Traits = VectorOf<T, kBytes>;
  using V = typename Traits::Type;
  using Loose = typename Traits::Loose;
  constexpr int kLanes = Traits::kLanes;
  const V* re = reinterpret_cast<const V*>(planes.real);
  const V* im = reinterpret_cast<const V*>(planes.imag);
  const int64_t pitch = signals.pitch;
  auto put = [](T* to, const V& value) HAMMOCK_INLINE { *reinterpret_cast<Loose*>(to) = value; };
  int64_t i = 0;
  if (signals.imag == 1 && AreAdjacent(signals, kLanes, 2)) {
    for (; i < size; ++i) {
      T* to = signals.lane[0] + i * pitch;
      const auto [low, high] = JoinedParts<kLanes>(V(re[i] * scale), V(im[i] * scale));
      put(to, low);
      put(to + kLanes, high);
    }
    return;
  }
  if (AreAdjacent(signals, kLanes, 1)) {
    for (; i < size; ++i) {
      T* to = signals.lane[0] + i * pitch;
      put(to, re[i] * scale);
      if (signals.imag) put(to + signals.imag, im[i] * scale);
    }
    return;
  }
  if (signals.imag == 1 && pitch == 2) {
    for (; i + kLanes <= size; i += kLanes) {
      V rows_re[kLanes], rows_im[kLanes];
#pragma GCC unroll 16
      for (int v = 0; v < kLanes; ++v) {
        rows_re[v] = re[i + v] * scale;
        rows_im[v] = im[i + v] * scale;
      }
      Transpose<kLanes, 1>(rows_re);
      Transpose<kLanes, 1>(rows_im);
#pragma GCC unroll 16
      for (int v = 0; v < kLanes; ++v) {
        if (v >= signals.count) break;
        T* to = signals.lane[v] + i * 2;
        const auto [low, high] = JoinedParts<kLanes>(rows_re[v], rows_im[v]);
        put(to, low);
        put(to + kLanes, high);
      }
    }
  }
  for (; i < size; ++i) {
    const V real = re[i] * scale, imag = im[i] * scale;
    for (int v = 0; v < signals.count; ++v) {
      T* to = signals.lane[v] + i * pitch;
      to[0] = real[v];
      if (signals.imag) to[signals.imag] = imag[v];
    }
  }
}

template <class T, int kBytes>
HAMMOCK_BODY void Rotate(Planes<T> planes, int64_t count, const T* lane_roots, const T* row_roots) {
  using V = typename VectorOf<T, kBytes>::Type;
  V* re = reinterpret_cast<V*>(planes.real);
  V* im = reinterpret_cast<V*>(planes.imag);
  const V* lanes = reinterpret_cast<const V*>(lane_roots);
  for (int64_t k = 0; k < count; ++k) {
    const Complex<V> root = Rotated(Complex<V>{lanes[2 * k], lanes[2 * k + 1]}, row_roots + 2 * k);
    const V real = re[k], imag = im[k];
    re[k] = real * root.re - imag * root.im;
    im[k] = real * root.im + imag * root.re;
  }
}

/// planes[k] times the k-th of `numbers`; from `count` on up to `size` zeros.
template <class T, int kBytes>
HAMMOCK_BODY void Multiply(Planes<T> planes, int64_t count, int64_t size, const T* numbers) {
  using V = typename VectorOf<T, kBytes>::Type;
  V* re = reinterpret_cast<V*>(planes.real);
  V* im = reinterpret_cast<V*>(planes.imag);
  for (int64_t k = 0; k < count; ++k) {
    const Complex<V> z = Rotated(Complex<V>{re[k], im[k]}, numbers + 2 * k);
    re[k] = z.re;
    im[k] = z.im;
  }
  for (int64_t k = count; k < size; ++k) re[k] = im[k] = V{};
}

/// With E and O the spectra of even and odd elements, pairs have Z = E + i O, and the whole is
/// E + root O.
template <class T, int kBytes>
HAMMOCK_BODY void Split(Planes<T> from, int64_t half, const T* roots, Planes<T> to) {
  using V = typename VectorOf<T, kBytes>::Type;
  const V* re = reinterpret_cast<const V*>(from.real);
  const V* im = reinterpret_cast<const V*>(from.imag);
  V* out_re = reinterpret_cast<V*>(to.real);
  V* out_im = reinterpret_cast<V*>(to.imag);
  // E, O and the root at half - k are conjugates of those at k, the root's negated.
  for (int64_t k = 0; 2 * k <= half; ++k) {
    const int64_t b = k == 0 ? 0 : half - k;
    const Complex<V> even = {(re[k] + re[b]) * T(0.5), (im[k] - im[b]) * T(0.5)};
    const Complex<V> odd = {(im[k] + im[b]) * T(0.5), (re[b] - re[k]) * T(0.5)};
    const Complex<V> turned = Rotated(odd, roots + 2 * k);
    out_re[half - k] = even.re - turned.re;
    out_im[half - k] = k == 0 ? V{} : turned.im - even.im;
    out_re[k] = even.re + turned.re;
    out_im[k] = k == 0 ? V{} : even.im + turned.im;
  }
}

template <class T, int kBytes>
HAMMOCK_BODY void Join(Planes<T> from, int64_t half, const T* roots, Planes<T> to) {
  using V = typename VectorOf<T, kBytes>::Type;
  const V* re = reinterpret_cast<const V*>(from.real);
  const V* im = reinterpret_cast<const V*>(from.imag);
  V* out_re = reinterpret_cast<V*>(to.real);
  V* out_im = reinterpret_cast<V*>(to.imag);
  for (int64_t k = 0; 2 * k <= half; ++k) {
    const int64_t b = half - k;
    // The first and the last are real, whatever they are in memory.
    const V a_im = k == 0 ? V{} : im[k], b_im = k == 0 ? V{} : im[b];
    const Complex<V> even = {re[k] + re[b], a_im - b_im};
    const T conjugate[] = {roots[2 * k], -roots[2 * k + 1]};
    const Complex<V> odd = Rotated(Complex<V>{re[k] - re[b], a_im + b_im}, conjugate);
    if (k > 0) {
      out_re[b] = even.re + odd.im;
      out_im[b] = odd.re - even.im;
    }
    out_re[k] = even.re - odd.im;
    out_im[k] = even.im + odd.re;
  }
}
// ---- One set of functions for each kind of processor

constexpr int VectorBytes(std::string_view processor) {
  return processor == "Avx512" ? 64 : processor == "Avx2" ? 32 : 16;
}

#define HAMMOCK_LANES(Name, TARGET)                                                                \
  struct Name {                                                                                    \
    static constexpr int kBytes = VectorBytes(#Name);                                              \
    template <class T>                                                                             \
    TARGET static void RunPass(const typename LaneFft<T>::Pass& pass, Planes<T> from,              \
                               Planes<T> to) {                                                     \
      switch (pass.radix) {                                                                        \
        case 2:                                                                                    \
          return RunRadix<T, kBytes, 2>(pass, from, to);                                           \
        case 3:                                                                                    \
          return RunRadix<T, kBytes, 3>(pass, from, to);                                           \
        case 4:                                                                                    \
          return RunRadix<T, kBytes, 4>(pass, from, to);                                           \
        case 5:                                                                                    \
          return RunRadix<T, kBytes, 5>(pass, from, to);                                           \
        case 8:                                                                                    \
          return RunRadix<T, kBytes, 8>(pass, from, to);                                           \
        default:                                                                                   \
          return RunOddRadix<T, kBytes>(pass, from, to);                                           \
      }                                                                                            \
    }                                                                                              \
    template <class T>                                                                             \
    TARGET static void LoadAll(const Signals<const T>& signals, int64_t size, Planes<T> to) {      \
      Load<T, kBytes>(signals, size, to);                                                          \
    }                                                                                              \
    template <class T>                                                                             \
    TARGET static void StoreAll(Planes<T> from, int64_t size, T scale, const Signals<T>& to) {     \
      Store<T, kBytes>(from, size, scale, to);                                                     \
    }                                                                                              \
    template <class T>                                                                             \
    TARGET static void RotateAll(Planes<T> planes, int64_t count, const T* lanes, const T* rows) { \
      Rotate<T, kBytes>(planes, count, lanes, rows);                                               \
    }                                                                                              \
    template <class T>                                                                             \
    TARGET static void MultiplyAll(Planes<T> planes, int64_t count, int64_t size,                  \
                                   const T* numbers) {                                             \
      Multiply<T, kBytes>(planes, count, size, numbers);                                           \
    }                                                                                              \
    template <class T>                                                                             \
    TARGET static void SplitAll(Planes<T> from, int64_t half, const T* roots, Planes<T> to) {      \
      Split<T, kBytes>(from, half, roots, to);                                                     \
    }                                                                                              \
    template <class T>                                                                             \
    TARGET static void JoinAll(Planes<T> from, int64_t half, const T* roots, Planes<T> to) {       \
      Join<T, kBytes>(from, half, roots, to);                                                      \
    }                                                                                              \
    template <class T>                                                                             \
    static constexpr LaneKernels<T> kKernels = {static_cast<int>(kBytes / sizeof(T)),              \
                                                RunPass<T>,                                        \
                                                LoadAll<T>,                                        \
                                                StoreAll<T>,                                       \
                                                RotateAll<T>,                                      \
                                                MultiplyAll<T>,                                    \
                                                SplitAll<T>,                                       \
                                                JoinAll<T>};                                       \
  };
HAMMOCK_FOR_PROCESSORS(HAMMOCK_LANES)

}  // namespace

template <class T>
const LaneKernels<T>& LaneKernelsHere() {
  auto kernels = [](auto kind) { return &decltype(kind)::template kKernels<T>; };
  static const LaneKernels<T>* const chosen = HAMMOCK_VISIT_PROCESSOR(kernels);
  return *chosen;
}

template const LaneKernels<float>& LaneKernelsHere();
template const LaneKernels<double>& LaneKernelsHere();

}  // namespace hammock::cpu
