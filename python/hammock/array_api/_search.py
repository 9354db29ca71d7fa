"""Functions that search, sort and select."""

from collections import namedtuple

import hammock as hm

from .. import _hammock
from .._hammock import Tensor
from ._array import Array, together

UniqueAll = namedtuple("UniqueAll", "values indices inverse_indices counts")
UniqueCounts = namedtuple("UniqueCounts", "values counts")
UniqueInverse = namedtuple("UniqueInverse", "values inverse_indices")


def argmax(x, /, *, axis=None, keepdims=False):
    """Where the largest element is."""
    return Array(_arg(hm.argmax, x, axis, keepdims))


def argmin(x, /, *, axis=None, keepdims=False):
    """Where the smallest element is."""
    return Array(_arg(hm.argmin, x, axis, keepdims))


def _arg(op, x, axis, keepdims):
    if axis is None:
        found = op(x.reshape((-1,)), 0)
        return found.reshape((1,) * x.ndim) if keepdims else found
    return op(x, axis, keepdims)


def count_nonzero(x, /, *, axis=None, keepdims=False):
    """How many elements are not zero."""
    from ._statistics import sum

    return sum((x != 0).to(_hammock.int64), axis=axis, keepdims=keepdims)


def nonzero(x, /):
    """The indices of elements that are not zero, one array for each axis."""
    if x.ndim == 0:
        raise _hammock.ValueError("nonzero: takes arrays of one dim and more")
    return tuple(Array(each) for each in hm.nonzero(x, as_tuple=True))


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    """Where values belong in a sorted array."""
    if not isinstance(x2, Tensor):
        x2 = together(x1, x2)[1]
    a, b = together(x1, x2)
    if sorter is not None:
        a = hm.take(a, sorter.to(_hammock.int64))
    return Array(hm.searchsorted(a, b, side=side))


def where(condition, x1, x2, /):
    """Elements of `x1` where the condition holds, of `x2` elsewhere."""
    pair = together(x1, x2)
    if pair is None:
        x1 = _hammock.tensor(x1)
        pair = together(x1, x2)
    return Array(hm.where(condition, *pair))


def take(x, indices, /, *, axis=None):
    """Slices along an axis by their indices."""
    if axis is None:
        if x.ndim != 1:
            raise _hammock.ValueError(f"take: an array of {x.ndim} dims needs an axis")
        axis = 0
    axis %= x.ndim
    flat = hm.index_select(x, axis, _wrapped(indices.reshape((-1,)), x.shape[axis]))
    return Array(flat.reshape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])))


def take_along_axis(x, indices, /, *, axis=-1):
    """Elements along an axis by an index for each."""
    return Array(hm.take_along_dim(x, _wrapped(indices, x.shape[axis]), axis))


def _wrapped(indices, size):
    indices = indices.to(_hammock.int64)
    return hm.where(indices < 0, indices + size, indices)


def isin(x1, x2, /, *, invert=False):
    """Which elements of `x1` are among those of `x2`."""
    a, b = together(x1, x2)
    found = (a.unsqueeze(-1) == b.reshape((-1,))).any(-1)
    return Array(found.logical_not() if invert else found)


def unique_values(x, /):
    """The distinct elements."""
    return Array(_distinct(x)[0])


def unique_counts(x, /):
    """The distinct elements, and how often each is there."""
    values, _, _, counts = _distinct(x)
    return UniqueCounts(Array(values), Array(counts))


def unique_inverse(x, /):
    """The distinct elements, and which of them each element is."""
    values, _, inverse, _ = _distinct(x)
    return UniqueInverse(Array(values), Array(inverse))


def unique_all(x, /):
    """The distinct elements, where each is first, which of them each element is, and how often each is there."""
    return UniqueAll(*[Array(each) for each in _distinct(x)])


def _distinct(x):
    """Sorted elements cut where neighbours differ: every NaN is an element of its own."""
    flat = x.reshape((-1,))
    if flat.shape[0] == 0:
        none = hm.zeros((0,), dtype=_hammock.int64)
        return flat, none, none.reshape(x.shape), none
    order = _order(flat)
    ordered = flat[order]
    first = hm.ones((1,), dtype=_hammock.bool)
    begins = hm.cat([first, ordered[1:] != ordered[:-1]])
    starts = hm.nonzero(begins, as_tuple=True)[0]
    ends = hm.cat([starts[1:], hm.full((1,), flat.shape[0], dtype=_hammock.int64)])
    group = begins.to(_hammock.int64).cumsum(0) - 1
    inverse = hm.zeros(flat.shape, dtype=_hammock.int64).scatter(0, order, group)
    return ordered[starts], order[starts], inverse.reshape(x.shape), ends - starts


def _order(flat):
    if flat.dtype not in (_hammock.complex64, _hammock.complex128):
        return hm.argsort(flat, 0, stable=True)
    by_imag = hm.argsort(hm.imag(flat), 0, stable=True)
    return by_imag[hm.argsort(hm.real(flat)[by_imag], 0, stable=True)]


def sort(x, /, *, axis=-1, descending=False, stable=True):
    """The elements in order along an axis."""
    return Array(hm.sort(x, axis, descending, True)[0] if x.ndim else x.clone())


def argsort(x, /, *, axis=-1, descending=False, stable=True):
    """The indices of the elements in order along an axis."""
    return Array(hm.argsort(x, axis, descending, True))
