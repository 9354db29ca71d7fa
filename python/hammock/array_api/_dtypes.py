"""Dtypes and functions of them."""

from .. import _hammock
from .._hammock import Tensor
from .._hammock import (
    bool as bool,
    complex64,
    complex128,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .._numbers import finfo, iinfo
from ._array import Array, kinds, of_scalar, promoted


def astype(x, dtype, /, *, copy=True, device=None):
    """The values as others of `dtype`."""
    if x.dtype is dtype and device is None and not copy:
        return x
    if x.dtype in kinds["complex floating"] and dtype not in kinds["complex floating"]:
        raise _hammock.TypeError(f"astype: {x.dtype} has an imaginary part, which {dtype} does not hold; take xp.real(x)")
    moved = x if device is None else x.to(device)
    return Array(moved.clone() if x.dtype is dtype else moved.to(dtype))


def can_cast(from_, to, /):
    """Whether values of a dtype promote to `to`."""
    dtype = from_.dtype if isinstance(from_, Tensor) else from_
    try:
        return promoted(dtype, to) is to
    except _hammock.TypeError:
        return False


def isdtype(dtype, kind):
    """Whether a dtype is of a kind, or of one of several."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, each) for each in kind)
    if isinstance(kind, str):
        if kind not in kinds:
            raise _hammock.ValueError(f"isdtype: no kind '{kind}'; kinds are {', '.join(kinds)}")
        return dtype in kinds[kind]
    return dtype is kind


def result_type(*arrays_and_dtypes):
    """The dtype of a result of all of these: arrays, dtypes, numbers."""
    numbers = [each for each in arrays_and_dtypes if isinstance(each, (int, float, complex))]
    others = [each for each in arrays_and_dtypes if not isinstance(each, (int, float, complex))]
    dtypes = [each.dtype if isinstance(each, Tensor) else each for each in others]
    if not dtypes:
        raise _hammock.ValueError("result_type: needs an array or a dtype")
    result = dtypes[0]
    for dtype in dtypes[1:]:
        result = promoted(result, dtype)
    for number in numbers:
        result = of_scalar(number, result)
    return result
