"""Sparse tensors, against dense ones and, where they are installed, SciPy and PyTorch."""

import numpy as np
import pytest

import hammock as hm
from hammock import nn, optim, sparse


def holes(rows, columns, dtype=np.float64):
    random = np.random.default_rng(0)
    x = random.standard_normal((rows, columns))
    return np.where(np.abs(x) > 0.8, x, 0).astype(dtype)


def close(a, b, tolerance=1e-10):
    a, b = (x.detach() if isinstance(x, hm.Tensor) else x for x in (a, b))
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and np.allclose(a, b, rtol=tolerance, atol=tolerance)


def test_construction_and_conversion():
    a = hm.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3))
    assert a.shape == (2, 3) and a.nnz == 3 and a.layout == "coo" and a.dtype is hm.float32
    assert a.to_dense().tolist() == [[0, 0, 3], [4, 0, 5]]
    assert repr(a) == f"<sparse_coo f32[2,3] of 3 elements on {a.device}>"
    csr = a.to_sparse_csr()
    assert close((csr @ a.t()).to_dense(), a.to_dense() @ a.to_dense().T)
    assert csr.layout == "csr" and csr.crow_indices().tolist() == [0, 1, 3] and csr.col_indices().tolist() == [2, 0, 2]
    assert a.T.to_dense().shape == (3, 2)
    x = hm.tensor(holes(4, 5))
    assert close(x.to_sparse().to_dense(), x) and close(x.to_sparse_csr(20).to_dense(), x)
    again = hm.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (2,)).coalesce()
    assert again.nnz == 1 and again.values().tolist() == [3.0] and again.is_coalesced


def test_operators_are_those_of_dense_tensors():
    x = holes(6, 5)
    dense = hm.tensor(x)
    right, left = hm.randn(5, 3, dtype=hm.float64), hm.randn(2, 6, dtype=hm.float64)
    for a in (dense.to_sparse(), dense.to_sparse_csr()):
        assert close(a @ right, dense @ right) and close(left @ a, left @ dense)
        assert close((a * dense).to_dense(), dense * dense) and close((2 * a / 4).to_dense(), dense / 2)
        assert close(dense + a, dense * 2) and close(a + dense, dense * 2)
        assert close(sparse.addmm(left.T @ right[:2], a, right, beta=2), left.T @ right[:2] * 2 + dense @ right)
        assert close(sparse.sum(a), dense.sum()) and close(sparse.sum(a, 0).to_dense(), dense.sum(0))
        assert close(sparse.sum(a, (0, 1)), dense.sum())
        scores = np.where(x != 0, x, -np.inf)
        with np.errstate(invalid="ignore"):
            powers = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        assert close(sparse.softmax(a, 1).to_dense(), np.nan_to_num(powers))


def test_gradients_of_both_operands():
    a = hm.tensor(holes(6, 5)).to_sparse()
    values = a.values().detach().requires_grad_()
    x = hm.randn(5, 3, dtype=hm.float64).requires_grad_()
    ((a.with_values(values) @ x) ** 2).sum().backward()
    dense = a.to_dense().detach().requires_grad_()
    other = x.detach().requires_grad_()
    ((dense @ other) ** 2).sum().backward()
    assert close(x.grad, other.grad) and close(values.grad, sparse.mask(dense.grad, a).values())


def test_errors_have_the_line():
    with pytest.raises(hm.HammockError, match="an index is not in the range") as caught:
        (hm.sparse_coo_tensor([[0], [3]], [1.0], (2, 3)) @ hm.ones(3, 1)).tolist()
    assert "test_sparse.py" in str(caught.value)
    with pytest.raises(hm.ValueError, match="need 3 == 2"):
        hm.sparse_coo_tensor([[0], [1]], [1.0], (2, 3)) @ hm.ones(2, 1)
    with pytest.raises(hm.ValueError, match="needs CSR"):
        hm.sparse_coo_tensor([[0], [1]], [1.0], (2, 3)).crow_indices()


@pytest.mark.parametrize("rule", ["SGD", "Adagrad", "SparseAdam"])
def test_embeddings_move_the_rows_that_were_used(rule):
    hm.manual_seed(0)
    table = nn.Embedding(6, 2, sparse=True)
    before = table.weight.detach().numpy().copy()
    optimizer = getattr(optim, rule)(table.parameters(), lr=0.1)
    for _ in range(3):
        with hm.step():
            optimizer.zero_grad()
            (table(hm.tensor([1, 4, 1])) ** 2).sum().backward()
            optimizer.step()
    assert table.weight.grad is None and sparse.grad(table.weight).nnz == 3
    moved = np.abs(table.weight.detach().numpy() - before).max(1) > 1e-4
    assert moved.tolist() == [False, True, False, False, True, False]
    with pytest.raises(hm.NotSupported, match="SparseAdam takes it"):
        optim.Adam(table.parameters()).step()


def test_optimisers_are_pytorchs():
    torch = pytest.importorskip("torch")
    start = np.random.default_rng(1).standard_normal((5, 3))
    for rule in ("SGD", "Adagrad", "SparseAdam"):
        ours = nn.Embedding(5, 3, sparse=True, dtype=hm.float64)
        theirs = torch.nn.Embedding(5, 3, sparse=True, dtype=torch.float64)
        with hm.no_grad():
            ours.weight.copy_(hm.tensor(start))
        with torch.no_grad():
            theirs.weight.copy_(torch.tensor(start))
        steps = getattr(optim, rule)(ours.parameters(), lr=0.1), getattr(torch.optim, rule)(theirs.parameters(), lr=0.1)
        for batch in ([1, 4, 1], [0, 1, 3], [1, 1, 1]):
            for table, step, tensor in ((ours, steps[0], hm.tensor), (theirs, steps[1], torch.tensor)):
                step.zero_grad()
                (table(tensor(batch)) ** 2).sum().backward()
                step.step()
        assert close(ours.weight.detach(), theirs.weight.detach().numpy(), 1e-9), rule


def test_products_are_scipys():
    scipy_sparse = pytest.importorskip("scipy.sparse")
    a = scipy_sparse.random(50, 40, 0.1, "csr", random_state=0)
    x = np.random.default_rng(2).standard_normal((40, 7))
    ours = hm.sparse_csr_tensor(a.indptr, a.indices, a.data, a.shape)
    assert close(ours @ hm.tensor(x), a @ x)


def test_namespaces_have_pytorchs_names():
    x = hm.tensor([[4.0, 1.0], [1.0, 3.0]])
    assert abs(hm.linalg.det(x).item() - 11) < 1e-5 and hm.linalg.cross is hm.cross
    assert hm.special.legendre_polynomial_p(hm.tensor(0.5), 2).item() == -0.125
    assert set(hm.linalg.__all__) <= set(dir(hm.linalg)) and set(hm.special.__all__) <= set(dir(hm.special))
