"""Gradients of functions, and custom ones."""

from . import _hammock
from ._hammock import Tensor
from ._tree import flatten, unflatten


_GENERATOR = 0x20  # inspect.CO_GENERATOR: importing inspect takes longer than all of Hammock


def _wraps(function):
    import functools  # a sixth of the instructions of importing Hammock

    return functools.wraps(function)


class _Mode:
    """A scope, as context manager and as decorator."""

    def __call__(self, function):
        code = getattr(function, "__code__", None)
        if code is not None and code.co_flags & _GENERATOR:

            @_wraps(function)
            def generate(*args, **kwargs):
                with self._again():
                    yield from function(*args, **kwargs)

            return generate

        @_wraps(function)
        def call(*args, **kwargs):
            with self._again():
                return function(*args, **kwargs)

        return call

    def _again(self):
        return self


class set_grad_enabled(_Mode):
    """Ops of this thread record history, or do not, until the end of the scope."""

    def __init__(self, mode):
        self._on = bool(mode)
        self._scopes = []

    def __enter__(self):
        self._scopes.append(_hammock.GradMode())
        self._scopes[-1].enter(self._on)

    def __exit__(self, *exception):
        self._scopes.pop().exit()

    def _again(self):
        return set_grad_enabled(self._on)


class no_grad(set_grad_enabled):
    """Ops record no history, as in PyTorch: `with hm.no_grad():` or `@hm.no_grad()`."""

    def __new__(cls, function=None):
        mode = super().__new__(cls)
        if function is None:
            return mode
        mode.__init__()
        return mode(function)  # @hm.no_grad

    def __init__(self, function=None):
        super().__init__(False)


class inference_mode(no_grad):
    """The same as no_grad."""


class enable_grad(set_grad_enabled):
    """Ops record history again, inside of no_grad."""

    def __init__(self):
        super().__init__(True)


class autocast(_Mode):
    """Mixed precision: ops that gain from 16 bits get them, and ops that need float32 get that."""

    def __init__(self, dtype=None, *, device_type=None, enabled=True):
        if isinstance(dtype, str) and _hammock.find_op(dtype) is None and dtype in ("cpu", "cuda"):
            dtype = None  # as PyTorch's first argument
        self._dtype = (dtype or _hammock.bfloat16) if enabled else None
        self._scopes = []

    def __enter__(self):
        self._scopes.append(_hammock.AutocastMode())
        self._scopes[-1].enter(self._dtype)

    def __exit__(self, *exception):
        self._scopes.pop().exit()


def _check_float(name, leaves):
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise _hammock.TypeError(f"{name}: differentiates tensors, not {type(leaf).__name__}")


def _variables(leaves):
    """The leaves as tensors of their own whose history begins here."""
    return [leaf.view_as(leaf) if leaf.requires_grad else leaf.detach().requires_grad_() for leaf in leaves]


class Selected:
    """The arguments `argnums` of a call by which a transform `name` differentiates: their tensors are `leaves`."""

    def __init__(self, name, argnums, args):
        numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        for number in numbers:
            if not -len(args) <= number < len(args):
                raise _hammock.ValueError(f"{name}: there is no argument {number} among {len(args)}")
        self._single = isinstance(argnums, int)
        self._numbers = [number % len(args) for number in numbers]
        self._args = args
        self.leaves, self._structure = flatten([args[number] for number in self._numbers])
        _check_float(name, self.leaves)

    def replaced(self, leaves):
        """All arguments of the call, with these leaves in place of its own."""
        args = list(self._args)
        for number, value in zip(self._numbers, unflatten(self._structure, leaves)):
            args[number] = value
        return args

    def nested(self, values):
        """A value for each leaf, nested as the arguments are."""
        nested = unflatten(self._structure, values)
        return nested[0] if self._single else tuple(nested)


def value_and_grad(function, argnums=0, has_aux=False):
    """A function that returns `function`'s value and its gradients with respect to the arguments `argnums`, nested
    as these are.

    >>> import hammock as hm
    >>> hm.value_and_grad(lambda x: (x * x).sum())(hm.tensor([1.0, 2.0]))
    (tensor(5.), tensor([2., 4.]))
    """

    @_wraps(function)
    def call(*args, **kwargs):
        selected = Selected("grad", argnums, args)
        leaves = selected.leaves
        with enable_grad():
            variables = _variables(leaves)
            result = function(*selected.replaced(variables), **kwargs)
            value, aux = result if has_aux else (result, None)
            if not isinstance(value, Tensor) or value.numel() != 1:
                raise _hammock.TypeError("grad: the function must return a tensor of one element")
            grads = [None] * len(variables)
            if value.requires_grad:  # else it depends on none of them
                grads = _hammock.grad([value], variables, [], None, is_grad_needed(leaves), True)
        grads = [variable.new_zeros(list(variable.shape)) if grad is None else grad for grad, variable in zip(grads, variables)]
        value = value if is_grad_needed(leaves) else value.detach()
        return ((value, aux) if has_aux else value), selected.nested(grads)

    return call


def is_grad_needed(leaves):
    """Whether gradients of gradients are wanted: an outer function differentiates the leaves."""
    return any(leaf.requires_grad for leaf in leaves)


