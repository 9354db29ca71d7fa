"""Functions of one sample as functions of many, and derivatives that are made of them."""

import functools

from . import _hammock
from ._autograd import Selected, _variables, enable_grad, grad, is_grad_needed
from ._hammock import Tensor
from ._tree import flatten, unflatten


def _is_node(value):
    return isinstance(value, (list, tuple, dict))


def _spread(dims, value, name, path):
    """One dim for each leaf of `value`: `dims` is nested as `value` is, or ends earlier and stands for all below."""
    if value is None:
        return []
    if not _is_node(dims) or (isinstance(dims, tuple) and not _is_node(value)):
        if dims is not None and (not isinstance(dims, int) or isinstance(dims, bool)):
            raise _hammock.TypeError(f"vmap: {name} has {dims!r} for {path}: needs an int or None, nested as that is")
        if not _is_node(value):
            return [dims]
        children = value.values() if isinstance(value, dict) else value
        return [dim for child in children for dim in _spread(dims, child, name, path)]
    if not _is_node(value) or isinstance(dims, dict) != isinstance(value, dict) or len(dims) != len(value):
        raise _hammock.ValueError(f"vmap: {name} is not nested as {path} is: {dims!r}")
    if isinstance(value, dict):
        missing = [key for key in value if key not in dims]
        if missing:
            raise _hammock.ValueError(f"vmap: {name} has no entry {missing[0]!r} for {path}")
        return [dim for key in value for dim in _spread(dims[key], value[key], name, f"{path}[{key!r}]")]
    return [dim for i, child in enumerate(value) for dim in _spread(dims[i], child, name, f"{path}[{i}]")]


def _argument_dims(in_dims, args, kwargs):
    if _is_node(in_dims) and len(in_dims) != len(args):
        raise _hammock.ValueError(f"vmap: in_dims has {len(in_dims)} entries for {len(args)} arguments")
    dims = []
    for i, arg in enumerate(args):
        dims += _spread(in_dims[i] if _is_node(in_dims) else in_dims, arg, "in_dims", f"argument {i}")
    for name, arg in kwargs.items():
        dims += _spread(0, arg, "in_dims", f"argument {name!r}")
    return dims


