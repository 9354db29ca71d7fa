"""The array of the standard: a tensor whose operators promote dtypes by the standard's rules."""

from .. import _hammock
from .._hammock import Tensor

_signed = {8: _hammock.int8, 16: _hammock.int16, 32: _hammock.int32, 64: _hammock.int64}
_unsigned = {8: _hammock.uint8, 16: _hammock.uint16, 32: _hammock.uint32, 64: _hammock.uint64}
_bits = {
    **{dtype: 8 * dtype.itemsize for dtype in (*_signed.values(), *_unsigned.values())},
    _hammock.float32: 32,
    _hammock.float64: 64,
}
kinds = {
    "bool": (_hammock.bool,),
    "signed integer": tuple(_signed.values()),
    "unsigned integer": tuple(_unsigned.values()),
    "integral": (*_signed.values(), *_unsigned.values()),
    "real floating": (_hammock.float32, _hammock.float64),
    "complex floating": (_hammock.complex64, _hammock.complex128),
}
kinds["numeric"] = kinds["integral"] + kinds["real floating"] + kinds["complex floating"]


def promoted(a, b):
    """The dtype of values of two dtypes. Kinds that the standard does not mix are an error, but for integers with floats."""
    if a is b:
        return a
    integral = kinds["integral"]
    if a in integral and b in integral:
        signed_a, signed_b = a in kinds["signed integer"], b in kinds["signed integer"]
        if signed_a == signed_b:
            return max((a, b), key=_bits.get)
        signed, unsigned = (a, b) if signed_a else (b, a)
        bits = max(_bits[signed], 2 * _bits[unsigned])
        if bits > 64:
            raise _hammock.TypeError(f"result_type: no integers hold those of {a} and {b}")
        return _signed[bits]
    floating = kinds["real floating"] + kinds["complex floating"]
    if a in floating and b in floating:
        wide = _hammock.float64 in (a, b) or _hammock.complex128 in (a, b)
        if a in kinds["real floating"] and b in kinds["real floating"]:
            return _hammock.float64 if wide else _hammock.float32
        return _hammock.complex128 if wide else _hammock.complex64
    if a in floating and b in integral:
        return a
    if b in floating and a in integral:
        return b
    raise _hammock.TypeError(f"result_type: {a} and {b} are not mixed")


def of_scalar(value, dtype):
    """The dtype of a Python number beside an array of `dtype`."""
    if isinstance(value, bool):
        fits = dtype is _hammock.bool
        other = _hammock.bool
    elif isinstance(value, int):
        fits = dtype is not _hammock.bool
        other = _hammock.int64
    elif isinstance(value, float):
        fits = dtype in kinds["real floating"] or dtype in kinds["complex floating"]
        other = _hammock.float32
    else:
        fits = dtype in kinds["complex floating"]
        wide = dtype is _hammock.float64
        other = _hammock.complex128 if wide else _hammock.complex64
    return dtype if fits else other


def together(a, b):
    """Two operands as tensors of one dtype; a number takes that of the array beside it. None where one is neither."""
    if isinstance(a, Tensor):
        if isinstance(b, Tensor):
            if a.dtype is b.dtype:
                return a, b
            dtype = promoted(a.dtype, b.dtype)
            return a.to(dtype), b.to(dtype)
        if not isinstance(b, (bool, int, float, complex)):
            return None
        dtype = of_scalar(b, a.dtype)
        return a.to(dtype), _hammock.tensor(_within(b, dtype), dtype=dtype, device=a.device)
    swapped = together(b, a) if isinstance(b, Tensor) else None
    return swapped and swapped[::-1]


def _within(value, dtype):
    """A number as one of `dtype`: integers too large are an error, as NumPy's are."""
    if dtype in kinds["integral"] and not dtype.min <= value <= dtype.max:
        raise OverflowError(f"{value} is no {dtype}")
    return value


class Size(int):
    """How many elements an array has. Called, as PyTorch's `size()` is: its shape, or one of its sizes."""

    def __new__(cls, shape):
        count = 1
        for size in shape:
            count *= size
        self = super().__new__(cls, count)
        self._shape = tuple(shape)
        return self

    def __call__(self, dim=None):
        return self._shape if dim is None else self._shape[dim]


