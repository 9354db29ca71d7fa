// The family of torch.fft: sizes, scales and halves of spectra around the primitives.

#include "base/throw.h"
#include "hammock/ops/create.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/shape.h"
#include "hammock/ops/signal.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/primitives/elementwise_kit.h"
#include "ops/primitives/families.h"
#include "ops/signal/transforms.h"
#include "trace/autocast.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

// ---- Steps

Tensor ops::TransformedC2C(const Tensor& x, const Dims& dims, int normalization, bool forward) {
  if (dims.empty()) return x;
  return Apply(kFftC2C, Location(), {x}, {dims, normalization, forward});
}

Tensor ops::TransformedR2C(const Tensor& x, int dim, int normalization) {
  return Apply(kFftR2C, Location(), {x}, {dim, normalization});
}

Tensor ops::TransformedC2R(const Tensor& x, int dim, int normalization, int64_t size) {
  return Apply(kFftC2R, Location(), {x}, {dim, normalization, size});
}

Tensor ops::Mirrored(const Tensor& half, int dim, int64_t size) {
  const int64_t rest = size - half.size(dim);
  if (rest == 0) return half;
  const Tensor parts[] = {half, conj(Flipped(Sliced(half, dim, 1, rest), dim))};
  return Concatenated(parts, dim);
}

Tensor ops::Transformable(const char* op, const Tensor& x) {
  DType dtype = FloatOf(x.dtype());
  if (dtype == DType::kF16 || dtype == DType::kBF16) {
    if (!IsAutocast(Context())) {
      Throw<TypeError>(ErrorCode::kDTypeMismatch,
                       "{}: {} is not supported, needs f32, f64, c64 or c128; cast it", op,
                       x.shape().to_string());
    }
    dtype = DType::kF32;
  }
  return Casted(x, dtype);
}

namespace {

/// The arguments of a call, checked: dims are wrapped, every one has the length of its signal. The
/// last dim is the one that is halved where numbers are real.
struct Request {
  const char* op;
  Tensor x;
  Dims dims;
  Dims sizes;
};

int NormalizationOf(const char* op, const FftNorm& norm, bool forward) {
  const std::string name = norm.value_or("backward");
  if (name == "ortho") return 1;
  if (name == "backward") return forward ? 0 : 2;
  if (name == "forward") return forward ? 2 : 0;
  Throw(ErrorCode::kValue, "{}: norm must be backward, forward or ortho, got '{}'", op, name);
}

void NeedReal(const char* op, const Tensor& x) {
  if (!IsComplex(x.dtype())) return;
  Throw<TypeError>(ErrorCode::kDTypeMismatch, "{}: needs real numbers, got {}", op,
                   x.shape().to_string());
}

/// Of a spectrum's half, whose signal is nearly twice as long, `is_half`.
int64_t OwnLength(const Tensor& x, int dim, bool is_half) {
  return is_half ? 2 * (x.size(dim) - 1) : x.size(dim);
}

void CheckLength(const char* op, int64_t length, const Tensor& x, int dim) {
  if (length >= 1) return;
  Throw(ErrorCode::kValue, "{}: a signal of {} elements along dim {} of {}, needs at least 1", op,
        length, dim, x.shape().to_string());
}

Request OneDimRequest(const char* op, const Tensor& self, std::optional<int64_t> n, int64_t dim,
                      bool is_half) {
  Tensor x = Transformable(op, self);
  if (x.dim() == 0) {
    Throw(ErrorCode::kDimOutOfRange, "{}: {} has no dimension to transform", op,
          x.shape().to_string());
  }
  const int wrapped = WrapDim(op, dim, x.dim());
  const int64_t length = n.value_or(OwnLength(x, wrapped, is_half));
  CheckLength(op, length, x, wrapped);
  return {op, x, {wrapped}, {length}};
}

Request ManyDimsRequest(const char* op, const Tensor& self, const std::optional<Dims>& s,
                        const std::optional<Dims>& dim, bool is_half) {
  Tensor x = Transformable(op, self);
  if (s && dim && s->size() != dim->size()) {
    Throw(ErrorCode::kValue, "{}: s has {} sizes and dim {} dims, needs equally many", op,
          s->size(), dim->size());
  }
  if (s && s->size() > x.dim()) {
    Throw(ErrorCode::kValue, "{}: s has {} sizes, but {} only {} dims", op, s->size(),
          x.shape().to_string(), x.dim());
  }
  Request request{op, x, {}, {}};
  if (dim && !dim->empty()) request.dims = WrapDims(op, *dim, x.dim());
  if (!dim) {
    for (int d = s ? x.dim() - s->size() : 0; d < x.dim(); ++d) request.dims.push_back(d);
  }
  for (int i = 0; i < request.dims.size(); ++i) {
    const int d = static_cast<int>(request.dims[i]);
    const int64_t given = s ? (*s)[i] : -1;
    const int64_t own = OwnLength(x, d, is_half && i == request.dims.size() - 1);
    request.sizes.push_back(given == -1 ? own : given);
    CheckLength(op, request.sizes[i], x, d);
  }
  return request;
}

/// `size` elements along `dim`: the first ones, or zeros behind them.
Tensor Fitted(const Tensor& x, int dim, int64_t size) {
  const int64_t own = x.size(dim);
  if (own >= size) return Sliced(x, dim, 0, size);
  return Padded(x, dim, 0, size - own, 0);
}

Tensor Fitted(Tensor x, const Dims& dims, const Dims& sizes) {
  for (int i = 0; i < dims.size(); ++i) x = Fitted(x, static_cast<int>(dims[i]), sizes[i]);
  return x;
}

int Last(const Request& request) {
  if (request.dims.empty()) {
    Throw(ErrorCode::kValue, "{}: needs at least one dim to transform", request.op);
  }
  return static_cast<int>(request.dims.back());
}

Dims AllButLast(const Dims& dims) {
  Dims others = dims;
  others.resize(dims.size() - 1);
  return others;
}

/// Real numbers have a spectrum of which one half says all; an inverse transform is the conjugate
/// of theirs.
Tensor ComplexTransform(const Request& request, const FftNorm& norm, bool forward) {
  const int normalization = NormalizationOf(request.op, norm, forward);
  Tensor x = Fitted(request.x, request.dims, request.sizes);
  if (IsComplex(x.dtype())) return TransformedC2C(x, request.dims, normalization, forward);
  if (request.dims.empty()) return Casted(x, ComplexOf(x.dtype()));
  const int last = Last(request);
  Tensor half = TransformedR2C(x, last, normalization);
  Tensor full = Mirrored(forward ? half : conj(half), last, request.sizes.back());
  return TransformedC2C(full, AllButLast(request.dims), normalization, forward);
}

Tensor HalfSpectrum(const Request& request, const FftNorm& norm, bool forward) {
  NeedReal(request.op, request.x);
  const int normalization = NormalizationOf(request.op, norm, forward);
  const int last = Last(request);
  Tensor half = TransformedR2C(Fitted(request.x, request.dims, request.sizes), last, normalization);
  Tensor spectrum = TransformedC2C(half, AllButLast(request.dims), normalization, true);
  return forward ? spectrum : conj(spectrum);
}

/// The real numbers whose half of a spectrum is given; `forward`, its conjugate.
Tensor RealResult(const Request& request, const FftNorm& norm, bool forward) {
  const int normalization = NormalizationOf(request.op, norm, forward);
  const int last = Last(request);
  Dims sizes = request.sizes;
  sizes[sizes.size() - 1] = sizes.back() / 2 + 1;
  Tensor half = Fitted(Casted(request.x, ComplexOf(request.x.dtype())), request.dims, sizes);
  if (forward) half = conj(half);
  half = TransformedC2C(half, AllButLast(request.dims), normalization, false);
  return TransformedC2R(half, last, normalization, request.sizes.back());
}

}  // namespace

