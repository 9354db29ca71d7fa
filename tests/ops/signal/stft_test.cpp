#include <cmath>
#include <numbers>

#include "hammock/autograd.h"
#include "hammock/error.h"
#include "hammock/testing.h"
#include "ops/expect.h"

namespace hammock {
namespace {

Tensor Waves(int64_t size, DType dtype = f64) {
  Tensor t = arange(size, f64);
  return (sin(t * 0.3) + cos(t * t * 0.01) * 0.5).to(dtype);
}

double Distance(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.sizes(), b.sizes());
  return abs(a - b).max().item<double>();
}

TEST(Stft, FramesAreTransformedOneByOne) {
  Tensor x = Waves(40), window = hann_window(16, true, f64);
  Tensor spectra = stft(x, 16, {.hop_length = 4, .window = window, .center = false});
  EXPECT_EQ(spectra.sizes(), (Dims{9, 7}));
  for (int64_t frame = 0; frame < 7; ++frame) {
    Tensor one = fft_rfft(x.narrow(0, 4 * frame, 16) * window);
    EXPECT_LT(Distance(spectra.select(1, frame), one), 1e-13) << frame;
  }
  Tensor shorter = stft(x, 16, {.hop_length = 4, .win_length = 10, .center = false});
  Tensor middle = constant_pad_nd(x.narrow(0, 4 + 3, 10), {3, 3});
  EXPECT_LT(Distance(shorter.select(1, 1), fft_rfft(middle)), 1e-13);
  Tensor aligned =
      stft(x, 16, {.hop_length = 4, .win_length = 9, .center = false, .align_to_window = true});
  EXPECT_EQ(aligned.sizes(), (Dims{9, 8}));
  EXPECT_LT(Distance(aligned.select(1, 1), fft_rfft(constant_pad_nd(x.narrow(0, 4, 9), {3, 4}))),
            1e-13);
}

TEST(Stft, SignalsComeBack) {
  Tensor x = Waves(100), batch = stack({x, x * 2.0, -x});
  for (int64_t n_fft : {16, 15, 24}) {
    for (int64_t hop : {3, 4, 5}) {
      for (bool normalized : {false, true}) {
        Tensor window = hamming_window(n_fft, true, 0.54, 0.46, f64);
        StftOptions there = {.hop_length = hop, .window = window, .normalized = normalized};
        IstftOptions back = {
            .hop_length = hop, .window = window, .normalized = normalized, .length = 100};
        EXPECT_LT(Distance(istft(stft(x, n_fft, there), n_fft, back), x), 1e-12);
        EXPECT_LT(Distance(istft(stft(batch, n_fft, there), n_fft, back), batch), 1e-12);
        there.onesided = false;
        EXPECT_LT(Distance(istft(stft(x, n_fft, there), n_fft, back), x), 1e-12);
        back.return_complex = true;
        EXPECT_LT(Distance(istft(stft(x.to(c128), n_fft, there), n_fft, back), x.to(c128)), 1e-12);
      }
    }
  }
}

TEST(Stft, GradientsToSecondOrder) {
  Tensor window = hamming_window(6, true, 0.54, 0.46, f64);
  TensorsFn power = [&](const std::vector<Tensor>& in) {
    Tensor z = stft(in[0], 6, {.hop_length = 2, .window = in[1]});
    return std::vector<Tensor>{real(z) * real(z) + imag(z) * imag(z)};
  };
  EXPECT_EQ(testing::Gradcheck(power, {Waves(12), window}), "");
  EXPECT_EQ(testing::Gradgradcheck(power, {Waves(12), window}), "");
  TensorsFn back = [&](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{istft(in[0], 6, {.hop_length = 2, .window = in[1]})};
  };
  Tensor spectra = stft(Waves(12), 6, {.hop_length = 2, .window = window}).detach();
  EXPECT_EQ(testing::Gradcheck(back, {spectra, window}), "");
}

TEST(Stft, MistakesNameWhatIsWrong) {
  Tensor x = Waves(20, f32), z = ones({5, 4}, c64);
  EXPECT_ERROR(stft(x, 0), ValueError, "stft: n_fft is 0");
  EXPECT_ERROR(stft(x, 8, {.hop_length = 0}), ValueError, "stft: hop_length is 0");
  EXPECT_ERROR(stft(x, 8, {.win_length = 9}), ValueError, "needs 1 to n_fft, which is 8");
  EXPECT_ERROR(stft(x, 8, {.window = ones({7})}), ValueError,
               "the window is f32[7], needs 8 weights");
  EXPECT_ERROR(stft(x, 30, {.center = false}), ValueError, "the signal has 20 elements");
  EXPECT_ERROR(stft(x.to(c64), 8, {.onesided = true}), ValueError, "complex numbers");
  EXPECT_ERROR(stft(ones({2, 3, 4}), 4), ValueError, "needs 1 or 2 dims, got f32[2,3,4]");
  EXPECT_ERROR(istft(x, 8), TypeError, "istft: needs complex numbers, got f32[20]");
  EXPECT_ERROR(istft(z, 7), ValueError, "c64[5,4] needs 4 frequencies");
  EXPECT_ERROR(istft(z, 8, {.hop_length = 9}), ValueError, "longer than the window");
  // A window that is zero at its start, without the padding that hides it.
  EXPECT_ERROR(istft(z, 8, {.window = hann_window(8), .center = false}).host(), Error,
               "istft: the windows overlap to zero");
}

TEST(Windows, HaveTheirShapes) {
  EXPECT_TENSOR(kaiser_window(5, false, 0.0), Type(f32, {5}), {1, 1, 1, 1, 1}, 1e-6);
  EXPECT_TENSOR(signal_windows_bartlett(5), Type(f32, {5}), {0, 0.5, 1, 0.5, 0}, 1e-7);
  EXPECT_TENSOR(signal_windows_gaussian(3, 1.0, {.dtype = f64}), Type(f64, {3}),
                {std::exp(-0.5), 1, std::exp(-0.5)}, 1e-15);
  EXPECT_TENSOR(signal_windows_hann(4, {.sym = false}), Type(f32, {4}), {0, 0.5, 1, 0.5}, 1e-7);
  EXPECT_LT(
      Distance(signal_windows_hann(9, {.sym = false, .dtype = f64}), hann_window(9, true, f64)),
      1e-15);
  EXPECT_LT(
      Distance(signal_windows_kaiser(9, 7.0, {.dtype = f64}), kaiser_window(9, false, 7.0, f64)),
      1e-15);
  EXPECT_TENSOR(signal_windows_nuttall(1), Type(f32, {1}), {1});
  EXPECT_EQ(signal_windows_cosine(0).sizes(), (Dims{0}));
  EXPECT_ERROR(signal_windows_gaussian(3, 0.0), ValueError, "std is 0, needs more than 0");
  EXPECT_ERROR(signal_windows_exponential(3, 1.0), ValueError, "symmetric window");
  EXPECT_ERROR(signal_windows_hann(-1), ValueError, "signal_windows_hann");
  EXPECT_ERROR(kaiser_window(3, true, 1.0, i64), TypeError, "not floating");
}

}  // namespace
}  // namespace hammock
