// Spectra of overlapping frames of a signal, and back.

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/reduce.h"
#include "hammock/ops/shape.h"
#include "hammock/ops/signal.h"
#include "hammock/ops/view.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/primitives/families.h"
#include "ops/primitives/require.h"
#include "ops/signal/transforms.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

/// Lengths of frames, checked.
struct Frames {
  const char* op;
  int64_t size;    ///< of a transform
  int64_t hop;     ///< from frame to frame
  int64_t window;  ///< up to `size`; a shorter window lies in the middle of it
};

Frames FramesOf(const char* op, int64_t n_fft, std::optional<int64_t> hop_length,
                std::optional<int64_t> win_length, const Tensor& window) {
  Frames frames = {op, n_fft, hop_length.value_or(n_fft / 4), win_length.value_or(n_fft)};
  if (n_fft < 1) Throw(ErrorCode::kValue, "{}: n_fft is {}, needs at least 1", op, n_fft);
  if (frames.hop < 1) {
    Throw(ErrorCode::kValue, "{}: hop_length is {}, needs at least 1", op, frames.hop);
  }
  if (frames.window < 1 || frames.window > n_fft) {
    Throw(ErrorCode::kValue, "{}: win_length is {}, needs 1 to n_fft, which is {}", op,
          frames.window, n_fft);
  }
  if (window.defined() && (window.dim() != 1 || window.size(0) != frames.window)) {
    Throw(ErrorCode::kShapeMismatch, "{}: the window is {}, needs {} weights", op,
          window.shape().to_string(), frames.window);
  }
  return frames;
}

/// A window with zeros around it, as long as a transform; undefined where all weights are one.
Tensor FullWindow(const Frames& frames, const Tensor& window, DType dtype, const Tensor& like) {
  const int64_t low = (frames.size - frames.window) / 2;
  const int64_t high = frames.size - frames.window - low;
  Tensor weights = window;
  if (!weights.defined()) {
    if (low + high == 0) return weights;
    weights = Filled({frames.window}, 1, dtype, like);
  }
  return low + high == 0 ? weights : Padded(weights, 0, low, high, 0);
}

/// The dims before time as one, of size 1 where there are none.
Tensor AsBatch(const char* op, const Tensor& x, int own) {
  if (x.dim() != own && x.dim() != own + 1) {
    Throw(ErrorCode::kShapeMismatch, "{}: needs {} or {} dims, got {}", op, own, own + 1,
          x.shape().to_string());
  }
  if (x.dim() == own + 1) return x;
  Dims sizes = x.sizes();
  sizes.insert(0, 1);
  return Reshaped(x, sizes);
}

Tensor WithoutBatch(const Tensor& x, bool has_batch) {
  if (has_batch) return x;
  Dims sizes = x.sizes();
  sizes.erase(0);
  return Reshaped(x, sizes);
}

/// The transposed of cutting a signal into frames: (batch, frame, size) -> (batch, time), where
/// frames overlap they are added.
///
/// A frame is `parts` pieces of one hop. Piece p of frame f is added at hop f + p: rows of a matrix
/// that is one longer than it is read as move by one place a row.
Tensor OverlapAdded(const Tensor& frames, int64_t hop) {
  const int64_t batch = frames.size(0), count = frames.size(1), size = frames.size(2);
  const int64_t parts = (size + hop - 1) / hop, hops = count + parts - 1;
  Tensor pieces = Padded(frames, 2, 0, parts * hop - size, 0);
  pieces = Permuted(Reshaped(pieces, {batch, count, parts, hop}), {0, 2, 1, 3});
  Tensor rows = Reshaped(Padded(pieces, 2, 0, parts, 0), {batch, parts * (count + parts), hop});
  Tensor moved = Reshaped(Sliced(rows, 1, 0, parts * hops), {batch, parts, hops, hop});
  Tensor signal = Apply(kReduceSum, Location(), {moved}, {Dims{1}, false});
  return Sliced(Reshaped(signal, {batch, hops * hop}), 1, 0, size + hop * (count - 1));
}

/// [start, end) of dim 1, with zeros where there is nothing.
Tensor Part(const Tensor& x, int64_t start, int64_t end) {
  return Padded(x, 1, -start, end - x.size(1), 0);
}

}  // namespace

Tensor stft(const Tensor& self, int64_t n_fft, const StftOptions& options, Location at) {
  LocationScope scope(at);
  const char* op = "stft";
  Frames frames = FramesOf(op, n_fft, options.hop_length, options.win_length, options.window);
  if (options.center && options.align_to_window) {
    Throw(ErrorCode::kValue, "stft: align_to_window is for frames that are not centred");
  }
  Tensor x = AsBatch(op, Transformable(op, self), 1);
  if (options.center) {
    Tensor padded = pad(Reshaped(x, {1, x.size(0), x.size(1)}), {n_fft / 2, n_fft / 2},
                        options.pad_mode, 0, at);
    x = Reshaped(padded, {x.size(0), padded.size(-1)});
  } else if (options.align_to_window) {
    const int64_t low = (n_fft - frames.window) / 2;
    x = Padded(x, 1, low, n_fft - frames.window - low, 0);
  }
  if (n_fft > x.size(1)) {
    Throw(ErrorCode::kValue, "stft: n_fft is {}, but the signal has {} elements", n_fft, x.size(1));
  }
  Tensor cut = x.unfold(1, n_fft, frames.hop, at);
  Tensor window = FullWindow(frames, options.window, RealOf(x.dtype()), x);
  if (window.defined()) cut = mul(cut, window);
  const bool is_complex = IsComplex(cut.dtype());
  const bool onesided = options.onesided.value_or(!is_complex);
  if (onesided && is_complex) {
    Throw(ErrorCode::kValue, "stft: a spectrum of complex numbers has no halves that are alike");
  }
  const int normalization = options.normalized ? 1 : 0;
  Tensor spectra = is_complex ? TransformedC2C(cut, {2}, normalization, true)
                              : TransformedR2C(cut, 2, normalization);
  if (!is_complex && !onesided) spectra = Mirrored(spectra, 2, n_fft);
  Tensor result = WithoutBatch(Permuted(spectra, {0, 2, 1}), self.dim() == 2);
  return options.return_complex ? result : view_as_real(result, at);
}

