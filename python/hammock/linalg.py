"""Linear algebra, by the names of torch.linalg.

>>> import hammock as hm
>>> hm.linalg.det(hm.tensor([[2.0, 0.0], [0.0, 3.0]])).item()
6.0
"""

from . import (
    linalg_cholesky as cholesky,
    linalg_cond as cond,
    cross as cross,
    linalg_det as det,
    diagonal as diagonal,
    linalg_eig as eig,
    linalg_eigh as eigh,
    linalg_eigvals as eigvals,
    linalg_eigvalsh as eigvalsh,
    linalg_householder_product as householder_product,
    linalg_inv as inv,
    linalg_inv_ex as inv_ex,
    linalg_lstsq as lstsq,
    linalg_lu as lu,
    linalg_lu_factor as lu_factor,
    linalg_lu_factor_ex as lu_factor_ex,
    linalg_lu_solve as lu_solve,
    matmul as matmul,
    linalg_matrix_exp as matrix_exp,
    linalg_matrix_norm as matrix_norm,
    linalg_matrix_power as matrix_power,
    linalg_matrix_rank as matrix_rank,
    linalg_multi_dot as multi_dot,
    linalg_norm as norm,
    linalg_pinv as pinv,
    linalg_qr as qr,
    linalg_slogdet as slogdet,
    linalg_solve as solve,
    linalg_solve_ex as solve_ex,
    linalg_solve_triangular as solve_triangular,
    linalg_svd as svd,
    linalg_svdvals as svdvals,
    linalg_tensorinv as tensorinv,
    linalg_tensorsolve as tensorsolve,
    linalg_vander as vander,
    linalg_vecdot as vecdot,
    linalg_vector_norm as vector_norm,
)

__all__ = ["cholesky", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "householder_product", "inv", "inv_ex", "lstsq",
           "lu", "lu_factor", "lu_factor_ex", "lu_solve", "matmul", "matrix_exp", "matrix_norm", "matrix_power", "matrix_rank",
           "multi_dot", "norm", "pinv", "qr", "slogdet", "solve", "solve_ex", "solve_triangular", "svd", "svdvals", "tensorinv",
           "tensorsolve", "vander", "vecdot", "vector_norm"]
