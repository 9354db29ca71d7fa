// Fourier transforms by their definition, over the prime factors of the size. Wider numbers than
// those of the elements keep the results right to the last bits.

#include <cmath>
#include <complex>
#include <numbers>

#include "backends/reference/elements.h"
#include "backends/reference/kernel.h"
#include "ir/primitives.h"

namespace hammock::reference {
namespace {

int64_t SmallestFactor(int64_t n) {
  for (int64_t p = 2; p * p <= n; ++p) {
    if (n % p == 0) return p;
  }
  return n;
}

/// The transform of one size, in numbers of T.
template <class T>
class Transform {
 public:
  using Number = std::complex<T>;

  Transform(int64_t size, bool forward) : roots_(size) {
    const T turn = (forward ? -2 : 2) * std::numbers::pi_v<T> / static_cast<T>(size);
    for (int64_t i = 0; i < size; ++i) {
      // Angles of at most half a turn are the most exact.
      const T steps = static_cast<T>(2 * i > size ? i - size : i);
      roots_[i] = {std::cos(turn * steps), std::sin(turn * steps)};
    }
  }

  std::vector<Number> operator()(const std::vector<Number>& signal) const {
    std::vector<Number> result(signal.size());
    if (!signal.empty()) Run(signal.data(), 1, static_cast<int64_t>(signal.size()), result.data());
    return result;
  }

 private:
  /// Of signal[0], signal[step], ...: the transforms of every p-th element, joined.
  void Run(const Number* signal, int64_t step, int64_t size, Number* result) const {
    if (size == 1) {
      result[0] = signal[0];
      return;
    }
    const int64_t p = SmallestFactor(size), part = size / p;
    for (int64_t r = 0; r < p; ++r) Run(signal + r * step, step * p, part, result + r * part);
    const std::vector<Number> parts(result, result + size);
    const int64_t all = static_cast<int64_t>(roots_.size());
    for (int64_t k = 0; k < size; ++k) {
      Number sum = 0;
      for (int64_t r = 0; r < p; ++r) {
        sum += parts[r * part + k % part] * roots_[r * k % size * (all / size)];
      }
      result[k] = sum;
    }
  }

  std::vector<Number> roots_;
};

template <class T>
T ScaleOf(int64_t normalization, int64_t size) {
  if (normalization == 0) return 1;
  const T count = static_cast<T>(size);
  return 1 / (normalization == 1 ? std::sqrt(count) : count);
}

/// out = row(in), for every row along a dim. Both may be the same memory.
template <class In, class Out, class F>
void ForEachRow(const In* in, const Axis& from, Out* out, const Axis& to, F&& row) {
  std::vector<In> values(from.extent);
  for (int64_t outer = 0; outer < from.outer; ++outer) {
    for (int64_t inner = 0; inner < from.inner; ++inner) {
      for (int64_t i = 0; i < from.extent; ++i) {
        values[i] = in[(outer * from.extent + i) * from.inner + inner];
      }
      const std::vector<Out> results = row(values);
      for (int64_t i = 0; i < to.extent; ++i) {
        out[(outer * to.extent + i) * to.inner + inner] = results[i];
      }
    }
  }
}

template <class Element, class T>
std::vector<std::complex<T>> Widened(const std::vector<Element>& values) {
  return {values.begin(), values.end()};
}

/// Elements are E or pairs of E; computed in T.
template <class E, class T>
void RunC2C(KernelCall& call) {
  using Element = std::complex<E>;
  HostTensor& out = call.NewResult();
  const Element* in = static_cast<const Element*>(call.in[0]->data());
  Element* result = static_cast<Element*>(out.mutable_data());
  std::copy(in, in + out.numel(), result);
  for (int64_t dim : call.node.attrs[0].ints()) {
    Axis axis(out.shape().sizes(), static_cast<int>(dim));
    const Transform<T> transform(axis.extent, call.node.attrs[2].boolean());
    const T scale = ScaleOf<T>(call.node.attrs[1].integer(), axis.extent);
    ForEachRow(result, axis, result, axis, [&](const std::vector<Element>& row) {
      std::vector<Element> rounded;
      for (auto z : transform(Widened<Element, T>(row))) rounded.emplace_back(z * scale);
      return rounded;
    });
  }
}

template <class E, class T>
void RunR2C(KernelCall& call) {
  HostTensor& out = call.NewResult();
  const int dim = static_cast<int>(call.node.attrs[0].integer());
  Axis from(call.in[0]->shape().sizes(), dim), to(out.shape().sizes(), dim);
  const Transform<T> transform(from.extent, true);
  const T scale = ScaleOf<T>(call.node.attrs[1].integer(), from.extent);
  ForEachRow(static_cast<const E*>(call.in[0]->data()), from,
             static_cast<std::complex<E>*>(out.mutable_data()), to, [&](const std::vector<E>& row) {
               std::vector<std::complex<T>> all = transform(Widened<E, T>(row));
               all.resize(to.extent);
               std::vector<std::complex<E>> rounded;
               for (auto z : all) rounded.emplace_back(z * scale);
               return rounded;
             });
}

template <class E, class T>
void RunC2R(KernelCall& call) {
  using Element = std::complex<E>;
  HostTensor& out = call.NewResult();
  const int dim = static_cast<int>(call.node.attrs[0].integer());
  Axis from(call.in[0]->shape().sizes(), dim), to(out.shape().sizes(), dim);
  const int64_t size = to.extent;
  const Transform<T> transform(size, false);
  const T scale = ScaleOf<T>(call.node.attrs[1].integer(), size);
  ForEachRow(static_cast<const Element*>(call.in[0]->data()), from,
             static_cast<E*>(out.mutable_data()), to, [&](const std::vector<Element>& row) {
               std::vector<std::complex<T>> all(size);
               for (int64_t k = 0; k < from.extent; ++k) {
                 const std::complex<T> z = row[k];
                 const int64_t mirrored = (size - k) % size;
                 all[k] = mirrored == k ? std::complex<T>(z.real()) : z;
                 all[mirrored] = std::conj(all[k]);
               }
               std::vector<E> rounded;
               for (auto z : transform(all)) rounded.push_back(static_cast<E>(z.real() * scale));
               return rounded;
             });
}

/// By the dtype of the operand.
template <auto kSingle, auto kDouble>
void RunOn(KernelCall& call) {
  (RealOf(call.in[0]->dtype()) == DType::kF32 ? kSingle : kDouble)(call);
}

constexpr KernelEntry kKernels[] = {
    {&ops::kFftC2C, RunOn<RunC2C<float, double>, RunC2C<double, long double>>},
    {&ops::kFftR2C, RunOn<RunR2C<float, double>, RunR2C<double, long double>>},
    {&ops::kFftC2R, RunOn<RunC2R<float, double>, RunC2R<double, long double>>},
};

}  // namespace

std::span<const KernelEntry> FftKernels() { return kKernels; }

}  // namespace hammock::reference