class Array(Tensor):
    """A tensor with the operators of the array API standard: dtypes promote whatever the number of dims."""

    __slots__ = ()

    @property
    def size(self):
        """How many elements it has."""
        return Size(self.shape)

    @property
    def T(self):
        """A matrix transposed."""
        if self.ndim != 2:
            raise _hammock.ValueError(f"T: takes matrices, not an array of {self.ndim} dims")
        return Array(Tensor.mT.__get__(self))

    @property
    def mT(self):
        """Matrices transposed: the last two dims swapped."""
        if self.ndim < 2:
            raise _hammock.ValueError(f"mT: takes matrices, not an array of {self.ndim} dims")
        return Array(Tensor.mT.__get__(self))

    def __getitem__(self, key, /):
        if _selects_nothing(self, key):
            return Array(_hammock.ops["zeros"]((0, *self.shape[key.ndim :]), dtype=self.dtype, device=self.device))
        dims, key = _forward(self, key)
        return Array(Tensor.__getitem__(self.flip(dims) if dims else self, key))

    def __setitem__(self, key, value, /):
        dims, key = _forward(self, key)
        if not dims:
            Tensor.__setitem__(self, key, value)
            return
        flipped = self.flip(dims)
        flipped[key] = value
        self.copy_(flipped.flip(dims))

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __repr__(self):
        return Tensor.__repr__(self)

    def __index__(self):
        if self.dtype not in kinds["integral"]:
            raise TypeError(f"only integers are indices, not {self.dtype}")
        return Tensor.__index__(self)


def _forward(array, key):
    """The dims in which slices of `key` run backwards, and a key of the array flipped there with slices that do not."""
    parts = list(key) if isinstance(key, tuple) else [key]
    backwards = [isinstance(each, slice) and each.step is not None and each.step < 0 for each in parts]
    if not any(backwards):
        return [], key
    taken = [_dims_taken(each) for each in parts]
    dims, dim = [], 0
    for i, part in enumerate(parts):
        if part is Ellipsis:
            dim += array.ndim - sum(taken)
        if backwards[i]:
            size = array.shape[dim]
            places = range(*part.indices(size))
            first = size - 1 - places.start
            parts[i] = slice(first, first - part.step * len(places), -part.step) if len(places) else slice(0, 0)
            dims.append(dim)
        dim += taken[i]
    return dims, tuple(parts)


def _selects_nothing(array, key):
    """Whether a mask has a dim of size zero where the array has another size, which the standard allows."""
    if not (isinstance(key, Tensor) and key.dtype is _hammock.bool and 0 in key.shape and key.ndim <= array.ndim):
        return False
    return all(size in (0, of_array) for size, of_array in zip(key.shape, array.shape))


def _dims_taken(part):
    """How many dims of an array a part of a key stands for."""
    if part is None or part is Ellipsis:
        return 0
    if isinstance(part, Tensor) and part.dtype is _hammock.bool:
        return part.ndim
    return 1


def _unary(name):
    op = getattr(Tensor, name)

    def method(self, /):
        return Array(op(self))

    method.__name__ = name
    method.__qualname__ = "Array." + name
    setattr(Array, name, method)


def _binary(name, op):
    def method(self, other, /):
        pair = together(self, other)
        return Array(op(*pair)) if pair else NotImplemented

    method.__name__ = name
    method.__qualname__ = "Array." + name
    setattr(Array, name, method)


def _in_place(name, op):
    def method(self, other, /):
        pair = together(self, other)
        if pair is None:
            return NotImplemented
        if pair[0].dtype is not self.dtype:
            raise _hammock.TypeError(f"{name}: the result would be {pair[0].dtype}, which {self.dtype} does not hold")
        result = op(self, pair[1])
        if result.shape != self.shape:
            raise _hammock.ValueError(f"{name}: the result would have shape {result.shape}, not {self.shape}")
        self.copy_(result)
        return self

    method.__name__ = name
    method.__qualname__ = "Array." + name
    setattr(Array, name, method)


def _special(name):
    """A function of the standard's own, found when it is called."""

    def op(a, b):
        from ._special import special

        return special[name](a, b)

    return op


def _add_operators():
    for name in ("abs", "invert", "neg", "pos"):
        _unary(f"__{name}__")
    for name in ("eq", "ge", "gt", "le", "lt", "ne"):
        _binary(f"__{name}__", getattr(Tensor, f"__{name}__"))
    special = {"floordiv": _special("floor_divide"), "mod": _special("remainder")}
    arithmetic = "add and floordiv lshift matmul mod mul or pow rshift sub truediv xor"
    for name in arithmetic.split():
        op = special.get(name) or getattr(Tensor, f"__{name}__")
        _binary(f"__{name}__", op)
        _binary(f"__r{name}__", lambda a, b, op=op: op(b, a))
        _in_place(f"__i{name}__", op)


_add_operators()
Array.__hash__ = Tensor.__hash__