def grad(function, argnums=0, grad_outputs=None, *, has_aux=False, retain_graph=None, create_graph=False,
         allow_unused=False):
    """The gradient of a function, as a function: `hm.grad(f)(x)`; or, given tensors, the gradients of outputs with
    respect to inputs: `hm.grad(loss, [w, b])`.

    >>> import hammock as hm
    >>> hm.grad(lambda x: (x ** 3).sum())(hm.tensor([1.0, 2.0]))
    tensor([ 3., 12.])
    """
    if not callable(function) or isinstance(function, Tensor):
        as_list = lambda value: [value] if isinstance(value, Tensor) else list(value or ())  # noqa: E731
        return tuple(
            _hammock.grad(as_list(function), as_list(argnums), as_list(grad_outputs), retain_graph,
                          create_graph, allow_unused))
    both = value_and_grad(function, argnums, has_aux)

    @_wraps(function)
    def call(*args, **kwargs):
        value, grads = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return call


def vjp(function, *primals):
    """`function(*primals)`, and the function that takes gradients of it back to gradients of the primals."""
    leaves, structure = flatten(list(primals))
    _check_float("vjp", leaves)
    with enable_grad():
        variables = _variables(leaves)
        outputs = function(*unflatten(structure, variables))
    out_leaves, out_structure = flatten(outputs)

    def pull_back(gradients):
        given, _ = flatten(gradients)
        depend = [(leaf, gradient) for leaf, gradient in zip(out_leaves, given) if leaf.requires_grad]
        grads = [None] * len(variables)
        if depend:
            outputs, arriving = map(list, zip(*depend))
            grads = _hammock.grad(outputs, variables, arriving, True, is_grad_needed(given), True)
        grads = [v.new_zeros(list(v.shape)) if g is None else g for g, v in zip(grads, variables)]
        return tuple(unflatten(structure, grads))

    return unflatten(out_structure, [leaf.detach() if not is_grad_needed(leaves) else leaf for leaf in out_leaves]), pull_back


def jvp(function, primals, tangents):
    """`function(*primals)` and its derivative along the tangents."""
    leaves, structure = flatten(list(primals))
    directions, _ = flatten(list(tangents))
    shape = []

    def flat(inputs):
        outputs, out_structure = flatten(function(*unflatten(structure, inputs)))
        shape[:] = [out_structure]
        return outputs

    outputs, derivatives = _hammock.jvp(flat, leaves, directions)
    return unflatten(shape[0], outputs), unflatten(shape[0], derivatives)


def checkpoint(function, *args):
    """`function(*args)`, without keeping what its backward pass needs: that is computed again."""
    leaves, structure = flatten(list(args))
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    shape = []

    def flat(inputs):
        given = iter(inputs)
        values = [next(given) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        outputs, out_structure = flatten(function(*unflatten(structure, values)))
        shape[:] = [out_structure]
        return outputs

    outputs = _hammock.checkpoint(flat, tensors)
    return unflatten(shape[0], outputs)


class FunctionContext:
    """What forward hands to backward in a custom function."""

    def __init__(self, needs_input_grad):
        self.needs_input_grad = needs_input_grad
        self.saved_tensors = ()
        self._to_save = ()
        self._non_differentiable = ()
        self._materialize = True

    def save_for_backward(self, *tensors):
        """Inputs, outputs or other tensors, which backward finds in `saved_tensors`."""
        self._to_save = tensors

    def mark_non_differentiable(self, *outputs):
        self._non_differentiable = outputs

    def set_materialize_grads(self, value):
        """Whether gradients that did not arrive are zeros (the default) or None."""
        self._materialize = bool(value)


class Function:
    """A function with a gradient of its own: static methods `forward(ctx, *args)` and `backward(ctx, *grads)`, called
    as `MyFunction.apply(*args)`. Backward returns one gradient, or None, for each argument of forward."""

    @staticmethod
    def forward(ctx, *args):
        raise NotImplementedError("forward")

    @staticmethod
    def backward(ctx, *grads):
        raise NotImplementedError("backward")

    @classmethod
    def apply(cls, *args):
        places = [i for i, arg in enumerate(args) if isinstance(arg, Tensor)]
        inputs = [args[i] for i in places]
        ctx = FunctionContext(tuple(isinstance(arg, Tensor) and arg.requires_grad for arg in args))
        with no_grad():
            result = cls.forward(ctx, *args)
        single = isinstance(result, Tensor)
        outputs = [result] if single else list(result)

        count = len(args)

        def backward(saved, grads):  # lives as long as the history: holds no tensor
            ctx.saved_tensors = tuple(saved)
            try:
                results = cls.backward(ctx, *grads)
            finally:
                ctx.saved_tensors = ()
            results = list(results) if isinstance(results, (tuple, list)) else [results]
            if len(results) != count:
                raise _hammock.ValueError(
                    f"{cls.__name__}.backward: returned {len(results)} gradients for {count} arguments of forward")
            return [results[i] for i in places]

        saved, ctx._to_save = list(ctx._to_save), ()
        outputs = _hammock.finish_function(inputs, outputs, saved, list(ctx._non_differentiable), ctx._materialize, backward)
        return outputs[0] if single else tuple(outputs)
