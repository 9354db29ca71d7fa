"""Reductions and running totals."""

import builtins

import hammock as hm

from .. import _hammock
from ._array import Array, kinds
from ._dtypes import result_type


def _axes(x, axis):
    """The axes that a reduction takes away, all by default."""
    if axis is None:
        return list(range(x.ndim))
    axes = [axis] if isinstance(axis, int) else list(axis)
    for each in axes:
        if not -x.ndim <= each < x.ndim:
            raise _hammock.IndexError(f"axis {each} is not within {x.ndim} dims")
    return [each % x.ndim for each in axes]


def _flat(x, axis, keepdims):
    """The reduced axes as one, the last; and the shape of the result."""
    axes = _axes(x, axis)
    kept = [each for each in range(x.ndim) if each not in axes]
    shape = [1 if each in axes else x.shape[each] for each in range(x.ndim) if keepdims or each not in axes]
    size = 1
    for each in axes:
        size *= x.shape[each]
    rows = x.permute([*kept, *axes]) if x.ndim else x
    return rows.reshape([*[x.shape[each] for each in kept], size]), shape


def _total_dtype(x, dtype):
    """Totals of small integers are those of the default integers."""
    if dtype is not None:
        return dtype
    if x.dtype in kinds["signed integer"]:
        return _hammock.int64
    return _hammock.uint64 if x.dtype in kinds["unsigned integer"] else x.dtype


def sum(x, /, *, axis=None, dtype=None, keepdims=False):
    """The total."""
    rows, shape = _flat(x, axis, keepdims)
    dtype = _total_dtype(x, dtype)
    return Array(hm.sum(rows.to(dtype), -1, dtype=dtype).reshape(shape))


def prod(x, /, *, axis=None, dtype=None, keepdims=False):
    """The product."""
    rows, shape = _flat(x, axis, keepdims)
    dtype = _total_dtype(x, dtype)
    return Array(hm.prod(rows.to(dtype), -1, dtype=dtype).reshape(shape))


def max(x, /, *, axis=None, keepdims=False):
    """The largest element."""
    rows, shape = _flat(x, axis, keepdims)
    return Array(hm.amax(rows, -1).reshape(shape))


def min(x, /, *, axis=None, keepdims=False):
    """The smallest element."""
    rows, shape = _flat(x, axis, keepdims)
    return Array(hm.amin(rows, -1).reshape(shape))


def mean(x, /, *, axis=None, keepdims=False):
    """The mean."""
    rows, shape = _flat(x, axis, keepdims)
    return Array(hm.mean(rows, -1).reshape(shape))


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    """The variance: squares divided by the count less `correction`."""
    rows, shape = _flat(x, axis, keepdims)
    squares = hm.square(rows - hm.mean(rows, -1, True)).sum(-1)
    return Array((squares / (rows.shape[-1] - correction)).reshape(shape) if rows.shape[-1] != correction else
                 (squares / _hammock.tensor(0.0, dtype=x.dtype)).reshape(shape))


def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    """The standard deviation."""
    return Array(hm.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims)))


def all(x, /, *, axis=None, keepdims=False):
    """Whether all elements hold."""
    rows, shape = _flat(x, axis, keepdims)
    return Array(hm.all(rows != 0, -1).reshape(shape))


def any(x, /, *, axis=None, keepdims=False):
    """Whether one of the elements holds."""
    rows, shape = _flat(x, axis, keepdims)
    return Array(hm.any(rows != 0, -1).reshape(shape))


def _cumulative(op, start, x, axis, dtype, include_initial):
    if axis is None:
        if x.ndim > 1:
            raise _hammock.ValueError(f"an array of {x.ndim} dims needs an axis")
        x, axis = x.reshape((-1,)), 0
    dtype = _total_dtype(x, dtype)
    totals = op(x.to(dtype), axis, dtype=dtype)
    if include_initial:
        shape = list(x.shape)
        shape[axis] = 1
        totals = hm.cat([hm.full(shape, start, dtype=dtype, device=x.device), totals], axis)
    return Array(totals)


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    """Running totals."""
    return _cumulative(hm.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    """Running products."""
    return _cumulative(hm.cumprod, 1, x, axis, dtype, include_initial)


def diff(x, /, *, axis=-1, n=1, prepend=None, append=None):
    """Differences of neighbours, `n` times."""
    parts = [each for each in (prepend, x, append) if each is not None]
    if builtins.len(parts) > 1:
        dtype = result_type(*parts)
        x = hm.cat([each.to(dtype) for each in parts], axis)
    for _ in range(n):
        size = x.shape[axis]
        after, before = hm.narrow(x, axis, 1, size - 1), hm.narrow(x, axis, 0, size - 1)
        x = after != before if x.dtype is _hammock.bool else after - before
    return Array(x)
