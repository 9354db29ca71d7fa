"""The array API standard, version 2025.12: `xp = hm.array_api`, or `x.__array_namespace__()` of any tensor.

Functions take tensors and return `Array`, a tensor with the standard's operators.

>>> from hammock import array_api as xp
>>> x = xp.asarray([1, 2], dtype=xp.int8) + xp.asarray(3, dtype=xp.int32)
>>> x.dtype == xp.int32
True
>>> xp.linalg.vector_norm(xp.asarray([3.0, 4.0]))
tensor(5.)
"""

from ._array import Array
from ._creation import (
    arange,
    asarray,
    empty,
    empty_like,
    eye,
    from_dlpack,
    full,
    full_like,
    linspace,
    meshgrid,
    ones,
    ones_like,
    tril,
    triu,
    zeros,
    zeros_like,
)
from ._dtypes import (
    astype,
    bool,
    can_cast,
    complex64,
    complex128,
    finfo,
    float32,
    float64,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    isdtype,
    result_type,
    uint8,
    uint16,
    uint32,
    uint64,
)
from ._elementwise import *  # noqa: F403: one function for each name of a table
from ._info import Info as _Info
from ._manipulation import (
    broadcast_arrays,
    broadcast_shapes,
    broadcast_to,
    concat,
    expand_dims,
    flip,
    moveaxis,
    permute_dims,
    repeat,
    reshape,
    roll,
    squeeze,
    stack,
    tile,
    unstack,
)
from ._search import (
    argmax,
    argmin,
    argsort,
    count_nonzero,
    isin,
    nonzero,
    searchsorted,
    sort,
    take,
    take_along_axis,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
    where,
)
from ._statistics import all, any, cumulative_prod, cumulative_sum, diff, max, mean, min, prod, std, sum, var
from .linalg import matmul, matrix_transpose, tensordot, vecdot
from . import linalg

e = 2.718281828459045
pi = 3.141592653589793
inf = 1e400
nan = inf - inf
newaxis = None

__array_api_version__ = "2025.12"


def __array_namespace_info__():
    """What this namespace is capable of: devices, dtypes, defaults."""
    return _Info()


def __getattr__(name):
    """`fft`, where the package has transforms."""
    if name == "fft":
        import importlib

        try:
            return importlib.import_module("hammock.array_api.fft")
        except AttributeError:  # of hm.fft
            pass
    raise AttributeError(f"module 'hammock.array_api' has no attribute '{name}'")
