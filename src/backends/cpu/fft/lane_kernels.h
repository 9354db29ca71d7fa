#pragma once
/// The vector code of LaneFft: one set of functions for each kind of processor.

#include "backends/cpu/fft/lane_fft.h"

namespace hammock::cpu {

/// The largest prime factor that a pass has; larger ones are transformed as convolutions.
inline constexpr int kMostRadix = 31;

template <class T>
struct LaneKernels {
  int lanes;
  void (*pass)(const typename LaneFft<T>::Pass&, Planes<T>, Planes<T>);
  void (*load)(const Signals<const T>&, int64_t, Planes<T>);
  void (*store)(Planes<T>, int64_t, T, const Signals<T>&);
  void (*rotate)(Planes<T>, int64_t, const T*, const T*);
  void (*multiply)(Planes<T>, int64_t, int64_t, const T*);
  void (*split)(Planes<T>, int64_t, const T*, Planes<T>);
  void (*join)(Planes<T>, int64_t, const T*, Planes<T>);
};

/// The functions for this processor, for float and double.
template <class T>
const LaneKernels<T>& LaneKernelsHere();

}  // namespace hammock::cpu
