"""Ops written in Python, of NumPy arrays."""

from . import _hammock
from ._autograd import Function
from ._hammock import Tensor


class CustomOp:
    """An op whose values a Python function of NumPy arrays computes. It is a node of recorded graphs as any other.

    `infer` says what the results are, from tensors whose values are not known yet: a (shape, dtype), or a list of them.
    `forward` computes them when the step runs, on any thread. `backward`, if there is one, is written in tensors.

    >>> class Cube(hm.CustomOp):
    ...     def infer(x):
    ...         return x.shape, x.dtype
    ...     def forward(x):
    ...         return x ** 3
    ...     def backward(inputs, outputs, grad):
    ...         return grad * 3 * inputs[0] ** 2
    >>> x = hm.tensor([1.0, 2.0], requires_grad=True)
    >>> Cube.apply(x).sum().backward()
    >>> x.grad
    tensor([ 3., 12.])
    """

    infer = forward = backward = None

    def __init_subclass__(cls):
        # Functions of the class, as they are written in its body.
        for name in ("infer", "forward", "backward"):
            function = cls.__dict__.get(name)
            if callable(function):
                setattr(cls, name, staticmethod(function))

    @classmethod
    def apply(cls, *tensors):
        """Records the op; returns its result, or a tuple of several."""
        for each in tensors:
            if not isinstance(each, Tensor):
                raise _hammock.TypeError(f"{cls.__name__}: takes tensors, not {type(each).__name__}")
        if cls.backward is None or not any(each.requires_grad for each in tensors):
            return _record(cls, tensors)
        return _Differentiable.apply(cls, *tensors)


def _record(op, tensors):
    if op.infer is None or op.forward is None:
        raise _hammock.TypeError(f"{op.__name__}: a custom op needs infer and forward")
    results, single = _results(op.infer(*tensors))
    types = [f"{dtype.short_name}[{','.join(str(size) for size in shape)}]" for shape, dtype in results]
    outputs = _hammock.ops["custom_call"](list(tensors), _target(op), "", types)
    return outputs[0] if single else tuple(outputs)


def _results(said):
    """What `infer` returned as a list, and whether it was one result."""
    single = len(said) == 2 and isinstance(said[1], _hammock.dtype)
    return ([said] if single else list(said)), single


def _target(op):
    """The name under which steps find `forward`; registered once for each class."""
    if "_registered" not in op.__dict__:
        op._registered = f"python.{op.__module__}.{op.__qualname__}.{id(op)}"

        def call(arrays, payload):
            import numpy

            made = op.forward(*arrays)
            return [numpy.asarray(each) for each in (made if isinstance(made, (tuple, list)) else [made])]

        _hammock.register_array_function(op._registered, call)
    return op._registered


class _Differentiable(Function):
    """The tape's part of a custom op."""

    @staticmethod
    def forward(ctx, op, *tensors):
        made = _record(op, tensors)
        outputs = made if isinstance(made, tuple) else (made,)
        ctx.op, ctx.count = op, len(tensors)
        ctx.save_for_backward(*tensors, *outputs)
        return made

    @staticmethod
    def backward(ctx, *grads):
        saved = ctx.saved_tensors
        given = ctx.op.backward(saved[: ctx.count], saved[ctx.count :], *grads)
        return (None, *(given if isinstance(given, (tuple, list)) else (given,)))
