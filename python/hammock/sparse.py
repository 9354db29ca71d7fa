"""Sparse tensors: COO, CSR and batches of CSR, as dense tensors of indices and values.

>>> import hammock as hm
>>> a = hm.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
>>> (a @ hm.ones(3, 1)).tolist()
[[3.0], [4.0]]
"""

import hammock as hm

from . import _hammock

_sparse = _hammock.sparse
SparseTensor = _sparse.SparseTensor
mask, clear_grad = _sparse.mask, _sparse.clear_grad

__all__ = ["SparseTensor", "add", "addmm", "clear_grad", "div", "embedding", "grad", "log_softmax", "mask", "mm", "mul",
           "sampled_addmm", "softmax", "sparse_coo_tensor", "sparse_csr_tensor", "sum"]


def _tensor(value):
    return value if isinstance(value, hm.Tensor) else hm.tensor(value)


def sparse_coo_tensor(indices, values, size=None, *, is_coalesced=False):
    """`indices` [sparse dims, elements], `values` [elements, ...]. Without sizes, the largest indices are read."""
    return _sparse.coo(_tensor(indices), _tensor(values), None if size is None else list(size), is_coalesced)


def sparse_csr_tensor(crow_indices, col_indices, values, size):
    """`crow_indices` [batch..., rows + 1], `col_indices` and `values` [batch..., elements]."""
    return _sparse.csr(_tensor(crow_indices), _tensor(col_indices), _tensor(values), list(size))


def mm(a, b):
    """Sparse times dense, dense times sparse, or sparse times sparse, which is sparse."""
    return _sparse.mm(a, b)


def addmm(input, mat1, mat2, *, beta=1, alpha=1):
    """beta * input + alpha * (mat1 @ mat2), where mat1 is sparse."""
    return _sparse.addmm(input, mat1, mat2, beta, alpha)


def sampled_addmm(input, mat1, mat2, *, beta=1, alpha=1):
    """alpha * (mat1 @ mat2) + beta * input, only where the sparse input has elements."""
    return _sparse.sampled_addmm(input, mat1, mat2, beta, alpha)


def sum(input, dim=None):
    """Of all elements, or over dims: sparse as long as a dim that indices address remains, else dense."""
    if dim is None:
        return _sparse.sum(input)
    dims = [dim] if isinstance(dim, int) else list(dim)
    wrapped = {d + input.ndim if d < 0 else d for d in dims}
    if set(range(input.ndim - input.dense_dim())) <= wrapped:
        return input.to_dense().sum(dims)
    return _sparse.sum(input, dims)


def softmax(input, dim):
    """Along a dim, of the elements that are there."""
    return _sparse.softmax(input, dim)


def log_softmax(input, dim):
    """The logarithm of softmax."""
    return _sparse.log_softmax(input, dim)


def mul(a, b):
    """Element by element with a dense tensor or a number; sparse."""
    return _sparse.mul(a, b) if isinstance(b, hm.Tensor) else _sparse.mul_number(a, b)


def div(a, b):
    """Element by element by a dense tensor or a number; sparse."""
    return _sparse.div(a, b) if isinstance(b, hm.Tensor) else _sparse.div_number(a, b)


def add(a, b, *, alpha=1):
    """a + alpha * b: dense if one of both is, else sparse and not coalesced."""
    if isinstance(a, SparseTensor) and isinstance(b, hm.Tensor):
        return _sparse.add(b if alpha == 1 else b * alpha, a, 1)
    return _sparse.add(a, b, alpha)


def embedding(input, weight, padding_idx=None):
    """Rows of `weight`, whose gradient is kept as the rows that were used: `sparse.grad(weight)`."""
    return _sparse.embedding(input, weight, padding_idx)


def grad(weight):
    """The rows of gradients that backward passes have added, as a sparse tensor; None if there are none."""
    return _sparse.grad(weight)


SparseTensor.T = property(SparseTensor.t, doc="The transposed matrix.")
SparseTensor.__matmul__ = mm
SparseTensor.__rmatmul__ = lambda self, other: mm(other, self)
SparseTensor.__mul__ = mul
SparseTensor.__rmul__ = mul
SparseTensor.__truediv__ = div
SparseTensor.__neg__ = lambda self: mul(self, -1)
SparseTensor.__add__ = add
SparseTensor.__radd__ = lambda self, other: add(other, self)
SparseTensor.sum = sum
SparseTensor.device = property(lambda self: self.values().device, doc="Where the values are.")
