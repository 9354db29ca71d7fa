#!/usr/bin/env python3
"""What a call from Python costs: Hammock beside PyTorch, JAX, MLX and NumPy, where they are installed, in one run.

    PYTHONPATH=build/python/package build/python/venv/bin/python bench/python/calls.py

Hammock and MLX record, the others compute (JAX starts to). Times are nanoseconds a call on 16 floats in a loop that drops the
result, the lowest of many rounds in which libraries take turns; PyTorch has one thread. `step of 10 ops` is recorded, run and
awaited; Hammock's is a cached step. The time of an import is the lowest of three processes.
"""

import importlib
import platform
import subprocess
import sys
import timeit

ROUNDS, CALLS = 60, 1000
FEW, SLOW = 50, 10e-6  # calls of a round where one takes longer, in seconds
LIBRARIES = {"hammock": "hm", "torch": "torch", "jax": "jnp", "mlx.core": "mx", "numpy": "np"}

# A statement for each row; what a library writes otherwise stands below. None: it has no such thing.
ROWS = {"a + b": "a + b", "a + 2.0": "a + 2.0", "a + b, requires_grad": "w + b", "a.sum()": "a.sum()", "a[1:3]": "a[1:3]",
        "add(a, b)": "add(a, b)", "softmax(a, 0)": "softmax(a, 0)", "step of 10 ops": "ten_ops(a, b)"}
OTHERWISE = {
    "hammock": {"step of 10 ops": "hm.sync([ten_ops(a, b)])"},
    "jax": {"a + b, requires_grad": None, "step of 10 ops": "ten_ops(a, b).block_until_ready()"},
    "mlx.core": {"a + b, requires_grad": None, "step of 10 ops": "mx.eval(ten_ops(a, b))"},
    "numpy": {"a + b, requires_grad": None, "softmax(a, 0)": None},
}


def ten_ops(a, b):
    x = a
    for _ in range(5):
        x = x * b + a
    return x


def names_of(library):
    """What the statements refer to."""
    import numpy as np

    module = importlib.import_module("jax.numpy" if library == "jax" else library)
    names = {LIBRARIES[library]: module, "ten_ops": ten_ops, "add": module.add, "finish": lambda: None}
    ones = np.ones(16, np.float32)
    if library == "numpy":
        return {**names, "a": ones, "b": ones * 2}
    if library == "hammock":
        names["finish"] = lambda: module.mark_step(wait=True)
    if library == "torch":
        module.set_num_threads(1)
    make = {"torch": "from_numpy", "jax": "asarray", "mlx.core": "array", "hammock": "tensor"}[library]
    names.update(a=getattr(module, make)(ones), b=getattr(module, make)(ones * 2))
    names["softmax"] = importlib.import_module("jax.nn").softmax if library == "jax" else module.softmax
    if library in ("torch", "hammock"):
        names["w"] = (names["b"] * 1).requires_grad_()
    return names


def measure(timers):
    """The lowest nanoseconds a call of each timer, in turns; what a round recorded is run behind its time."""
    best = dict.fromkeys(timers, float("inf"))
    calls = {library: CALLS if timer.timeit(FEW) / FEW < SLOW else FEW for library, (timer, _) in timers.items()}
    for _ in range(ROUNDS):
        for library, (timer, finish) in timers.items():
            best[library] = min(best[library], timer.timeit(calls[library]) / calls[library] * 1e9)
            finish()
    return best


def import_time(module):
    code = f"import time; s = time.perf_counter(); import {module}; print(time.perf_counter() - s)"
    return min(float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
               for _ in range(3)) * 1e3


def processor():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def main():
    found = {}
    for library in LIBRARIES:
        try:
            found[library] = names_of(library)
        except ImportError:
            print(f"{library} is not installed")
    versions = ", ".join(f"{name.partition('.')[0]} {importlib.import_module(name.partition('.')[0]).__version__}"
                         for name in found if name != "mlx.core")
    print(f"Python {platform.python_version()}, {versions}; {processor()}\n")
    print("| | " + " | ".join(found) + " |")
    print("|---" * (1 + len(found)) + "|")
    for row, statement in ROWS.items():
        timers = {}
        for library, names in found.items():
            own = OTHERWISE.get(library, {}).get(row, statement)
            if own:
                timers[library] = timeit.Timer(own, globals=names), names["finish"]
        best = measure(timers)
        print(f"| `{row}` | " + " | ".join(f"{best[name]:.0f}" if name in best else "" for name in found) + " |", flush=True)
    print("| `import`, ms | " + " | ".join(f"{import_time(name):.1f}" for name in found) + " |")


if __name__ == "__main__":
    main()
