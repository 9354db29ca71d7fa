"""Elementwise functions: one for each name of a table."""

import hammock as hm

from .. import _hammock
from .._hammock import Tensor
from ._array import Array, kinds, together
from ._special import special

__all__ = []

_same = (
    "abs acos acosh asin asinh atan atanh cos cosh exp expm1 isfinite isinf isnan log log10 log1p log2 "
    "logical_not negative positive real imag reciprocal sign signbit sin sinh sqrt square tan tanh"
).split()
_pairs = (
    "add bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide floor_divide "
    "greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum minimum multiply "
    "nextafter not_equal pow remainder subtract"
).split()
_renamed = {"bitwise_invert": "bitwise_not"}
_renamed_pairs = {"atan2": "atan2", "equal": "eq"}


def _publish(function, name, op):
    function.__name__ = function.__qualname__ = name
    function.__doc__ = op.__doc__
    globals()[name] = function
    __all__.append(name)


def _unary(name, op):
    def function(x, /):
        return Array(op(x))

    _publish(function, name, op)


def _binary(name, op):
    def function(x1, x2, /):
        pair = together(x1, x2)
        if pair is None:
            raise _hammock.TypeError(f"{name}: takes arrays and numbers, one of them an array")
        return Array(op(*pair))

    _publish(function, name, op)


for _name in _same:
    _unary(_name, special.get(_name) or getattr(hm, _name))
for _name, _op in _renamed.items():
    _unary(_name, getattr(hm, _op))
for _name in _pairs:
    _binary(_name, special.get(_name) or getattr(hm, _name))
for _name, _op in _renamed_pairs.items():
    _binary(_name, getattr(hm, _op))


def _rounding(name):
    op = special.get(name) or getattr(hm, name)

    def function(x, /):
        # Integers are whole already.
        return Array(x.clone() if x.dtype in kinds["integral"] else op(x))

    _publish(function, name, op)


for _name in ("ceil", "floor", "round", "trunc"):
    _rounding(_name)


def conj(x, /):
    """The complex conjugate."""
    return Array(hm.conj(x) if x.dtype in kinds["complex floating"] else x)


def clip(x, /, min=None, max=None):
    """Values below `min` and above `max` replaced by these. The dtype stays that of `x`."""
    result = x
    for limit, op in ((min, hm.maximum), (max, hm.minimum)):
        if limit is not None:
            limit = _limit(limit, x)
            if limit is not None:
                result = op(result, limit.to(x.dtype))
    return Array(x.clone() if result is x else result)


def _limit(limit, x):
    if isinstance(limit, Tensor):
        return limit
    if x.dtype in kinds["integral"]:
        info = hm.iinfo(x.dtype)
        limit = info.max if limit > info.max else info.min if limit < info.min else limit
    return _hammock.tensor(limit, dtype=x.dtype, device=x.device)


__all__ += ["conj", "clip"]
