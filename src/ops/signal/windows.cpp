// Windows by their shapes, as torch.signal.windows has them; hann_window and others are in
// create.cpp.

#include <cmath>
#include <numbers>

#include "base/throw.h"
#include "hammock/ops/create.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/operators.h"
#include "hammock/ops/signal.h"
#include "hammock/ops/special.h"
#include "ops/kit/compose.h"
#include "ops/primitives/elementwise_kit.h"
#include "ops/primitives/families.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

/// `weights` maps positions 0, 1, ... to weights; computed in f64 and rounded once.
template <class F>
Tensor MakeWindow(const char* op, int64_t M, const WindowOptions& options, F&& weights) {
  const DType result = options.dtype.value_or(kDefaultFloat);
  if (!IsFloat(result)) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "{}: dtype {} is not floating", op, NameOf(result));
  }
  CheckSizes(op, {M});
  if (M <= 1) return ones({M}, result, options.device);
  return Casted(weights(arange(M, DType::kF64, options.device)), result);
}

/// The distance from the first to the last weight; a periodic window lacks its last one.
double SpanOf(int64_t M, bool sym) { return static_cast<double>(sym ? M - 1 : M); }

Tensor CosineSum(const char* op, int64_t M, const std::vector<double>& a,
                 const WindowOptions& options) {
  if (a.empty()) Throw(ErrorCode::kValue, "{}: needs at least one coefficient", op);
  return MakeWindow(op, M, options, [&](const Tensor& k) {
    const double turn = 2 * std::numbers::pi / SpanOf(M, options.sym);
    Tensor sum = ConstantLike(a[0], k);
    for (size_t i = 1; i < a.size(); ++i) {
      Tensor wave = cos(k * ConstantLike(turn * static_cast<double>(i), k));
      sum = sum + wave * ConstantLike(i % 2 == 0 ? a[i] : -a[i], k);
    }
    return Broadcasted(sum, {M});
  });
}

Tensor Kaiser(const char* op, int64_t M, double beta, const WindowOptions& options) {
  return MakeWindow(op, M, options, [&](const Tensor& k) {
    const double half = SpanOf(M, options.sym) / 2;
    Tensor x = (k - ConstantLike(half, k)) * ConstantLike(1 / half, k);
    Tensor inside = maximum(ConstantLike(1, k) - x * x, ConstantLike(0, k));
    Tensor height = i0(ConstantLike(beta, k));
    return i0(sqrt(inside) * ConstantLike(beta, k)) / height;
  });
}

/// exp(-f(distance from `center`)).
template <class F>
Tensor Falling(const char* op, int64_t M, double center, const WindowOptions& options, F&& f) {
  return MakeWindow(op, M, options,
                    [&](const Tensor& k) { return exp(-f(k - ConstantLike(center, k))); });
}

void NeedPositive(const char* op, const char* name, double value) {
  if (value > 0) return;
  Throw(ErrorCode::kValue, "{}: {} is {}, needs more than 0", op, name, value);
}

}  // namespace

Tensor kaiser_window(int64_t window_length, bool periodic, double beta, std::optional<DType> dtype,
                     const Device& device, Location at) {
  LocationScope scope(at);
  return Kaiser("kaiser_window", window_length, beta,
                {.sym = !periodic, .dtype = dtype, .device = device});
}

Tensor signal_windows_bartlett(int64_t M, const WindowOptions& options, Location at) {
  LocationScope scope(at);
  return MakeWindow("signal_windows_bartlett", M, options, [&](const Tensor& k) {
    Tensor x = k * ConstantLike(2 / SpanOf(M, options.sym), k) - ConstantLike(1, k);
    return ConstantLike(1, k) - abs(x);
  });
}

Tensor signal_windows_cosine(int64_t M, const WindowOptions& options, Location at) {
  LocationScope scope(at);
  return MakeWindow("signal_windows_cosine", M, options, [&](const Tensor& k) {
    const double turn = std::numbers::pi / (SpanOf(M, options.sym) + 1);
    return sin((k + ConstantLike(0.5, k)) * ConstantLike(turn, k));
  });
}

Tensor signal_windows_exponential(int64_t M, std::optional<double> center, double tau,
                                  const WindowOptions& options, Location at) {
  LocationScope scope(at);
  const char* op = "signal_windows_exponential";
  NeedPositive(op, "tau", tau);
  if (options.sym && center) {
    Throw(ErrorCode::kValue, "{}: a symmetric window has its own center", op);
  }
  return Falling(op, M, center.value_or(SpanOf(M, options.sym) / 2), options,
                 [&](const Tensor& x) { return abs(x) * ConstantLike(1 / tau, x); });
}

Tensor signal_windows_gaussian(int64_t M, double std, const WindowOptions& options, Location at) {
  LocationScope scope(at);
  const char* op = "signal_windows_gaussian";
  NeedPositive(op, "std", std);
  return Falling(op, M, SpanOf(M, options.sym) / 2, options,
                 [&](const Tensor& x) { return x * x * ConstantLike(0.5 / (std * std), x); });
}

