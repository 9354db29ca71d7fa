#!/usr/bin/env python3
"""Writes a golden suite of quantised and sparse tensors and of eigenvalues, computed by PyTorch 2 on its CPU.

    scripts/golden_quantized.py DIR                  # needs torch and numpy
    tests/golden/pack.sh DIR golden_quantized        # makes tests/golden/golden_quantized.tar.xz

The format is that of tests/golden/README.md. Inputs come from a fixed seed. Functions on sparse tensors have dense
arguments and results; tools/golden/sparse_ops.cpp has them for the runner.
"""

import sys
import warnings

import torch

from golden_complex import Suite

F32, F64, BF16 = torch.float32, torch.float64, torch.bfloat16
RANGES = ((-128, 127), (0, 255), (-8, 7), (0, 15))


def fake_quantize(suite):
    for low, high in RANGES:
        zero = (low + high + 1) // 2 + 1
        for scale in (0.02, 0.3):
            suite.add("fake_quantize_per_tensor_affine", "numbers", "torch.fake_quantize_per_tensor_affine",
                      [suite.numbers(4, 5, dtype=F32), scale, zero, low, high])
        suite.add("fake_quantize_per_tensor_affine", "tensors", "torch.fake_quantize_per_tensor_affine",
                  [suite.numbers(3, 2, 5, dtype=F32), torch.tensor([0.07]), torch.tensor([zero], dtype=torch.int32),
                   low, high], grad=[0])
        for axis in (0, 1, 2):
            x = suite.numbers(3, 4, 2, dtype=F32)
            scales = suite.numbers(x.shape[axis], dtype=F32, low=0.01, high=0.5)
            zeros = torch.tensor([zero + i for i in range(x.shape[axis])], dtype=torch.int32)
            suite.add("fake_quantize_per_channel_affine", "axis", "torch.fake_quantize_per_channel_affine",
                      [x, scales, zeros, axis, low, high], grad=[0])
    # Halves are rounded to even, and far values clamped.
    halves = torch.arange(-12, 13).to(F32) / 2
    suite.add("fake_quantize_per_tensor_affine", "halves", "torch.fake_quantize_per_tensor_affine",
              [halves, 1.0, 0, -4, 3])


def quantize(suite):
    """The integers of PyTorch's quantised tensors. It multiplies by the inverse of a scale where Hammock divides, which
    agrees for powers of two."""
    for dtype, name in ((torch.int8, torch.qint8), (torch.uint8, torch.quint8)):
        zero = 3 if dtype == torch.int8 else 131
        x = suite.numbers(4, 6, dtype=F32, low=-20, high=20)
        suite.add("quantize", "tensor", "torch.quantize",
                  [x, torch.tensor(0.125), torch.tensor(zero, dtype=dtype), dtype], grad=False,
                  run=lambda x, scale, zero, dtype: torch.quantize_per_tensor(x, scale, zero.to(torch.int32), name)
                  .int_repr())
        scales = torch.tensor([[0.0625], [0.25], [0.125], [0.5]])
        zeros = torch.tensor([[zero], [zero + 1], [zero - 2], [zero]], dtype=dtype)
        suite.add("quantize", "rows", "torch.quantize", [x, scales, zeros, dtype], grad=False,
                  run=lambda x, scale, zero, dtype: torch.quantize_per_channel(
                      x, scale.flatten().double(), zero.flatten().long(), 0, name).int_repr())
        values = torch.from_numpy(suite.random.integers(0, 256, (4, 6), dtype="uint8")).view(dtype)
        suite.add("dequantize", "rows", "torch.dequantize", [values, scales, zeros], grad=False,
                  run=lambda q, scale, zero: torch._make_per_channel_quantized_tensor(
                      q, scale.flatten().double(), zero.flatten().long(), 0).dequantize())


def int_matmul(suite):
    for m, k, n in ((20, 8, 16), (17, 32, 8), (33, 64, 40), (32, 72, 24)):
        a, b = (torch.from_numpy(suite.random.integers(-128, 128, sizes, dtype="int8")) for sizes in ((m, k), (k, n)))
        suite.add("int_matmul", "sizes", "torch.int_matmul", [a, b], grad=False, run=torch._int_mm)


