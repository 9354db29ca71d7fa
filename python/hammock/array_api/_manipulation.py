"""Functions that change shapes."""

import hammock as hm

from .. import _hammock
from .._hammock import Tensor
from ._array import Array
from ._dtypes import result_type


def _axes(axis):
    return (axis,) if isinstance(axis, int) else tuple(axis)


def broadcast_shapes(*shapes):
    """The shape that arrays of these broadcast to."""
    return tuple(hm.broadcast_shapes([list(shape) for shape in shapes])) if shapes else ()


def broadcast_arrays(*arrays):
    """Arrays expanded to one shape."""
    shape = broadcast_shapes(*[each.shape for each in arrays])
    return tuple(broadcast_to(each, shape) for each in arrays)


def broadcast_to(x, /, shape):
    """The array expanded to a shape."""
    return Array(hm.broadcast_to(x, tuple(shape)))


def concat(arrays, /, *, axis=0):
    """Arrays one after the other along an axis; axis=None: flat ones."""
    dtype = result_type(*arrays)
    same = [each.to(dtype) for each in arrays]
    if axis is None:
        same, axis = [each.reshape((-1,)) for each in same], 0
    return Array(hm.cat(same, axis))


def expand_dims(x, /, axis):
    """Axes of size one at the places `axis` of the result."""
    axes = _axes(axis)
    ndim = x.ndim + len(axes)
    if any(not -ndim <= each < ndim for each in axes):
        raise _hammock.IndexError(f"expand_dims: axis {axis} is not within {ndim} dims")
    places = sorted(each % ndim for each in axes)
    if len(set(places)) < len(places):
        raise _hammock.ValueError(f"expand_dims: an axis is named twice in {axis}")
    for place in places:
        x = x.unsqueeze(place)
    return Array(x)


def flip(x, /, *, axis=None):
    """The order along axes reversed; along all by default."""
    axes = range(x.ndim) if axis is None else _axes(axis)
    return Array(hm.flip(x, [each % x.ndim for each in axes]) if x.ndim else x.clone())


def moveaxis(x, source, destination, /):
    """Axes moved to other places."""
    return Array(hm.movedim(x, _axes(source), _axes(destination)))


def permute_dims(x, /, axes):
    """Axes in another order."""
    return Array(hm.permute(x, list(axes)))


def repeat(x, repeats, /, *, axis=None):
    """Each element, or each slice along an axis, several times."""
    if axis is None:
        x, axis = x.reshape((-1,)), 0
    if isinstance(repeats, (tuple, list)):
        repeats = _hammock.tensor(list(repeats), dtype=_hammock.int64)
    if isinstance(repeats, Tensor):
        repeats = repeats.to(_hammock.int64).expand((x.shape[axis],))
    return Array(hm.repeat_interleave(x, repeats, axis))


def reshape(x, /, shape, *, copy=None):
    """The elements in another shape."""
    return Array(hm.reshape(x.clone() if copy else x, tuple(shape)))


def roll(x, /, shift, *, axis=None):
    """Elements moved along axes; what leaves at one end enters at the other."""
    if axis is None:
        return Array(hm.roll(x, shift)) if x.ndim else Array(x.clone())
    axes = _axes(axis)
    shifts = [shift] * len(axes) if isinstance(shift, int) else list(shift)
    return Array(hm.roll(x, shifts, list(axes)))


def squeeze(x, /, axis):
    """Without axes of size one."""
    axes = sorted({each % x.ndim if -x.ndim <= each < x.ndim else each for each in _axes(axis)}, reverse=True)
    for each in axes:
        if not 0 <= each < x.ndim:
            raise _hammock.IndexError(f"squeeze: axis {each} is not within {x.ndim} dims")
        if x.shape[each] != 1:
            raise _hammock.ValueError(f"squeeze: axis {each} has size {x.shape[each]}, not 1")
        x = x.squeeze(each)
    return Array(x)


def stack(arrays, /, *, axis=0):
    """Arrays along a new axis."""
    dtype = result_type(*arrays)
    return Array(hm.stack([each.to(dtype) for each in arrays], axis))


def tile(x, repetitions, /):
    """The array repeated along its axes."""
    repetitions = tuple(repetitions)
    return Array(hm.tile(x, repetitions) if repetitions else x.clone())


def unstack(x, /, *, axis=0):
    """The slices along an axis."""
    return tuple(Array(each) for each in hm.unbind(x, axis))