Tensor signal_windows_kaiser(int64_t M, double beta, const WindowOptions& options, Location at) {
  LocationScope scope(at);
  if (beta < 0) {
    Throw(ErrorCode::kValue, "signal_windows_kaiser: beta is {}, must not be negative", beta);
  }
  return Kaiser("signal_windows_kaiser", M, beta, options);
}

Tensor signal_windows_general_cosine(int64_t M, const std::vector<double>& a,
                                     const WindowOptions& options, Location at) {
  LocationScope scope(at);
  return CosineSum("signal_windows_general_cosine", M, a, options);
}

Tensor signal_windows_general_hamming(int64_t M, double alpha, const WindowOptions& options,
                                      Location at) {
  LocationScope scope(at);
  return CosineSum("signal_windows_general_hamming", M, {alpha, 1 - alpha}, options);
}

Tensor signal_windows_hamming(int64_t M, const WindowOptions& options, Location at) {
  LocationScope scope(at);
  return CosineSum("signal_windows_hamming", M, {0.54, 0.46}, options);
}

Tensor signal_windows_hann(int64_t M, const WindowOptions& options, Location at) {
  LocationScope scope(at);
  return CosineSum("signal_windows_hann", M, {0.5, 0.5}, options);
}

Tensor signal_windows_blackman(int64_t M, const WindowOptions& options, Location at) {
  LocationScope scope(at);
  return CosineSum("signal_windows_blackman", M, {0.42, 0.5, 0.08}, options);
}

Tensor signal_windows_nuttall(int64_t M, const WindowOptions& options, Location at) {
  LocationScope scope(at);
  return CosineSum("signal_windows_nuttall", M, {0.3635819, 0.4891775, 0.1365995, 0.0106411},
                   options);
}

// ---- Records

namespace {

WindowOptions OptionsOf(bool sym, std::optional<DType> dtype, const Device& device) {
  return {.sym = sym, .dtype = dtype, .device = device};
}

template <Tensor (*kWindow)(int64_t, const WindowOptions&, Location)>
Tensor Plain(int64_t M, bool sym, std::optional<DType> dtype, const Device& device, Location at) {
  return kWindow(M, OptionsOf(sym, dtype, device), at);
}
template <Tensor (*kWindow)(int64_t, double, const WindowOptions&, Location)>
Tensor WithNumber(int64_t M, double number, bool sym, std::optional<DType> dtype,
                  const Device& device, Location at) {
  return kWindow(M, number, OptionsOf(sym, dtype, device), at);
}
Tensor Exponential(int64_t M, std::optional<double> center, double tau, bool sym,
                   std::optional<DType> dtype, const Device& device, Location at) {
  return signal_windows_exponential(M, center, tau, OptionsOf(sym, dtype, device), at);
}
Tensor GeneralCosine(int64_t M, const std::vector<double>& a, bool sym, std::optional<DType> dtype,
                     const Device& device, Location at) {
  return signal_windows_general_cosine(M, a, OptionsOf(sym, dtype, device), at);
}
Tensor KaiserPeriodic(int64_t window_length, bool periodic, std::optional<DType> dtype,
                      const Device& device, Location at) {
  return kaiser_window(window_length, periodic, 12.0, dtype, device, at);
}

#define OPTIONS "ScalarType? dtype=None, Device? device=None) -> Tensor"
#define WINDOW(name, arguments, about, function)                                         \
  {                                                                                      \
    .schema = "signal_windows_" #name "(int M, *, " arguments "bool sym=True, " OPTIONS, \
    .doc = about, .call = Box<function>                                                  \
  }
#define PLAIN(name, about) WINDOW(name, "", about, Plain<signal_windows_##name>)

constinit const OpDef kFunctions[] = {
    {.schema = "kaiser_window(int window_length, bool periodic=True, *, " OPTIONS,
     .doc = "Kaiser window.",
     .call = Box<KaiserPeriodic>},
    {.schema = "kaiser_window.beta(int window_length, bool periodic, float beta, *, " OPTIONS,
     .doc = "Kaiser window.",
     .call = Box<kaiser_window>},
    PLAIN(bartlett, "Triangular window."),
    PLAIN(blackman, "Blackman window."),
    PLAIN(cosine, "Half a wave of a sine."),
    WINDOW(exponential, "float? center=None, float tau=1.0, ",
           "Falls exponentially from the center.", Exponential),
    WINDOW(gaussian, "float std=1.0, ", "Gaussian window.", WithNumber<signal_windows_gaussian>),
    WINDOW(general_cosine, "float[] a, ", "A sum of cosines with the coefficients `a`.",
           GeneralCosine),
    WINDOW(general_hamming, "float alpha=0.54, ", "Hamming window of any height at its ends.",
           WithNumber<signal_windows_general_hamming>),
    PLAIN(hamming, "Hamming window."),
    PLAIN(hann, "Hann window."),
    WINDOW(kaiser, "float beta=12.0, ", "Kaiser window.", WithNumber<signal_windows_kaiser>),
    PLAIN(nuttall, "Nuttall window of the least side lobes."),
};
#undef PLAIN
#undef WINDOW
#undef OPTIONS

}  // namespace

std::span<const OpDef* const> ops::WindowOps() {
  static const auto list = Listed({}, kFunctions);
  return list;
}

}  // namespace hammock
