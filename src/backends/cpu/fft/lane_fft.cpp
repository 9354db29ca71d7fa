#include "backends/cpu/fft/lane_fft.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <numbers>
#include <type_traits>
#include <utility>

#include "backends/cpu/fft/lane_kernels.h"
#include "base/never_destroyed.h"

namespace hammock::cpu {
namespace {

/// The radices of a size whose factors are small, large ones first.
std::vector<int> RadicesOf(int64_t size) {
  std::vector<int> radices;
  for (int radix = kMostRadix; radix > 5; --radix) {
    while (radix % 2 != 0 && size % radix == 0) {
      radices.push_back(radix);
      size /= radix;
    }
  }
  for (int radix : {8, 5, 4, 3, 2}) {
    // Two fours instead of an eight and a two.
    while (size % radix == 0 && !(radix == 8 && size % 16 == 0 && size % 32 != 0)) {
      radices.push_back(radix);
      size /= radix;
    }
  }
  return radices;
}

}  // namespace

template <class T>
Root<T>::Root(int64_t step, int64_t size) {
  using Wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;
  // Angles of at most an eighth of a turn are the most exact.
  step %= size;
  const bool mirrored = 2 * step > size;
  if (mirrored) step = size - step;
  const bool back = 4 * step > size;
  const __int128 quarter = back ? size - 2 * __int128{step} : 2 * __int128{step};  // in 1 / 2 size
  const bool steep = 4 * quarter > size;
  const Wide angle = std::numbers::pi_v<Wide> *
                     static_cast<Wide>(steep ? size - 2 * quarter : 2 * quarter) /
                     (2 * static_cast<Wide>(size));
  Wide cosine = steep ? std::sin(angle) : std::cos(angle);
  Wide sine = steep ? std::cos(angle) : std::sin(angle);
  real = static_cast<T>(back ? -cosine : cosine);
  imag = static_cast<T>(mirrored ? sine : -sine);
}

bool HasSmallFactors(int64_t size) {
  for (int radix = 2; radix <= kMostRadix; ++radix) {
    while (size % radix == 0) size /= radix;
  }
  return size == 1;
}

int64_t NextWithSmallFactors(int64_t size) {
  int64_t best = std::numeric_limits<int64_t>::max();
  for (int64_t fives = 1; fives < 5 * size; fives *= 5) {
    for (int64_t threes = fives; threes < 3 * size; threes *= 3) {
      int64_t product = threes;
      while (product < size) product *= 2;
      best = std::min(best, product);
    }
  }
  return best;
}

template <class T>
int LaneFft<T>::lanes() {
  return LaneKernelsHere<T>().lanes;
}

template <class T>
LaneFft<T>::LaneFft(int64_t size) : size_(size) {
  if (HasSmallFactors(size)) {
    Plan(size);
  } else {
    length_ = NextWithSmallFactors(2 * size - 1);
    Plan(length_);
    // k^2 / 2 turns of the size, in steps of half of one.
    for (int64_t k = 0; k < size; ++k) {
      const Root<T> root(static_cast<int64_t>(__int128{k} * k % (2 * size)), 2 * size);
      chirp_.insert(chirp_.end(), {root.real, root.imag});
    }
    const int count = lanes();
    std::vector<T> planes(static_cast<size_t>(4 * length_ * count + 64));
    T* begin = planes.data();
    while (reinterpret_cast<uintptr_t>(begin) % 64 != 0) ++begin;
    const int64_t plane = length_ * count;
    Planes<T> from = {begin, begin + plane}, other = {begin + 2 * plane, begin + 3 * plane};
    for (int64_t k = 0; k < size; ++k) {
      for (int64_t at : {k, (length_ - k) % length_}) {
        from.real[at * count] = chirp_[2 * k];
        from.imag[at * count] = -chirp_[2 * k + 1];
      }
    }
    const Planes<T> spectrum = RunPasses(from, other);
    for (int64_t k = 0; k < length_; ++k) {
      for (T part : {spectrum.real[k * count], spectrum.imag[k * count]}) {
        spectrum_.push_back(part / static_cast<T>(length_));
      }
    }
  }
  plane_ = std::max(size, length_) * lanes();
}

template <class T>
std::shared_ptr<const LaneFft<T>> LaneFft<T>::Of(int64_t size) {
  struct Known {
    std::mutex mutex;
    std::map<int64_t, std::weak_ptr<const LaneFft>> plans;
  };
  static auto& known = NeverDestroyed<Known>();
  std::lock_guard lock(known.mutex);
  std::erase_if(known.plans, [](const auto& entry) { return entry.second.expired(); });
  auto& entry = known.plans[size];
  if (auto plan = entry.lock()) return plan;
  auto plan = std::make_shared<const LaneFft>(size);
  entry = plan;
  return plan;
}

template <class T>
void LaneFft<T>::Plan(int64_t size) {
  int64_t left = size, stride = 1;
  for (int radix : RadicesOf(size)) {
    Pass pass = {radix, left / radix, stride, {}, {}};
    for (int64_t p = 0; p < pass.rest; ++p) {
      for (int j = 1; j < radix; ++j) {
        const Root<T> root(p * j, left);
        pass.roots.insert(pass.roots.end(), {root.real, root.imag});
      }
    }
    if (radix > 5 && radix != 8) {
      for (int k = 0; k < radix; ++k) pass.waves.push_back(Root<T>(k, radix).real);
      for (int k = 0; k < radix; ++k) pass.waves.push_back(-Root<T>(k, radix).imag);
    }
    left /= radix;
    stride *= radix;
    passes_.push_back(std::move(pass));
  }
}

template <class T>
Planes<T> LaneFft<T>::RunPasses(Planes<T> from, Planes<T> other) const {
  const auto run = LaneKernelsHere<T>().pass;
  for (const Pass& pass : passes_) {
    run(pass, from, other);
    std::swap(from, other);
  }
  return from;
}

template <class T>
Planes<T> LaneFft<T>::Run(Planes<T> from, Planes<T> other) const {
  if (length_ == 0) return RunPasses(from, other);
  const auto multiply = LaneKernelsHere<T>().multiply;
  multiply(from, size_, length_, chirp_.data());
  Planes<T> product = RunPasses(from, other);
  multiply(product, length_, length_, spectrum_.data());
  Planes<T> free = product.real == from.real ? other : from;
  Planes<T> result = RunPasses(product.Exchanged(), free.Exchanged()).Exchanged();
  multiply(result, size_, size_, chirp_.data());
  return result;
}

template <class T>
void LoadLanes(const Signals<const T>& signals, int64_t size, Planes<T> planes) {
  LaneKernelsHere<T>().load(signals, size, planes);
}
template <class T>
void StoreLanes(Planes<T> planes, int64_t size, T scale, const Signals<T>& signals) {
  LaneKernelsHere<T>().store(planes, size, scale, signals);
}
template <class T>
void RotateLanes(Planes<T> planes, int64_t count, const T* lane_roots, const T* row_roots) {
  LaneKernelsHere<T>().rotate(planes, count, lane_roots, row_roots);
}
template <class T>
void SplitPairs(Planes<T> from, int64_t half, const T* roots, Planes<T> to) {
  LaneKernelsHere<T>().split(from, half, roots, to);
}
template <class T>
void JoinPairs(Planes<T> from, int64_t half, const T* roots, Planes<T> to) {
  LaneKernelsHere<T>().join(from, half, roots, to);
}

#define HAMMOCK_INSTANTIATE(T)                                             \
  template struct Root<T>;                                                 \
  template class LaneFft<T>;                                               \
  template void LoadLanes<T>(const Signals<const T>&, int64_t, Planes<T>); \
  template void StoreLanes<T>(Planes<T>, int64_t, T, const Signals<T>&);   \
  template void RotateLanes<T>(Planes<T>, int64_t, const T*, const T*);    \
  template void SplitPairs<T>(Planes<T>, int64_t, const T*, Planes<T>);    \
  template void JoinPairs<T>(Planes<T>, int64_t, const T*, Planes<T>);
HAMMOCK_INSTANTIATE(float)
HAMMOCK_INSTANTIATE(double)
#undef HAMMOCK_INSTANTIATE

}  // namespace hammock::cpu