Tensor istft(const Tensor& self, int64_t n_fft, const IstftOptions& options, Location at) {
  LocationScope scope(at);
  const char* op = "istft";
  Frames frames = FramesOf(op, n_fft, options.hop_length, options.win_length, options.window);
  if (frames.hop > frames.window) {
    Throw(ErrorCode::kValue, "istft: hop_length is {}, longer than the window, which is {}",
          frames.hop, frames.window);
  }
  if (!IsComplex(self.dtype())) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch,
                     "istft: needs complex numbers, got {}; see view_as_complex",
                     self.shape().to_string());
  }
  Tensor x = AsBatch(op, self, 2);
  const bool onesided = options.onesided.value_or(x.size(1) != n_fft);
  const int64_t bins = onesided ? n_fft / 2 + 1 : n_fft;
  if (x.numel() == 0 || x.size(1) != bins) {
    Throw(ErrorCode::kShapeMismatch, "istft: {} needs {} frequencies of at least one frame",
          self.shape().to_string(), bins);
  }
  Tensor window = FullWindow(frames, options.window, RealOf(x.dtype()), x);
  if (!window.defined()) window = Filled({n_fft}, 1, RealOf(x.dtype()), x);
  x = Permuted(x, {0, 2, 1});
  const int normalization = options.normalized ? 1 : 2;
  if (options.return_complex) {
    if (onesided) {
      Throw(ErrorCode::kValue, "istft: half of a spectrum has no complex signal, needs all of it");
    }
    x = TransformedC2C(x, {2}, normalization, false);
  } else {
    if (IsComplex(window.dtype())) {
      Throw(ErrorCode::kValue, "istft: a complex window needs return_complex");
    }
    x = TransformedC2R(Sliced(x, 2, 0, n_fft / 2 + 1), 2, normalization, n_fft);
  }
  Tensor signal = OverlapAdded(mul(x, window), frames.hop);
  Tensor squares =
      Broadcasted(Reshaped(mul(window, window), {1, 1, n_fft}), {1, self.size(-1), n_fft});
  Tensor weights = OverlapAdded(squares, frames.hop);

  const int64_t whole = signal.size(1), start = options.center ? n_fft / 2 : 0;
  const int64_t known = options.center ? whole - n_fft / 2 : whole;
  const int64_t end = options.length ? start + *options.length : known;
  if (end <= start) {
    Throw(ErrorCode::kValue, "istft: the signal would have {} elements", end - start);
  }
  const int64_t filled = std::min(end, whole);
  if (filled <= start) Throw(ErrorCode::kValue, "istft: no frame reaches into the signal");
  weights = Sliced(weights, 1, start, filled - start);
  Tensor good = ge(abs(weights), ConstantLike(1e-11, abs(weights)));
  weights = Required(weights, good, op,
                     "the windows overlap to zero somewhere; take another window "
                     "or hop_length");
  Tensor result = div(Sliced(signal, 1, start, filled - start), weights);
  return WithoutBatch(Part(result, 0, end - start), self.dim() == 3);
}

// ---- Records

namespace {

Tensor TensorOr(const std::optional<Tensor>& x) { return x.value_or(Tensor()); }

Tensor StftBoxed(const Tensor& self, int64_t n_fft, std::optional<int64_t> hop_length,
                 std::optional<int64_t> win_length, const std::optional<Tensor>& window,
                 bool center, const std::string& pad_mode, bool normalized,
                 std::optional<bool> onesided, std::optional<bool> return_complex,
                 std::optional<bool> align_to_window) {
  return stft(self, n_fft,
              {.hop_length = hop_length,
               .win_length = win_length,
               .window = TensorOr(window),
               .center = center,
               .pad_mode = pad_mode,
               .normalized = normalized,
               .onesided = onesided,
               .return_complex = return_complex.value_or(true),
               .align_to_window = align_to_window.value_or(false)});
}

Tensor IstftBoxed(const Tensor& self, int64_t n_fft, std::optional<int64_t> hop_length,
                  std::optional<int64_t> win_length, const std::optional<Tensor>& window,
                  bool center, bool normalized, std::optional<bool> onesided,
                  std::optional<int64_t> length, bool return_complex) {
  return istft(self, n_fft,
               {.hop_length = hop_length,
                .win_length = win_length,
                .window = TensorOr(window),
                .center = center,
                .normalized = normalized,
                .onesided = onesided,
                .length = length,
                .return_complex = return_complex});
}

HAMMOCK_FUNCTION(kStft,
                 "stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? "
                 "window=None, bool center=True, str pad_mode=\"reflect\", bool normalized=False, "
                 "bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> "
                 "Tensor",
                 "Spectra of overlapping frames of a signal.", StftBoxed)
HAMMOCK_FUNCTION(kIstft,
                 "istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, "
                 "Tensor? window=None, bool center=True, bool normalized=False, bool? "
                 "onesided=None, int? length=None, bool return_complex=False) -> Tensor",
                 "The signal of spectra that stft gives.", IstftBoxed)

}  // namespace

std::span<const OpDef* const> ops::StftOps() {
  static constexpr const OpDef* kOps[] = {&kStft, &kIstft};
  return kOps;
}

}  // namespace hammock
