"""Functions that make arrays."""

import hammock as hm

from .. import _hammock
from .._hammock import Tensor
from ._array import Array, kinds


def _shape(shape):
    return (shape,) if isinstance(shape, int) else tuple(shape)


def asarray(obj, /, *, dtype=None, device=None, copy=None):
    """An array of a tensor, a number, nested sequences, or memory of others. Tensors are shared unless copy=True."""
    if isinstance(obj, Tensor):
        made = _hammock.asarray(obj, dtype=dtype, device=device, copy=False if copy is False else None)
        return Array(obj.clone() if copy and _hammock.is_same(made, obj) else made)
    if isinstance(obj, (bool, int, float, complex, list, tuple, range)):
        if copy is False:
            raise _hammock.ValueError("asarray: copy=False, but Python's numbers need a copy")
        return Array(_hammock.tensor(_nested(obj), dtype=dtype, device=device))
    return Array(_hammock.asarray(obj, dtype=dtype, device=device, copy=copy))


def _nested(obj):
    """Arrays among the sequences as numbers."""
    if isinstance(obj, Tensor):
        return obj.tolist()
    if isinstance(obj, (list, tuple, range)):
        return [_nested(each) for each in obj]
    return obj


def from_dlpack(x, /, *, device=None, copy=None):
    """An array of another library's."""
    made = _hammock.from_dlpack(x, copy=copy)
    return Array(made if device is None else made.to(device))


def arange(start, /, stop=None, step=1, *, dtype=None, device=None):
    """Evenly spaced values in [start, stop)."""
    if stop is None:
        start, stop = 0, start
    if dtype is None:
        integers = all(isinstance(each, int) for each in (start, stop, step))
        dtype = _hammock.int64 if integers else _hammock.float32
    if (stop - start) * step <= 0:
        return zeros((0,), dtype=dtype, device=device)
    return Array(hm.arange(start, stop, step, dtype=dtype, device=device))


def empty(shape, *, dtype=None, device=None):
    """An array of any values."""
    return Array(hm.empty(_shape(shape), dtype=dtype, device=device))


def zeros(shape, *, dtype=None, device=None):
    """An array of zeros."""
    return Array(hm.zeros(_shape(shape), dtype=dtype, device=device))


def ones(shape, *, dtype=None, device=None):
    """An array of ones."""
    return Array(hm.ones(_shape(shape), dtype=dtype, device=device))


def full(shape, fill_value, *, dtype=None, device=None):
    """An array of one value."""
    if isinstance(fill_value, Tensor):
        return Array(fill_value.to(dtype or fill_value.dtype).expand(_shape(shape)).clone())
    value = _hammock.tensor(fill_value, dtype=dtype, device=device)
    return Array(value.expand(_shape(shape)).clone())


def empty_like(x, /, *, dtype=None, device=None):
    """An array of any values, of the shape and dtype of `x`."""
    return empty(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def zeros_like(x, /, *, dtype=None, device=None):
    """Zeros of the shape and dtype of `x`."""
    return zeros(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def ones_like(x, /, *, dtype=None, device=None):
    """Ones of the shape and dtype of `x`."""
    return ones(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def full_like(x, /, fill_value, *, dtype=None, device=None):
    """One value, of the shape and dtype of `x`."""
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=device or x.device)


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    """Ones on the `k`-th diagonal, zeros elsewhere."""
    n_cols = n_rows if n_cols is None else n_cols
    k = max(-n_rows, min(k, n_cols))  # diagonals outside are all empty
    rows = hm.arange(n_rows, device=device).unsqueeze(1)
    columns = hm.arange(n_cols, device=device).unsqueeze(0)
    return Array((columns - rows == k).to(dtype or _hammock.float32))


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    """`num` evenly spaced values from `start` to `stop`, which is the last one unless endpoint=False."""
    whole = complex if isinstance(start, complex) or isinstance(stop, complex) else float
    if dtype is None:
        dtype = _hammock.complex64 if whole is complex else _hammock.float32
    steps = num - 1 if endpoint else num
    if num == 0:
        return zeros((0,), dtype=dtype, device=device)
    wide = _hammock.complex128 if dtype in kinds["complex floating"] else _hammock.float64
    places = hm.arange(num, device=device).to(wide)
    # From both ends, so that the last value is `stop` itself.
    fraction = places / max(steps, 1)
    first, last = _hammock.tensor(whole(start), dtype=wide), _hammock.tensor(whole(stop), dtype=wide)
    values = hm.where((fraction.real if wide is _hammock.complex128 else fraction) < 0.5,
                      first + fraction * (last - first), last - (1 - fraction) * (last - first))
    if num == 1:
        values = first.expand((1,))
    return Array(values.to(dtype))


def meshgrid(*arrays, indexing="xy"):
    """Coordinates of a grid, one array for each of its axes."""
    if not arrays:
        return ()
    return tuple(Array(each) for each in hm.meshgrid(list(arrays), indexing=indexing))


def tril(x, /, *, k=0):
    """The part below the `k`-th diagonal and on it."""
    return Array(hm.tril(x, k))


def triu(x, /, *, k=0):
    """The part above the `k`-th diagonal and on it."""
    return Array(hm.triu(x, k))
