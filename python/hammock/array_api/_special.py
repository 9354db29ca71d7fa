"""Values that the standard asks of functions at infinities, NaN and signed zeros, where the ops have others."""

import hammock as hm

from ._array import kinds

_inf, _nan = float("inf"), float("nan")
_half = 1.5707963267948966  # pi / 2


def _is_zero(x):
    return x == 0


def _exp(x, y):
    odd = ~hm.isfinite(y)
    yield _is_zero(y), hm.exp(x), y
    yield (x == -_inf) & odd, 0.0, 0.0
    yield (x == _inf) & odd, _inf, _nan


def _expm1(x, y):
    odd = ~hm.isfinite(y)
    yield _is_zero(y), hm.expm1(x) + 0.0, y
    yield (x == -_inf) & odd, -1.0, 0.0
    yield (x == _inf) & odd, _inf, _nan


def _cosh(x, y):
    odd = ~hm.isfinite(y)
    yield _is_zero(y), hm.cosh(x), hm.where(x < 0, -y, y)
    yield _is_zero(x) & odd, _nan, 0.0
    yield hm.isinf(x) & odd, _inf, _nan


def _sinh(x, y):
    odd = ~hm.isfinite(y)
    yield _is_zero(y), hm.sinh(x), y
    yield _is_zero(x) & odd, x, _nan
    yield hm.isinf(x) & odd, x, _nan


def _tanh(x, y):
    yield _is_zero(y), hm.tanh(x), y
    yield _is_zero(x) & ~hm.isfinite(y), x, _nan
    yield hm.isfinite(x) & ~hm.isfinite(y), _nan, _nan
    yield hm.isinf(x), hm.sign(x), hm.copysign(hm.zeros_like(y), hm.where(hm.isnan(y), hm.ones_like(y), y))


def _angle(x):
    """Of a corner at infinity: a quarter of pi, or three."""
    return hm.where(x < 0, hm.full_like(x, 1.5 * _half), hm.full_like(x, 0.5 * _half))


def _acos(x, y):
    away = -hm.copysign(hm.full_like(y, _inf), y)
    yield _is_zero(x) & hm.isnan(y), _half, _nan
    yield hm.isinf(x) & hm.isinf(y), _angle(x), away
    yield hm.isinf(x) & hm.isnan(y), _nan, _inf
    yield hm.isnan(x) & hm.isinf(y), _nan, away


def _acosh(x, y):
    yield _is_zero(x) & hm.isnan(y), _nan, _half
    yield hm.isinf(x) & hm.isinf(y), _inf, hm.copysign(_angle(x), y)
    yield hm.isinf(x) & hm.isnan(y), _inf, _nan
    yield hm.isnan(x) & hm.isinf(y), _inf, _nan


def _asinh(x, y):
    yield hm.isfinite(x) & hm.isinf(y), hm.copysign(hm.full_like(x, _inf), x), hm.copysign(hm.full_like(y, _half), y)
    yield hm.isnan(x) & _is_zero(y), _nan, y
    yield hm.isnan(x) & hm.isinf(y), _inf, _nan


def _atanh(x, y):
    zero = hm.copysign(hm.zeros_like(x), x)
    yield _is_zero(x) & hm.isnan(y), zero, _nan
    yield hm.isinf(x) & hm.isnan(y), zero, _nan
    yield hm.isnan(x) & hm.isinf(y), 0.0, hm.copysign(hm.full_like(y, _half), y)


def _complex_function(op, rules):
    """An op, which for complex numbers has the parts that the first rule whose condition holds names."""

    def function(z):
        result = op(z)
        if z.dtype not in kinds["complex floating"]:
            return result
        x, y = hm.real(z), hm.imag(z)
        real, imag = hm.real(result), hm.imag(result)
        for condition, a, b in reversed(list(rules(x, y))):
            real = hm.where(condition, a if isinstance(a, hm.Tensor) else hm.full_like(x, a), real)
            imag = hm.where(condition, b if isinstance(b, hm.Tensor) else hm.full_like(y, b), imag)
        return hm.complex(real, imag)

    function.__doc__ = op.__doc__
    return function


def sign(x):
    """The sign of each element; NaN where it is none, and of complex numbers the one of size one."""
    if x.dtype in kinds["complex floating"]:
        return hm.sgn(x)
    if x.dtype in kinds["real floating"]:
        return hm.where(hm.isnan(x), x, hm.sign(x))
    return hm.sign(x)


def floor_divide(x1, x2):
    """Quotients rounded down."""
    result = hm.floor_divide(x1, x2)
    if x1.dtype not in kinds["real floating"]:
        return result
    return hm.where(hm.isinf(x1) ^ hm.isinf(x2), hm.floor(x1 / x2), result)


def remainder(x1, x2):
    """What division with quotients rounded down leaves, with the sign of `x2`."""
    result = hm.remainder(x1, x2)
    if x1.dtype not in kinds["real floating"]:
        return result
    return hm.where(result == 0, hm.copysign(result, x2), result)


def round(x):
    """The nearest whole numbers, the even one of two; of complex numbers those of both parts."""
    if x.dtype in kinds["complex floating"]:
        return hm.complex(hm.round(hm.real(x)), hm.round(hm.imag(x)))
    return hm.round(x)


special = {
    "acos": _complex_function(hm.acos, _acos),
    "acosh": _complex_function(hm.acosh, _acosh),
    "asinh": _complex_function(hm.asinh, _asinh),
    "atanh": _complex_function(hm.atanh, _atanh),
    "cosh": _complex_function(hm.cosh, _cosh),
    "exp": _complex_function(hm.exp, _exp),
    "expm1": _complex_function(hm.expm1, _expm1),
    "floor_divide": floor_divide,
    "remainder": remainder,
    "round": round,
    "sign": sign,
    "sinh": _complex_function(hm.sinh, _sinh),
    "tanh": _complex_function(hm.tanh, _tanh),
}
