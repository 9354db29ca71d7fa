"""Methods of Tensor that are no ops."""

from . import _hammock
from ._hammock import Tensor


def _method(function):
    function.__qualname__ = "Tensor." + function.__name__
    setattr(Tensor, function.__name__, function)
    return function


@_method
def dim(self):
    """How many dims it has."""
    return self.ndim


@_method
def numel(self):
    """How many elements it has."""
    count = 1
    for size in self.shape:
        count *= size
    return count


@_method
def stride(self, dim=None):
    """The strides in elements, or that of one dim."""
    strides = tuple(_hammock.strides(self))
    return strides if dim is None else strides[dim]


@_method
def element_size(self):
    """Bytes of an element."""
    return self.itemsize


@_method
def summary(self):
    """What is known of it without computing: "f32[2,3] on cpu, pending, from add at train.py:12"."""
    return _hammock.summary(self)


@_method
def is_same(self, other):
    """Whether both are handles of one tensor."""
    return _hammock.is_same(self, other)


@_method
def is_alias_of(self, other):
    """Whether writing one may change the other."""
    return _hammock.is_alias_of(self, other)


@_method
def cpu(self):
    """A copy on the CPU, or itself if it is there."""
    return self.to("cpu")


@_method
def cuda(self, index=0):
    """A copy on a CUDA device."""
    return self.to(f"cuda:{index}")


@_method
def to_sparse(self, max_nnz=None):
    """The elements that are not zero, as a sparse tensor. Reads their number, unless it is given."""
    from . import sparse

    return sparse._sparse.to_sparse(self, max_nnz)


@_method
def to_sparse_csr(self, max_nnz=None):
    """The elements of a matrix that are not zero, row by row."""
    from . import sparse

    return sparse._sparse.to_sparse_csr(self, max_nnz)


# Attributes, as in NumPy and PyTorch; `hm.real(x)` and `hm.imag(x)` are the ops.
Tensor.real = property(
    lambda self: _hammock.ops["real"](self) if self.dtype in _COMPLEX else self,
    doc="The real parts; a tensor of real numbers itself.",
)
Tensor.imag = property(lambda self: _hammock.ops["imag"](self), doc="The imaginary parts of complex numbers.")
Tensor.mH = property(lambda self: _hammock.ops["adjoint"](self), doc="Matrices transposed and conjugated.")
Tensor.H = property(
    lambda self: self if self.ndim < 2 and self.dtype not in _COMPLEX else _hammock.ops["adjoint"](self),
    doc="A matrix transposed and conjugated.",
)
_COMPLEX = (_hammock.complex64, _hammock.complex128)


@_method
def to_device(self, device, /, *, stream=None):
    """A copy on a device, or itself if it is there."""
    return type(self)(self.to(device))


@_method
def __array_namespace__(self, /, *, api_version=None):
    """The functions of the array API standard, for tensors."""
    from . import array_api

    if api_version not in (None, array_api.__array_api_version__, "2024.12", "2023.12", "2022.12", "2021.12"):
        raise _hammock.ValueError(f"__array_namespace__: no version {api_version} of the array API standard")
    return array_api


# ---- Gradients


@_method
def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=()):
    """Adds to the `grad` of every leaf that this tensor depends on."""
    inputs = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    _hammock.backward([self], [] if gradient is None else [gradient], retain_graph, create_graph, inputs)


@_method
def requires_grad_(self, requires_grad=True):
    """Makes a leaf one whose gradient `backward` accumulates, or an ordinary one again."""
    _hammock.requires_grad_(self, bool(requires_grad))
    return self


@_method
def retain_grad(self):
    """Keeps the gradient of a tensor that is not a leaf as well."""
    _hammock.retain_grad(self)


class RemovableHandle:
    """Removes a hook: by `remove()`, or at the end of a `with` block."""

    def __init__(self, remove):
        self.remove = remove

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.remove()


@_method
def register_hook(self, hook):
    """Calls `hook` with each gradient of this tensor; a tensor that it returns replaces the gradient."""
    number = _hammock.register_hook(self, hook)
    return RemovableHandle(lambda: _hammock.remove_hook(self, number))


# ---- Exchange


@_method
def numpy(self):
    """A read-only NumPy array, which keeps its values whatever happens to the tensor: of the same memory where that is the
    device's own and the host's, else of a copy. Computes."""
    import numpy

    if self.dtype in _WITHOUT_FORMAT:
        raise _hammock.TypeError(f"numpy: NumPy has no {self.dtype.name}; cast it first, as by x.float()")
    return numpy.asarray(memoryview(self))


@_method
def __array__(self, dtype=None, copy=None):
    import numpy

    array = self.numpy()
    if dtype is not None and array.dtype != dtype:
        if copy is False:
            raise _hammock.ValueError("__array__: another dtype needs a copy")
        return array.astype(dtype)
    return numpy.array(array) if copy else array


# NumPy leaves `array + tensor` to the tensor.
Tensor.__array_ufunc__ = None


@_method
def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
    return _hammock.export_dlpack(self, stream, max_version, dl_device, copy)


@_method
def __dlpack_device__(self):
    return _hammock.dlpack_device(self)


# ---- Copies and pickles


_SAME_BYTES = {_hammock.bfloat16: _hammock.int16, _hammock.float8_e4m3fn: _hammock.uint8, _hammock.float8_e5m2: _hammock.uint8}
_PACKED = {_hammock.int4: _hammock.int8, _hammock.uint4: _hammock.uint8, _hammock.int2: _hammock.int8, _hammock.uint2: _hammock.uint8}
_CAST = {_hammock.bool: _hammock.uint8, **_PACKED}
_WITHOUT_FORMAT = {*_SAME_BYTES, *_PACKED}


def _rebuild(data, shape, dtype, device, requires_grad):
    flat = _hammock.asarray(memoryview(data).cast("B"), copy=True)
    value = flat.view(_CAST.get(dtype, dtype)).to(dtype) if data else _hammock.tensor([], dtype=dtype)
    value = value.view(list(shape)).to(device)
    return value.requires_grad_() if requires_grad else value


def _bytes_of(tensor):
    plain = tensor.detach().contiguous()
    if plain.numel() == 0:
        return b""
    if plain.dtype in _SAME_BYTES:
        plain = plain.view(_SAME_BYTES[plain.dtype])
    elif plain.dtype in _CAST:
        plain = plain.to(_CAST[plain.dtype])
    return memoryview(plain).tobytes()


@_method
def __reduce_ex__(self, protocol):
    if type(self) is not Tensor:
        return (_rebuild_as, (type(self), *_state_of(self)))
    return (_rebuild, _state_of(self))


def _state_of(tensor):
    return (_bytes_of(tensor), tensor.shape, tensor.dtype, str(tensor.device), tensor.requires_grad)


def _rebuild_as(kind, *state):
    return kind(_rebuild(*state))


@_method
def __copy__(self):
    return type(self)(self)


@_method
def __deepcopy__(self, memo):
    if not self.is_leaf:
        raise _hammock.ValueError("deepcopy: only leaves can be copied; detach() the tensor first")
    copied = self.detach().clone()
    if self.requires_grad:
        copied.requires_grad_()
    if type(self) is not Tensor:
        copied = type(self)(copied)
    memo[id(self)] = copied
    return copied
