"""Branches and loops that are decided while a step runs, written as functions."""

from . import _hammock
from ._compile import _holders_in, _State
from ._hammock import Tensor
from ._tree import flatten, key_of, unflatten


class _Leaves:
    """Nested arguments: their tensors, which are traced, and values that are fixed."""

    def __init__(self, name, value):
        self.values, self.structure = flatten(value)
        self.places = [i for i, leaf in enumerate(self.values) if isinstance(leaf, Tensor)]
        self.tensors = [self.values[i] for i in self.places]
        self.name = name

    def build(self, tensors):
        values = list(self.values)
        for place, tensor in zip(self.places, tensors):
            values[place] = tensor
        return unflatten(self.structure, values)


def _results(name, value):
    """The tensors of what a function returned, and how they are nested."""
    leaves, structure = flatten(value)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise _hammock.TypeError(f"{name}: the function must return tensors, nested or not, not {type(leaf).__name__}")
    return leaves, structure


def _used(*functions):
    """Tensors with gradients that functions refer to, also those of modules."""
    state = _State([holder for function in functions for holder in _holders_in(function)])
    return [tensor for tensor in state.unique_tensors() if tensor.requires_grad]


def _same(name, first, second, what):
    if key_of(first) != key_of(second):
        raise _hammock.ValueError(f"{name}: {what}")


def cond(pred, true_fn, false_fn, operands=()):
    """`true_fn(*operands)` where `pred` holds, else `false_fn(*operands)`: decided when the step runs, with one compilation for both.

    `pred` is a bool tensor of one element; a Python bool chooses at once. Both functions are called once, with tensors that
    have no values, and return tensors of the same dtypes and shapes, nested alike. They may write their arguments, but no other
    tensors: such a write would happen at the call, whatever `pred` is. Gradients reach the operands, and tensors and modules
    that the functions refer to.

    >>> import hammock as hm
    >>> x = hm.tensor([1.0, -3.0])
    >>> hm.cond(x.sum() > 0, lambda x: x * 2, lambda x: -x, (x,))
    tensor([-1.,  3.])
    """
    if not isinstance(pred, Tensor):
        if not isinstance(pred, bool):
            raise _hammock.TypeError(f"cond: pred must be a bool or a bool tensor of one element, not {type(pred).__name__}")
        return true_fn(*operands) if pred else false_fn(*operands)
    arguments, structures = _Leaves("cond", list(operands)), []

    def flat(function):
        def call(tensors):
            leaves, structure = _results("cond", function(*arguments.build(tensors)))
            structures.append(structure)
            return leaves

        return call

    outputs = _hammock.cond(pred, flat(true_fn), flat(false_fn), arguments.tensors, _used(true_fn, false_fn))
    _same("cond", *structures, "the results of true_fn and false_fn are not nested alike")
    return unflatten(structures[0], outputs)


def while_loop(cond_fn, body_fn, carried):
    """`carried = body_fn(*carried)` as long as `cond_fn(*carried)`, a bool tensor of one element, holds: decided when the step runs.

    `carried` is a list or tuple of tensors, nested or not; `body_fn` returns what is nested alike, with the same dtypes and
    shapes. Functions are called once, with tensors that have no values. There are no gradients.

    >>> import hammock as hm
    >>> hm.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (hm.tensor(0), hm.tensor(1.0)))
    (tensor(3), tensor(8.))
    """
    arguments = _Leaves("while_loop", carried)
    if not isinstance(carried, (list, tuple)) or len(arguments.places) != len(arguments.values):
        raise _hammock.TypeError("while_loop: carried must be a list or tuple of tensors, nested or not")

    def condition(tensors):
        return _results("while_loop", [cond_fn(*arguments.build(tensors))])[0]

    def body(tensors):
        value = body_fn(*arguments.build(tensors))
        leaves, structure = _results("while_loop", type(carried)(value) if isinstance(value, (list, tuple)) else value)
        _same("while_loop", structure, arguments.structure, "the result of body_fn is not nested as carried is")
        return leaves

    if any(tensor.requires_grad for tensor in arguments.tensors) and _hammock.is_grad_enabled():
        raise _hammock.NotSupported("while_loop: there are no gradients of a loop whose length is not known; use hm.loop, or detach()")
    return unflatten(arguments.structure, _hammock.while_loop(condition, body, arguments.tensors))


def loop(count, body, carried, stacked=()):
    """Calls `body(i, carried, slices)` for each i below `count`, in one node of the graph: it returns the new carried values and
    further results, whose slices are stacked along a new dim 0. Returns the last carried values and the stacked results.

    `carried` and `stacked` are tensors, nested or not; `slices` are elements i of dim 0 of the stacked ones. Gradients reach both,
    and tensors and modules that `body` refers to.

    >>> import hammock as hm
    >>> def running(i, total, row):
    ...     return total + row, total + row
    >>> hm.loop(3, running, hm.zeros(2), hm.ones(3, 2))
    (tensor([3., 3.]), tensor([[1., 1.],
            [2., 2.],
            [3., 3.]]))
    """
    state, rows, structures = _Leaves("loop", carried), _Leaves("loop", stacked), []

    def call(tensors):
        index, rest = tensors[0], tensors[1:]
        split = len(state.tensors)
        value = body(index, state.build(rest[:split]), rows.build(rest[split:]))
        if not isinstance(value, tuple) or len(value) != 2:
            raise _hammock.TypeError("loop: body must return a pair: the new carried values, and further results or None")
        new, structure = _results("loop", value[0])
        _same("loop", structure, state.structure, "the carried values that body returns are not nested as before")
        more, structure = _results("loop", value[1])
        structures.append(structure)
        return [*new, *more]

    if len(state.places) != len(state.values) or len(rows.places) != len(rows.values):
        raise _hammock.TypeError("loop: carried and stacked must be tensors, nested or not")
    outputs = _hammock.for_loop(count, call, state.tensors, rows.tensors, _used(body))
    split = len(state.tensors)
    return unflatten(state.structure, outputs[:split]), unflatten(structures[0], outputs[split:])