// ---- Functions

// The three forms of each: along one dim, two, and any.
#define TRANSFORM(name, is_half, transform, forward)                                           \
  Tensor fft_##name(const Tensor& self, std::optional<int64_t> n, int64_t dim,                 \
                    const FftNorm& norm, Location at) {                                        \
    LocationScope scope(at);                                                                   \
    return transform(OneDimRequest("fft_" #name, self, n, dim, is_half), norm, forward);       \
  }                                                                                            \
  Tensor fft_##name##2(const Tensor& self, const std::optional<Dims>& s, const Dims& dim,      \
                       const FftNorm& norm, Location at) {                                     \
    LocationScope scope(at);                                                                   \
    return transform(ManyDimsRequest("fft_" #name "2", self, s, dim, is_half), norm, forward); \
  }                                                                                            \
  Tensor fft_##name##n(const Tensor& self, const std::optional<Dims>& s,                       \
                       const std::optional<Dims>& dim, const FftNorm& norm, Location at) {     \
    LocationScope scope(at);                                                                   \
    return transform(ManyDimsRequest("fft_" #name "n", self, s, dim, is_half), norm, forward); \
  }
TRANSFORM(fft, false, ComplexTransform, true)
TRANSFORM(ifft, false, ComplexTransform, false)
TRANSFORM(rfft, false, HalfSpectrum, true)
TRANSFORM(irfft, true, RealResult, false)
TRANSFORM(hfft, true, RealResult, true)
TRANSFORM(ihfft, false, HalfSpectrum, false)
#undef TRANSFORM

namespace {

/// `count` frequencies of n samples that are d apart; those from `negative` on are below zero.
Tensor Frequencies(const char* op, int64_t n, double d, int64_t count, int64_t negative,
                   std::optional<DType> dtype, const Device& device, Location at) {
  LocationScope scope(at);
  const DType result = dtype.value_or(kDefaultFloat);
  if (!IsFloatOrComplex(result)) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "{}: dtype {} is not floating", op, NameOf(result));
  }
  CheckSizes(op, {n});
  Tensor k = arange(count, DType::kI64, device, at);
  if (negative < count) {
    k = where(lt(k, ConstantLike(negative, k)), k, k - ConstantLike(n, k));
  }
  // In f64, so that only the cast rounds.
  Tensor wide = Casted(k, DType::kF64);
  return Casted(wide * Lift(1.0 / (static_cast<double>(n) * d), DType::kF64), result);
}

Tensor Shifted(const Tensor& self, const std::optional<Dims>& dim, const char* op, bool back,
               Location at) {
  LocationScope scope(at);
  Dims dims, shifts;
  if (dim) {
    dims = WrapDims(op, *dim, self.dim());
  } else {
    for (int d = 0; d < self.dim(); ++d) dims.push_back(d);
  }
  if (dims.empty()) return self;
  for (int64_t d : dims) {
    const int64_t size = self.size(static_cast<int>(d));
    shifts.push_back((back ? size + 1 : size) / 2);
  }
  return roll(self, shifts, dims, at);
}

}  // namespace

Tensor fft_fftfreq(int64_t n, double d, std::optional<DType> dtype, const Device& device,
                   Location at) {
  return Frequencies("fft_fftfreq", n, d, n, (n + 1) / 2, dtype, device, at);
}

Tensor fft_rfftfreq(int64_t n, double d, std::optional<DType> dtype, const Device& device,
                    Location at) {
  return Frequencies("fft_rfftfreq", n, d, n / 2 + 1, n / 2 + 1, dtype, device, at);
}

Tensor fft_fftshift(const Tensor& self, const std::optional<Dims>& dim, Location at) {
  return Shifted(self, dim, "fft_fftshift", false, at);
}

Tensor fft_ifftshift(const Tensor& self, const std::optional<Dims>& dim, Location at) {
  return Shifted(self, dim, "fft_ifftshift", true, at);
}

// ---- Records

namespace {

#define ONE_DIM "(Tensor self, int? n=None, int dim=-1, str? norm=None) -> Tensor"
#define TWO_DIMS "(Tensor self, int[1]? s=None, int[1] dim=[-2,-1], str? norm=None) -> Tensor"
#define MANY_DIMS "(Tensor self, int[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor"
#define FREQUENCIES "(int n, float d=1.0, *, ScalarType? dtype=None, Device? device=None) -> Tensor"
#define FUNCTION(name, arguments, about) \
  { .schema = #name arguments, .doc = about, .call = Box<name> }

constinit const OpDef kFunctions[] = {
    FUNCTION(fft_fft, ONE_DIM, "The Fourier transform along a dim."),
    FUNCTION(fft_ifft, ONE_DIM, "The inverse of fft_fft."),
    FUNCTION(fft_rfft, ONE_DIM, "The first half of the transform of real numbers."),
    FUNCTION(fft_irfft, ONE_DIM, "The inverse of fft_rfft, to real numbers."),
    FUNCTION(fft_hfft, ONE_DIM, "The real transform of a Hermitian signal, given by its half."),
    FUNCTION(fft_ihfft, ONE_DIM, "The inverse of fft_hfft."),
    FUNCTION(fft_fft2, TWO_DIMS, "The Fourier transform along two dims."),
    FUNCTION(fft_ifft2, TWO_DIMS, "The inverse of fft_fft2."),
    FUNCTION(fft_rfft2, TWO_DIMS, "fft_fft2 of real numbers; half of the last dim."),
    FUNCTION(fft_irfft2, TWO_DIMS, "The inverse of fft_rfft2, to real numbers."),
    FUNCTION(fft_hfft2, TWO_DIMS, "The real transform of a Hermitian signal of two dims."),
    FUNCTION(fft_ihfft2, TWO_DIMS, "The inverse of fft_hfft2."),
    FUNCTION(fft_fftn, MANY_DIMS, "The Fourier transform along any dims."),
    FUNCTION(fft_ifftn, MANY_DIMS, "The inverse of fft_fftn."),
    FUNCTION(fft_rfftn, MANY_DIMS, "fft_fftn of real numbers; half of the last dim."),
    FUNCTION(fft_irfftn, MANY_DIMS, "The inverse of fft_rfftn, to real numbers."),
    FUNCTION(fft_hfftn, MANY_DIMS, "The real transform of a Hermitian signal of any dims."),
    FUNCTION(fft_ihfftn, MANY_DIMS, "The inverse of fft_hfftn."),
    FUNCTION(fft_fftfreq, FREQUENCIES, "The frequencies of fft_fft."),
    FUNCTION(fft_rfftfreq, FREQUENCIES, "The frequencies of fft_rfft."),
    FUNCTION(fft_fftshift, "(Tensor self, int[1]? dim=None) -> Tensor",
             "The frequency 0 moved to the middle."),
    FUNCTION(fft_ifftshift, "(Tensor self, int[1]? dim=None) -> Tensor",
             "The inverse of fft_fftshift."),
};
#undef FUNCTION
#undef FREQUENCIES
#undef MANY_DIMS
#undef TWO_DIMS
#undef ONE_DIM

}  // namespace

std::span<const OpDef* const> ops::FftOps() {
  static const auto list = Listed({}, kFunctions);
  return list;
}

}  // namespace hammock
