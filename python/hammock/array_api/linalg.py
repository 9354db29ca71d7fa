"""The extension for linear algebra."""

from collections import namedtuple

import hammock as hm

from .. import _hammock
from .._hammock import Tensor
from ._array import Array, kinds, together

EigResult = namedtuple("EigResult", "eigenvalues eigenvectors")
EighResult = namedtuple("EighResult", "eigenvalues eigenvectors")
QRResult = namedtuple("QRResult", "Q R")
SlogdetResult = namedtuple("SlogdetResult", "sign logabsdet")
SVDResult = namedtuple("SVDResult", "U S Vh")


def cholesky(x, /, *, upper=False):
    """The triangular factor of a positive definite matrix."""
    return Array(hm.linalg_cholesky(x, upper=upper))


def cross(x1, x2, /, *, axis=-1):
    """The cross product of vectors of three elements."""
    a, b = hm.broadcast_tensors(list(together(x1, x2)))
    return Array(hm.cross(a, b, axis))


def det(x, /):
    """The determinant."""
    return Array(hm.linalg_det(x))


def diagonal(x, /, *, offset=0):
    """A diagonal of each matrix."""
    return Array(hm.diagonal(x, offset, -2, -1))


def eig(x, /):
    """Eigenvalues and eigenvectors of a square matrix, complex."""
    return EigResult(*[Array(each) for each in hm.linalg_eig(x)])


def eigh(x, /):
    """Eigenvalues and eigenvectors of a symmetric matrix."""
    return EighResult(*[Array(each) for each in hm.linalg_eigh(x)])


def eigvals(x, /):
    """Eigenvalues of a square matrix, complex."""
    return Array(hm.linalg_eigvals(x))


def eigvalsh(x, /):
    """Eigenvalues of a symmetric matrix."""
    return Array(hm.linalg_eigvalsh(x))


def inv(x, /):
    """The inverse."""
    return Array(hm.linalg_inv(x))


def matmul(x1, x2, /):
    """The matrix product."""
    return Array(hm.matmul(*together(x1, x2)))


def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    """A norm of each matrix."""
    return Array(hm.linalg_matrix_norm(x, ord, (-2, -1), keepdims))


def matrix_power(x, n, /):
    """The matrix times itself, `n` times."""
    return Array(hm.linalg_matrix_power(x, n))


def matrix_rank(x, /, *, rtol=None):
    """How many singular values are greater than `rtol` times the largest."""
    values = svdvals(x)
    if values.shape[-1] == 0:
        return Array(hm.zeros(x.shape[:-2], dtype=_hammock.int64))
    limit = values.amax(-1, True) * _tolerance(x, values, rtol)
    return Array((values > limit).to(_hammock.int64).sum(-1))


def _tolerance(x, values, rtol):
    """Relative to the largest of the singular values."""
    if rtol is None:
        return max(x.shape[-2:]) * hm.finfo(x.dtype).eps
    return rtol.unsqueeze(-1).to(values.dtype) if isinstance(rtol, Tensor) else rtol


def matrix_transpose(x, /):
    """The last two axes swapped."""
    if x.ndim < 2:
        raise _hammock.ValueError(f"matrix_transpose: takes matrices, not an array of {x.ndim} dims")
    return Array(x.transpose(-2, -1))


def outer(x1, x2, /):
    """All products of elements of two vectors."""
    a, b = together(x1, x2)
    return Array(a.reshape((-1, 1)) * b.reshape((1, -1)))


def pinv(x, /, *, rtol=None):
    """The pseudo-inverse: singular values below `rtol` times the largest count as zero."""
    u, s, vh = hm.linalg_svd(x, False)
    if s.shape[-1] == 0:
        return Array(hm.zeros((*x.shape[:-2], x.shape[-1], x.shape[-2]), dtype=x.dtype))
    large = s > s.amax(-1, True) * _tolerance(x, s, rtol)
    inverse = hm.where(large, 1 / hm.where(large, s, hm.ones_like(s)), hm.zeros_like(s))
    v, ut = _adjoint(vh), _adjoint(u)
    return Array(v @ (inverse.unsqueeze(-1).to(x.dtype) * ut))


def _adjoint(x):
    swapped = x.transpose(-2, -1)
    return hm.conj(swapped) if x.dtype in kinds["complex floating"] else swapped


def qr(x, /, *, mode="reduced"):
    """Orthonormal columns and a triangular factor."""
    return QRResult(*[Array(each) for each in hm.linalg_qr(x, mode)])


def slogdet(x, /):
    """The sign of the determinant, and the logarithm of its absolute value."""
    return SlogdetResult(*[Array(each) for each in hm.linalg_slogdet(x)])


def solve(x1, x2, /):
    """The solution of linear equations; `x2` is a vector only where it has one dim."""
    a, b = together(x1, x2)
    if b.ndim == 1:
        return Array(_solve(a, b.unsqueeze(-1)).squeeze(-1))
    return Array(_solve(a, b))


def _solve(a, b):
    batch = hm.broadcast_shapes([list(a.shape[:-2]), list(b.shape[:-2])])
    return hm.linalg_solve(a.expand((*batch, *a.shape[-2:])), b.expand((*batch, *b.shape[-2:])))


def svd(x, /, *, full_matrices=True):
    """The singular value decomposition."""
    return SVDResult(*[Array(each) for each in hm.linalg_svd(x, full_matrices)])


def svdvals(x, /):
    """Singular values."""
    return Array(hm.linalg_svdvals(x))


def tensordot(x1, x2, /, *, axes=2):
    """Products summed over axes: the last ones of `x1` and the first ones of `x2`, or two lists."""
    a, b = together(x1, x2)
    if isinstance(axes, int):
        axes = list(range(a.ndim - axes, a.ndim)), list(range(axes))
    left = [each % a.ndim for each in axes[0]]
    right = [each % b.ndim for each in axes[1]]
    return Array(hm.tensordot(a, b, (left, right)))


def trace(x, /, *, offset=0, dtype=None):
    """The sum of a diagonal."""
    from ._statistics import sum

    return sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vecdot(x1, x2, /, *, axis=-1):
    """Dot products along an axis; of complex numbers `x1` is conjugated."""
    a, b = together(x1, x2)
    if not -min(a.ndim, b.ndim) <= axis < 0 and a.ndim != b.ndim:
        raise _hammock.ValueError("vecdot: the axis is counted from the end")
    if a.shape[axis] != b.shape[axis]:
        raise _hammock.ValueError(f"vecdot: sizes differ: {a.shape[axis]} and {b.shape[axis]}")
    if a.dtype in kinds["complex floating"]:
        a = hm.conj(a)
    a, b = hm.broadcast_tensors([a, b])
    return Array((a * b).sum(axis).to(a.dtype))


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    """A norm of vectors, by default of all elements."""
    from ._statistics import _flat

    rows, shape = _flat(x, axis, keepdims)
    return Array(hm.linalg_vector_norm(rows, ord, -1).reshape(shape))
