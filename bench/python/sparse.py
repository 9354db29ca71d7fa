#!/usr/bin/env python3
"""Matmuls of sparse matrices beside SciPy and PyTorch, where these are installed, in one run: microseconds of all
processors, the best of many.

    PYTHONPATH=build/python/package build/python/venv/bin/python bench/python/sparse.py [--threads N]

A call is what a user writes: it records, runs and waits. By default there is one thread. `both` is a matmul with the gradients of
both operands.
"""

import numpy as np
from timing import take_turns, threads_of_command_line

import hammock as hm

try:
    import scipy.sparse as scipy_sparse
except ImportError:
    scipy_sparse = None
try:
    import torch
except ImportError:
    torch = None

# Rows, columns, elements of a row, columns of the dense matrix.
CASES = [(10000, 10000, 10, 1), (10000, 10000, 10, 16), (10000, 10000, 10, 64), (2000, 2000, 200, 64), (100000, 100000, 5, 32)]
KINDS = ("csr", "coo", "both")


def matrix(rows, columns, each):
    random = np.random.default_rng(0)
    col = np.sort(random.integers(0, columns, (rows, each)), axis=1).ravel()
    crow = np.arange(0, rows * each + 1, each)
    return crow, col, random.standard_normal(rows * each)


def calls(kind, rows, columns, each, width, double):
    crow, col, values = matrix(rows, columns, each)
    values = values.astype("f8" if double else "f4")
    x = np.random.default_rng(1).standard_normal((columns, width)).astype(values.dtype)
    row = np.repeat(np.arange(rows), each)
    found = {}

    def ours():
        own = hm.tensor(values, requires_grad=kind == "both")
        dense = hm.tensor(x, requires_grad=kind == "both")
        if kind == "coo":
            a = hm.sparse_coo_tensor(hm.tensor(np.stack([row, col])), own, (rows, columns), is_coalesced=True)
        else:
            a = hm.sparse_csr_tensor(hm.tensor(crow), hm.tensor(col), own, (rows, columns))

        def run():
            if kind != "both":
                return hm.sync([a @ dense])
            (a.with_values(own) @ dense).sum().backward()
            hm.sync([own.grad, dense.grad])
            own.grad = dense.grad = None

        return run

    def theirs():
        leaf = torch.from_numpy(values).requires_grad_(kind == "both")
        dense = torch.from_numpy(x).requires_grad_(kind == "both")
        if kind == "csr":
            a = torch.sparse_csr_tensor(torch.from_numpy(crow), torch.from_numpy(col), leaf, (rows, columns))
        else:
            a = torch.sparse_coo_tensor(torch.from_numpy(np.stack([row, col])), leaf, (rows, columns), is_coalesced=True)

        def run():
            if kind != "both":
                return a @ dense
            fresh = torch.sparse_coo_tensor(a.indices(), leaf, (rows, columns), is_coalesced=True)
            torch.sparse.mm(fresh, dense).sum().backward()
            leaf.grad = dense.grad = None

        if kind == "both":
            a = a.detach()
        return run

    found["hammock"] = ours()
    if scipy_sparse and kind != "both":
        a = scipy_sparse.csr_matrix((values, col, crow), (rows, columns))
        a = a.tocoo() if kind == "coo" else a
        found["scipy"] = lambda: a @ x
    if torch and not (kind == "both" and rows * columns > 1e8):  # its gradient of the values is as large as a dense matrix
        found["torch"] = theirs()
    return found


def main():
    threads = threads_of_command_line(torch)
    names = ["hammock"] + ["scipy"] * bool(scipy_sparse) + ["torch"] * bool(torch)
    print(f"{threads} threads (SciPy: one)" + (f", PyTorch {torch.__version__}" if torch else ""))
    print("| kind | matrix | dense | dtype | " + " | ".join(names) + " | " + " | ".join(f"to {n}" for n in names[1:]) + " |")
    print("|---" * (3 + 2 * len(names)) + "|")
    for rows, columns, each, width in CASES:
        for kind in KINDS:
            for double in (False, True):
                best = take_turns(calls(kind, rows, columns, each, width, double))
                times = " | ".join(f"{best[n] * 1e6:.0f}" if n in best else "" for n in names)
                ratios = " | ".join(f"{best[n] / best['hammock']:.1f}x" if n in best else "" for n in names[1:])
                print(f"| {kind} | {rows}x{columns}, {each} a row | {width} | {'f64' if double else 'f32'} | {times} | {ratios} |", flush=True)


if __name__ == "__main__":
    main()
