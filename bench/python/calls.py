"""What a call from Python costs: Hammock beside NumPy and PyTorch, where they are installed, in one run.

    PYTHONPATH=build/python/package build/python/venv/bin/python bench/python/calls.py

Hammock records; NumPy and PyTorch compute. Times are nanoseconds a call, the lowest of many repetitions; `step of 10
ops` is a cached step, recorded, run and awaited. The time of an import is the lowest of five processes.
"""

import subprocess
import sys
import time

import hammock as hm

REPETITIONS, CALLS = 60, 1000


def measure(call, between=None):
    best = float("inf")
    for _ in range(REPETITIONS):
        start = time.perf_counter_ns()
        for _ in range(CALLS):
            call()
        best = min(best, time.perf_counter_ns() - start)
        if between:
            between()
    return best / CALLS


def ten_ops(a, b):
    x = a
    for _ in range(5):
        x = x * b + a
    return x


def hammock_rows():
    a, b, w = hm.tensor([1.0] * 16), hm.tensor([2.0] * 16), hm.tensor([1.0] * 16, requires_grad=True)
    clear = lambda: hm.mark_step(wait=True)  # noqa: E731
    clear()

    return {
        "a + b": measure(lambda: a + b, clear), "a + 2.0": measure(lambda: a + 2.0, clear),
        "a + b, requires_grad": measure(lambda: w + b, clear), "a.sum()": measure(lambda: a.sum(), clear),
        "a[1:3]": measure(lambda: a[1:3], clear), "add(a, b)": measure(lambda: hm.add(a, b), clear),
        "softmax(a, dim=0)": measure(lambda: hm.softmax(a, dim=0), clear), "step of 10 ops": measure(lambda: hm.sync([ten_ops(a, b)]), clear),
    }


def numpy_rows():
    import numpy as np

    a, b = np.ones(16, np.float32), np.ones(16, np.float32)
    return {"a + b": measure(lambda: a + b), "a + 2.0": measure(lambda: a + np.float32(2)), "a.sum()": measure(lambda: a.sum()),
            "a[1:3]": measure(lambda: a[1:3]), "add(a, b)": measure(lambda: np.add(a, b)),
            "step of 10 ops": measure(lambda: ten_ops(a, b))}


def torch_rows():
    import torch

    torch.set_num_threads(1)
    a, b, w = torch.ones(16), torch.ones(16), torch.ones(16, requires_grad=True)
    return {"a + b": measure(lambda: a + b), "a + 2.0": measure(lambda: a + 2.0), "a + b, requires_grad": measure(lambda: w + b),
            "a.sum()": measure(lambda: a.sum()), "a[1:3]": measure(lambda: a[1:3]), "add(a, b)": measure(lambda: torch.add(a, b)),
            "softmax(a, dim=0)": measure(lambda: torch.softmax(a, dim=0)), "step of 10 ops": measure(lambda: ten_ops(a, b))}


def import_time(module):
    code = f"import time; s = time.perf_counter(); import {module}; print(time.perf_counter() - s)"
    return min(float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
               for _ in range(5))


def main():
    columns = {}
    for name, rows in (("hammock", hammock_rows), ("numpy", numpy_rows), ("torch", torch_rows)):
        try:
            columns[name] = {**rows(), "import, ms": import_time(name) * 1e3}
        except ImportError:
            print(f"{name} is not installed")
    empty = measure(lambda: None)
    print(f"Python {sys.version.split()[0]}; an empty call takes {empty:.0f} ns, which is part of every row")
    print(f"{'':24}" + "".join(f"{name:>12}" for name in columns))
    for row in {row: 0 for rows in columns.values() for row in rows}:
        print(f"{row:24}" + "".join(f"{rows[row]:12.0f}" if row in rows else f"{'-':>12}" for rows in columns.values()))


if __name__ == "__main__":
    main()
