#pragma once
/// Discrete Fourier transforms, as torch.fft has them, and spectra of frames of a signal.
///
///   Tensor spectrum = fft_rfft(signal);                      // size / 2 + 1 frequencies
///   Tensor again = fft_irfft(spectrum, signal.size(-1));
///   Tensor frames = stft(signal, 400, {.window = hann_window(400)});
///
/// `n`, or `s` for several dims, is the length of the signal: what is longer is cut, what is
/// shorter is followed by zeros; -1 in `s` keeps a size. `norm` is backward (the default: the
/// inverse is divided by the number of elements), forward (the other one is) or ortho (both by its
/// root). Integers become f32. Transforms take f32, f64, c64 and c128.

#include <optional>
#include <string>
#include <vector>

#include "hammock/export.h"
#include "hammock/ops/create.h"
#include "hammock/tensor.h"

namespace hammock {

using FftNorm = std::optional<std::string>;

// ---- Along one dim

HAMMOCK_API Tensor fft_fft(const Tensor& self, std::optional<int64_t> n = std::nullopt,
                           int64_t dim = -1, const FftNorm& norm = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor fft_ifft(const Tensor& self, std::optional<int64_t> n = std::nullopt,
                            int64_t dim = -1, const FftNorm& norm = std::nullopt, HAMMOCK_AT);
/// Of real numbers: the first n / 2 + 1 frequencies; the others are their conjugates.
HAMMOCK_API Tensor fft_rfft(const Tensor& self, std::optional<int64_t> n = std::nullopt,
                            int64_t dim = -1, const FftNorm& norm = std::nullopt, HAMMOCK_AT);
/// The inverse of fft_rfft; without `n` the signal has an even length.
HAMMOCK_API Tensor fft_irfft(const Tensor& self, std::optional<int64_t> n = std::nullopt,
                             int64_t dim = -1, const FftNorm& norm = std::nullopt, HAMMOCK_AT);
/// The real spectrum of a Hermitian signal, of which one half is given.
HAMMOCK_API Tensor fft_hfft(const Tensor& self, std::optional<int64_t> n = std::nullopt,
                            int64_t dim = -1, const FftNorm& norm = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor fft_ihfft(const Tensor& self, std::optional<int64_t> n = std::nullopt,
                             int64_t dim = -1, const FftNorm& norm = std::nullopt, HAMMOCK_AT);

// ---- Along two dims

HAMMOCK_API Tensor fft_fft2(const Tensor& self, const std::optional<Dims>& s = std::nullopt,
                            const Dims& dim = {-2, -1}, const FftNorm& norm = std::nullopt,
                            HAMMOCK_AT);
HAMMOCK_API Tensor fft_ifft2(const Tensor& self, const std::optional<Dims>& s = std::nullopt,
                             const Dims& dim = {-2, -1}, const FftNorm& norm = std::nullopt,
                             HAMMOCK_AT);
HAMMOCK_API Tensor fft_rfft2(const Tensor& self, const std::optional<Dims>& s = std::nullopt,
                             const Dims& dim = {-2, -1}, const FftNorm& norm = std::nullopt,
                             HAMMOCK_AT);
HAMMOCK_API Tensor fft_irfft2(const Tensor& self, const std::optional<Dims>& s = std::nullopt,
                              const Dims& dim = {-2, -1}, const FftNorm& norm = std::nullopt,
                              HAMMOCK_AT);
HAMMOCK_API Tensor fft_hfft2(const Tensor& self, const std::optional<Dims>& s = std::nullopt,
                             const Dims& dim = {-2, -1}, const FftNorm& norm = std::nullopt,
                             HAMMOCK_AT);
HAMMOCK_API Tensor fft_ihfft2(const Tensor& self, const std::optional<Dims>& s = std::nullopt,
                              const Dims& dim = {-2, -1}, const FftNorm& norm = std::nullopt,
                              HAMMOCK_AT);

// ---- Along any dims: without `dim` the last ones that `s` has sizes for, without both all

HAMMOCK_API Tensor fft_fftn(const Tensor& self, const std::optional<Dims>& s = std::nullopt,
                            const std::optional<Dims>& dim = std::nullopt,
                            const FftNorm& norm = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor fft_ifftn(const Tensor& self, const std::optional<Dims>& s = std::nullopt,
                             const std::optional<Dims>& dim = std::nullopt,
                             const FftNorm& norm = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor fft_rfftn(const Tensor& self, const std::optional<Dims>& s = std::nullopt,
                             const std::optional<Dims>& dim = std::nullopt,
                             const FftNorm& norm = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor fft_irfftn(const Tensor& self, const std::optional<Dims>& s = std::nullopt,
                              const std::optional<Dims>& dim = std::nullopt,
                              const FftNorm& norm = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor fft_hfftn(const Tensor& self, const std::optional<Dims>& s = std::nullopt,
                             const std::optional<Dims>& dim = std::nullopt,
                             const FftNorm& norm = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor fft_ihfftn(const Tensor& self, const std::optional<Dims>& s = std::nullopt,
                              const std::optional<Dims>& dim = std::nullopt,
                              const FftNorm& norm = std::nullopt, HAMMOCK_AT);

// ---- Frequencies

/// The frequencies of fft_fft of `n` samples that are `d` apart: 0, 1, ..., -2, -1 over n * d.
HAMMOCK_API Tensor fft_fftfreq(int64_t n, double d = 1.0, std::optional<DType> dtype = std::nullopt,
                               const Device& device = Device(), HAMMOCK_AT);
/// The frequencies of fft_rfft: 0, 1, ..., n / 2 over n * d.
HAMMOCK_API Tensor fft_rfftfreq(int64_t n, double d = 1.0,
                                std::optional<DType> dtype = std::nullopt,
                                const Device& device = Device(), HAMMOCK_AT);
/// The frequency 0 moved to the middle of `dim` (all dims without it).
HAMMOCK_API Tensor fft_fftshift(const Tensor& self, const std::optional<Dims>& dim = std::nullopt,
                                HAMMOCK_AT);
HAMMOCK_API Tensor fft_ifftshift(const Tensor& self, const std::optional<Dims>& dim = std::nullopt,
                                 HAMMOCK_AT);

// ---- Frames of a signal

struct StftOptions {
  std::optional<int64_t> hop_length = std::nullopt;  ///< n_fft / 4
  std::optional<int64_t> win_length = std::nullopt;  ///< n_fft
  Tensor window = {};                                ///< of win_length weights; undefined: ones
  bool center = true;                ///< frame t is centred at t * hop_length: the signal is padded
  std::string pad_mode = "reflect";  ///< how; see `pad`
  bool normalized = false;           ///< divides by the root of n_fft
  std::optional<bool> onesided = std::nullopt;  ///< n_fft / 2 + 1 frequencies; for real signals
  bool return_complex = true;  ///< false: pairs of real numbers along a new last dim
  /// Without `center`: the first frame begins where the window does, not n_fft / 2 before its
  /// middle.
  bool align_to_window = false;
};
/// The spectra of frames of a signal (time) or of a batch of them: ([batch,] frequency, frame).
HAMMOCK_API Tensor stft(const Tensor& self, int64_t n_fft, const StftOptions& options = {},
                        HAMMOCK_AT);

struct IstftOptions {
  std::optional<int64_t> hop_length = std::nullopt;
  std::optional<int64_t> win_length = std::nullopt;
  Tensor window = {};
  bool center = true;
  bool normalized = false;
  std::optional<bool> onesided = std::nullopt;
  std::optional<int64_t> length = std::nullopt;  ///< of the signal; without it as long as known
  bool return_complex = false;
};
/// The signal whose frames have these spectra, by least squares. Reading it raises where windows
/// overlap to zero.
HAMMOCK_API Tensor istft(const Tensor& self, int64_t n_fft, const IstftOptions& options = {},
                         HAMMOCK_AT);

// ---- Windows; see create.h for hann_window and others that PyTorch has without options

/// I0(beta sqrt(1 - x^2)) / I0(beta), I0 the modified Bessel function and x from -1 to 1.
HAMMOCK_API Tensor kaiser_window(int64_t window_length, bool periodic = true, double beta = 12.0,
                                 std::optional<DType> dtype = std::nullopt,
                                 const Device& device = Device(), HAMMOCK_AT);

struct WindowOptions {
  bool sym = true;  ///< false: the symmetric window that is longer by one, without its last weight
  std::optional<DType> dtype = std::nullopt;
  Device device = Device();
};
HAMMOCK_API Tensor signal_windows_bartlett(int64_t M, const WindowOptions& options = {},
                                           HAMMOCK_AT);
HAMMOCK_API Tensor signal_windows_blackman(int64_t M, const WindowOptions& options = {},
                                           HAMMOCK_AT);
HAMMOCK_API Tensor signal_windows_cosine(int64_t M, const WindowOptions& options = {}, HAMMOCK_AT);
/// Only a window that is not symmetric can have another center than its middle.
HAMMOCK_API Tensor signal_windows_exponential(int64_t M,
                                              std::optional<double> center = std::nullopt,
                                              double tau = 1.0, const WindowOptions& options = {},
                                              HAMMOCK_AT);
HAMMOCK_API Tensor signal_windows_gaussian(int64_t M, double std = 1.0,
                                           const WindowOptions& options = {}, HAMMOCK_AT);
/// a[0] - a[1] cos(x) + a[2] cos(2 x) - ..., over one turn.
HAMMOCK_API Tensor signal_windows_general_cosine(int64_t M, const std::vector<double>& a,
                                                 const WindowOptions& options = {}, HAMMOCK_AT);
HAMMOCK_API Tensor signal_windows_general_hamming(int64_t M, double alpha = 0.54,
                                                  const WindowOptions& options = {}, HAMMOCK_AT);
HAMMOCK_API Tensor signal_windows_hamming(int64_t M, const WindowOptions& options = {}, HAMMOCK_AT);
HAMMOCK_API Tensor signal_windows_hann(int64_t M, const WindowOptions& options = {}, HAMMOCK_AT);
HAMMOCK_API Tensor signal_windows_kaiser(int64_t M, double beta = 12.0,
                                         const WindowOptions& options = {}, HAMMOCK_AT);
HAMMOCK_API Tensor signal_windows_nuttall(int64_t M, const WindowOptions& options = {}, HAMMOCK_AT);

}  // namespace hammock
