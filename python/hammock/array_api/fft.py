"""The extension for Fourier transforms, where the package has them as `hm.fft`."""

import hammock as hm

from .. import _hammock
from ._array import Array

_fft = hm.fft


def _one(name, op):
    def function(x, /, *, n=None, axis=-1, norm="backward"):
        return Array(op(x, n=n, dim=axis, norm=norm))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = op.__doc__
    globals()[name] = function


def _many(name, op):
    def function(x, /, *, s=None, axes=None, norm="backward"):
        if axes is None and s is not None:
            axes = range(x.ndim - len(s), x.ndim)
        return Array(op(x, s=None if s is None else list(s), dim=None if axes is None else list(axes), norm=norm))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = op.__doc__
    globals()[name] = function


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    _one(_name, getattr(_fft, _name))
for _name in ("fftn", "ifftn", "rfftn", "irfftn"):
    _many(_name, getattr(_fft, _name))


def fftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequencies of the elements of `fft`."""
    return Array(_fft.fftfreq(n, d=d, dtype=dtype or _hammock.float32, device=device))


def rfftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequencies of the elements of `rfft`."""
    return Array(_fft.rfftfreq(n, d=d, dtype=dtype or _hammock.float32, device=device))


def fftshift(x, /, *, axes=None):
    """The zero frequency in the middle."""
    return Array(_fft.fftshift(x, dim=axes))


def ifftshift(x, /, *, axes=None):
    """`fftshift` undone."""
    return Array(_fft.ifftshift(x, dim=axes))