def eigenvalues(suite):
    """Their order is free, so sums of powers are compared; these have gradients."""
    for dtype in (F64, torch.complex128, F32):
        for sizes in ((1, 1), (3, 3), (5, 5), (2, 4, 4)):
            for power in (1, 2, 3):
                x = suite.numbers(*sizes, dtype=dtype, low=-1, high=1)
                suite.add("linalg_eigvals", "powers", "torch.linalg.eigvals", [x], steps=[
                    ["torch.linalg.eigvals", [{"t": 0}], {}, 1], ["torch.pow", [{"t": 1}, power], {}, 2],
                    ["torch.sum", [{"t": 2}, -1], {}, 3]],
                    run=lambda x: torch.linalg.eigvals(x).pow(power).sum(-1))
    x = suite.numbers(3, 5, 5, dtype=F64)
    suite.add("linalg_eigvals", "radius", "torch.linalg.eigvals", [x], grad=False, steps=[
        ["torch.linalg.eigvals", [{"t": 0}], {}, 1], ["torch.abs", [{"t": 1}], {}, 2],
        ["torch.amax", [{"t": 2}, -1], {}, 3]], run=lambda x: torch.linalg.eigvals(x).abs().amax(-1))
    suite.add("linalg_eigvals", "refused", "torch.linalg.eigvals", [suite.numbers(2, 3, dtype=F64)], grad=False)


def sparse(suite):
    def some(*sizes, dtype):
        """Half of the elements are zero."""
        x = suite.numbers(*sizes, dtype=dtype)
        return torch.where(torch.from_numpy(suite.random.random(sizes) < 0.5), x, torch.zeros((), dtype=dtype))

    n = suite.numbers
    for dtype in (F32, F64):
        for m, k, c in ((3, 4, 2), (5, 1, 3), (1, 6, 1)):
            a, b = some(m, k, dtype=dtype), n(k, c, dtype=dtype)
            suite.add("sparse_mm", "coo", "torch.sparse_mm", [a, b],
                      run=lambda a, b: torch.sparse.mm(a.to_sparse(), b))
            # PyTorch's gradient of a CSR matrix, unlike that of a COO one, is not masked.
            suite.add("sparse_csr_mm", "csr", "torch.sparse_csr_mm", [a, b], grad=[1],
                      run=lambda a, b: a.to_sparse_csr() @ b)
            suite.add("sparse_addmm", "coo", "torch.sparse_addmm", [n(m, c, dtype=dtype), a, b],
                      {"beta": 0.5, "alpha": -2.0},
                      run=lambda self, a, b, beta, alpha: torch.sparse.addmm(self, a.to_sparse(), b, beta=beta,
                                                                             alpha=alpha))
    for dtype in (F32, F64):
        pattern = some(4, 5, dtype=dtype)
        suite.add("sparse_sampled_addmm", "csr", "torch.sparse_sampled_addmm",
                  [pattern, n(4, 3, dtype=dtype), n(3, 5, dtype=dtype)], {"beta": 0.5, "alpha": 2.0}, grad=False,
                  run=lambda self, a, b, beta, alpha: torch.sparse.sampled_addmm(
                      self.to_sparse_csr(), a, b, beta=beta, alpha=alpha).to_dense())
        for sizes in ((4, 5), (3, 2, 4)):
            x = some(*sizes, dtype=dtype)
            suite.add("sparse_sum", "all", "torch.sparse_sum", [x],
                      run=lambda x: torch.sparse.sum(x.to_sparse()))
            for dim in range(len(sizes)):
                suite.add("sparse_sum", "dim", "torch.sparse_sum", [x, [dim]],
                          run=lambda x, dim: torch.sparse.sum(x.to_sparse(), dim).to_dense())
                for name in ("softmax", "log_softmax"):
                    suite.add(f"sparse_{name}", "dim", f"torch.sparse_{name}", [x, dim],
                              run=lambda x, dim: getattr(torch.sparse, name)(x.to_sparse(), dim).to_dense())


def main():
    warnings.simplefilter("ignore")
    suite = Suite("quantized")
    for cases in (fake_quantize, quantize, int_matmul, eigenvalues, sparse):
        cases(suite)
    suite.write(sys.argv[1])


if __name__ == "__main__":
    main()
