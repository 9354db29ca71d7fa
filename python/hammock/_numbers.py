"""Limits of dtypes."""

from . import _hammock
from ._hammock import Tensor


class finfo:
    """Limits of a floating-point dtype, or of a complex one's parts.

    >>> hm.finfo(hm.float32).bits
    32
    """

    def __init__(self, type, /):
        dtype = type.dtype if isinstance(type, Tensor) else type
        parts = {_hammock.complex64: _hammock.float32, _hammock.complex128: _hammock.float64}
        part = parts.get(dtype, dtype)
        if not isinstance(part, _hammock.dtype) or not part.is_floating_point:
            raise _hammock.TypeError(f"finfo: takes floating-point dtypes, not {dtype}")
        self.dtype = part
        self.bits = 8 * part.itemsize
        self.eps, self.max, self.min = part.eps, part.max, -part.max
        exponents = {_hammock.float16: -14, _hammock.float64: -1022}
        self.smallest_normal = self.tiny = 2.0 ** exponents.get(part, -126)
        self.resolution = 10.0 ** -int(-_log10(part.eps))

    def __repr__(self):
        return f"finfo(bits={self.bits}, eps={self.eps}, max={self.max}, min={self.min}, dtype={self.dtype})"


class iinfo:
    """Limits of an integer dtype.

    >>> hm.iinfo(hm.uint8).max
    255
    """

    def __init__(self, type, /):
        dtype = type.dtype if isinstance(type, Tensor) else type
        integers = isinstance(dtype, _hammock.dtype) and not dtype.is_floating_point
        if not integers or dtype in (_hammock.bool, _hammock.complex64, _hammock.complex128):
            raise _hammock.TypeError(f"iinfo: takes integer dtypes, not {dtype}")
        self.dtype = dtype
        self.bits = 8 * dtype.itemsize
        signed = dtype.is_signed
        self.min = -(2 ** (self.bits - 1)) if signed else 0
        self.max = 2 ** (self.bits - 1) - 1 if signed else 2**self.bits - 1

    def __repr__(self):
        return f"iinfo(bits={self.bits}, min={self.min}, max={self.max}, dtype={self.dtype})"


def _log10(value):
    import math

    return math.log10(value)