def vmap(function, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """A function that calls `function` for each sample of its arguments, all at once: it is traced for one sample,
    and every op is made anew for all of them.

    `in_dims` says along which dim the samples of an argument lie, or None for one that all of them share: a number
    for all arguments, or a tuple with an entry for each, nested as the arguments are. Keyword arguments lie along
    dim 0. `out_dims` says the same of results. `randomness` is "error", "different" or "same": whether random ops are
    refused, draw numbers for each sample, or the same for all. `chunk_size` samples are computed at a time.

    >>> import hammock as hm
    >>> hm.vmap(hm.dot)(hm.ones(3, 2), hm.arange(6.0).reshape(3, 2))
    tensor([1., 5., 9.])
    """

    @functools.wraps(function)
    def call(*args, **kwargs):
        if not args and not kwargs:
            raise _hammock.ValueError("vmap: the function is called without arguments, so there are no samples")
        leaves, structure = flatten([list(args), kwargs])
        dims = _argument_dims(in_dims, args, kwargs)
        for leaf, dim in zip(leaves, dims):
            if dim is not None and not isinstance(leaf, Tensor):
                raise _hammock.TypeError(
                    f"vmap: in_dims has dim {dim} for a value that is no tensor: {leaf!r}; use None for it")
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        results = []

        def flat(tensors):
            values = list(leaves)
            for place, tensor in zip(places, tensors):
                values[place] = tensor
            given, named = unflatten(structure, values)
            value = function(*given, **named)
            outputs, out_structure = flatten(value)
            for output in outputs:
                if not isinstance(output, Tensor):
                    raise _hammock.TypeError(
                        f"vmap: the function must return tensors, nested or not, not {type(output).__name__}")
            results[:] = [out_structure]
            return outputs, _spread(out_dims, value, "out_dims", "the result")

        outputs = _hammock.vmap(flat, [leaves[i] for i in places], [dims[i] for i in places], randomness, chunk_size)
        return unflatten(results[0], outputs)

    return call


def _basis(x):
    """One tensor like `x` for each of its elements: 1 there, 0 elsewhere."""
    from . import eye

    return eye(x.numel(), dtype=x.dtype, device=x.device).reshape([x.numel(), *x.shape])


_COMPLEX = (_hammock.complex64, _hammock.complex128)


def _is_complex(x):
    return x.dtype in _COMPLEX


def _need_complex(name, output, variable):
    if _is_complex(variable) and not _is_complex(output):
        raise _hammock.TypeError(f"{name}: the result of a complex argument is real; differentiate by its parts, view_as_real")


def _rows(output, variables, create_graph, chunk_size):
    """The derivatives of `output` by each of the variables: the output's dims, then the variable's."""
    for variable in variables:
        _need_complex("jacrev", output, variable)
    if not output.requires_grad:
        like = output if _is_complex(output) else None
        return [(like if like is not None else variable).new_zeros([*output.shape, *variable.shape]) for variable in variables]

    def pull_back(seed):
        grads = _hammock.grad([output], variables, [seed], True, create_graph, True)
        return [variable.new_zeros(list(variable.shape)) if g is None else g for g, variable in zip(grads, variables)]

    basis = _basis(output.detach())
    blocks = list(vmap(pull_back, chunk_size=chunk_size)(basis))
    # Gradients are of PyTorch's convention: of a holomorphic function the derivative's conjugate; of a real argument the
    # seeds 1 and i give both parts.
    if _is_complex(output) and not all(map(_is_complex, variables)):
        imaginary = vmap(pull_back, chunk_size=chunk_size)(basis * 1j)
    for i, variable in enumerate(variables):
        if _is_complex(variable):
            blocks[i] = blocks[i].conj()
        elif _is_complex(output):
            blocks[i] = _hammock.ops["complex"](blocks[i], imaginary[i])
    return [block.reshape([*output.shape, *variable.shape]) for block, variable in zip(blocks, variables)]


def _float_results(name, outputs):
    for output in outputs:
        if not isinstance(output, Tensor):
            raise _hammock.TypeError(f"{name}: the function must return tensors, nested or not, not {type(output).__name__}")


def jacrev(function, argnums=0, *, has_aux=False, chunk_size=None):
    """The Jacobian of a function in reverse mode: for each result, nested as these are, the derivatives by the
    arguments `argnums`, nested as those are; the result's dims, then the argument's. All rows are computed at once,
    or `chunk_size` at a time.

    >>> import hammock as hm
    >>> hm.jacrev(lambda x: x * x)(hm.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    @functools.wraps(function)
    def call(*args, **kwargs):
        selected = Selected("jacrev", argnums, args)
        leaves = selected.leaves
        with enable_grad():
            variables = _variables(leaves)
            result = function(*selected.replaced(variables), **kwargs)
            result, aux = result if has_aux else (result, None)
            outputs, out_structure = flatten(result)
            _float_results("jacrev", outputs)
            blocks = [_rows(output, variables, is_grad_needed(leaves), chunk_size) for output in outputs]
        jacobian = unflatten(out_structure, [selected.nested(block) for block in blocks])
        return (jacobian, aux) if has_aux else jacobian

    return call


def jacfwd(function, argnums=0, *, chunk_size=None):
    """The same Jacobian in forward mode, which costs a pass for each element of the arguments."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        selected = Selected("jacfwd", argnums, args)
        leaves, shape = selected.leaves, []

        def flat(inputs):
            outputs, out_structure = flatten(function(*selected.replaced(inputs), **kwargs))
            _float_results("jacfwd", outputs)
            shape[:] = [out_structure]
            return outputs

        columns = []
        for i, leaf in enumerate(leaves):

            def push_forward(tangent):
                zeros = [other.new_zeros(list(other.shape)) for other in leaves]
                zeros[i] = tangent
                return _hammock.jvp(flat, leaves, zeros)[1]

            found = vmap(push_forward, out_dims=-1, chunk_size=chunk_size)(_basis(leaf.detach()))
            for column in found:
                _need_complex("jacfwd", column, leaf)
            columns.append([column.reshape([*column.shape[:-1], *leaf.shape]) for column in found])
        blocks = [selected.nested(list(block)) for block in zip(*columns)]
        return unflatten(shape[0], blocks)

    return call


def hessian(function, argnums=0, *, chunk_size=None):
    """The second derivatives of a function whose result has one element, nested by argument twice.

    >>> import hammock as hm
    >>> hm.hessian(lambda x: (x ** 3).sum())(hm.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacrev(grad(function, argnums), argnums, chunk_size=chunk_size)
