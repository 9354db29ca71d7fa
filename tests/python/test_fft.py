"""hm.fft and hm.signal: NumPy is the judge."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hammock as hm

RANDOM = np.random.default_rng(5)
ONE_DIM = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]


def numbers(*sizes, real=False):
    parts = RANDOM.standard_normal((2, *sizes))
    return parts[0] if real else parts[0] + 1j * parts[1]


def close(ours, theirs):
    ours = np.asarray(ours)
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(ONE_DIM), st.integers(1, 140), st.integers(1, 5), st.booleans(), st.sampled_from([None, 1, 8, 13, 64, 101]),
       st.sampled_from(["backward", "forward", "ortho"]))
def test_one_dim_is_numpys(name, size, rows, first, n, norm):
    if name in ("irfft", "hfft") and size == 1 and n is None:
        return
    x = numbers(size, rows) if first else numbers(rows, size)
    if name in ("rfft", "ihfft"):
        x = x.real.copy()
    axis = 0 if first else -1
    close(getattr(hm.fft, name)(hm.tensor(x), n, axis, norm), getattr(np.fft, name)(x, n, axis, norm))


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_several_dims_are_numpys(name):
    x = numbers(4, 6, 5, real=name == "rfftn")
    for s, axes in ((None, None), ((3, 8), (0, 2)), ((5, 4), (2, 1))):
        close(getattr(hm.fft, name)(hm.tensor(x), s, axes), getattr(np.fft, name)(x, s, axes))
    two = name.replace("n", "2") if name != "fftn" else "fft2"
    close(getattr(hm.fft, two)(hm.tensor(x)), getattr(np.fft, two)(x))


def test_frequencies_and_shifts_are_numpys():
    for n in (1, 2, 7, 8):
        close(hm.fft.fftfreq(n, 0.5, dtype="float64"), np.fft.fftfreq(n, 0.5))
        close(hm.fft.rfftfreq(n, dtype="float64"), np.fft.rfftfreq(n))
        x = numbers(n, 3)
        close(hm.fft.fftshift(hm.tensor(x)), np.fft.fftshift(x))
        close(hm.fft.ifftshift(hm.tensor(x), 0), np.fft.ifftshift(x, 0))


def test_gradients_of_a_filter():
    x = hm.tensor(numbers(32, real=True), requires_grad=True)
    response = hm.tensor(numbers(17))
    y = hm.fft.irfft(hm.fft.rfft(x) * response, 32)
    (y * y).sum().backward()
    step = 1e-6 * numbers(32, real=True)

    def loss(values):
        return (np.fft.irfft(np.fft.rfft(values) * np.asarray(response), 32) ** 2).sum()

    near = np.asarray(x.detach())
    assert abs((np.asarray(x.grad) * step).sum() - (loss(near + step) - loss(near - step)) / 2) < 1e-10


def test_frames_come_back():
    x = hm.tensor(numbers(2, 100, real=True))
    window = hm.hann_window(16, dtype="float64")
    spectra = hm.stft(x, 16, 4, window=window)
    assert spectra.shape == (2, 9, 26)
    close(hm.istft(spectra, 16, 4, window=window, length=100), np.asarray(x))


def test_windows():
    close(hm.signal.windows.kaiser(9, beta=5.0, dtype="float64"), np.kaiser(9, 5.0))
    close(hm.signal.windows.hamming(9, dtype="float64"), np.hamming(9))
    close(hm.kaiser_window(8, True, 5.0, dtype="float64"), np.kaiser(9, 5.0)[:8])


def test_mistakes():
    with pytest.raises(hm.ValueError, match="norm must be backward") as error:
        hm.fft.fft(hm.ones(3), norm="half")
    assert "test_fft.py" in str(error.value)
    with pytest.raises(hm.TypeError, match="needs real numbers"):
        hm.fft.rfft(hm.tensor([1j]))
