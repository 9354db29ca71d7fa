#!/usr/bin/env python3
"""Fourier transforms beside NumPy and, where it is installed, PyTorch, in one run: microseconds of all processors, the
best of many.

    PYTHONPATH=build/python/package build/python/venv/bin/python bench/python/fft.py [--threads N]

A call is what a user writes: it records, runs and waits. By default there is one thread.
"""

import numpy as np
from timing import take_turns, threads_of_command_line

import hammock as hm

try:
    import torch
except ImportError:
    torch = None

CASES = [("fft", (1, 1024), 1), ("fft", (1000, 1024), 1), ("fft", (1000, 400), 1), ("fft", (1, 1 << 16), 1), ("fft", (1, 1 << 20), 1),
         ("fft", (100, 997), 1), ("fft", (1, 99991), 1), ("fft", (1024, 1024), 0), ("rfft", (1000, 1024), 1), ("rfft", (1, 1 << 20), 1),
         ("irfft", (1000, 513), 1), ("fft2", (16, 256, 256), None), ("rfft2", (16, 256, 256), None)]


def calls(name, shape, axis, double):
    real = name.startswith("rfft")
    x = np.random.default_rng(0).standard_normal(shape)
    if not real:
        x = x + 1j * x[::-1]
    x = x.astype({(True, True): "f8", (True, False): "f4", (False, True): "c16", (False, False): "c8"}[real, double])
    arguments = {} if axis is None else {"axis": axis}
    dims = {} if axis is None else {"dim": axis}
    ours = hm.tensor(x)
    transform = getattr(hm.fft, name)

    def run():
        hm.sync([transform(ours, **dims)])

    found = {"hammock": run, "numpy": lambda: getattr(np.fft, name)(x, **arguments)}
    if torch:
        theirs = torch.from_numpy(x)
        found["torch"] = lambda: getattr(torch.fft, name)(theirs, **dims)
    return found


def main():
    threads = threads_of_command_line(torch)
    print(f"{threads} threads, NumPy {np.__version__} (one thread)" + (f", PyTorch {torch.__version__}" if torch else ""))
    names = ["hammock", "numpy"] + (["torch"] if torch else [])
    print("| transform | shape | dtype | " + " | ".join(names) + " | to NumPy |" + (" to PyTorch |" if torch else ""))
    print("|---" * (4 + len(names) + bool(torch)) + "|")
    for name, shape, axis in CASES:
        for double in (False, True):
            best = take_turns(calls(name, shape, axis, double))
            times = " | ".join(f"{best[n] * 1e6:.1f}" for n in names)
            ratios = " | ".join(f"{best[n] / best['hammock']:.1f}x" for n in names[1:])
            dim = "" if axis is None else f", dim {axis}"
            print(f"| {name} | {'x'.join(map(str, shape))}{dim} | {'f64' if double else 'f32'} | {times} | {ratios} |", flush=True)


if __name__ == "__main__":
    main()
