"""The cost of an op on device "hammock" beside the same op on `meta` and `cpu`, in one run.

Prints the lowest time of several rounds in microseconds. Ops are recorded, not run, while the clock
runs.
"""

import time

import hammock_torch.device  # noqa: F401: registers the device
import torch

OPS = {
    "add": lambda a, b: a + b,
    "add number": lambda a, b: a + 1.5,
    "relu": lambda a, b: a.relu(),
    "add_": lambda a, b: a.add_(b),
    "matmul": lambda a, b: a @ b,
    "sum": lambda a, b: a.sum(1),
    "view": lambda a, b: a.view(-1),
    "transpose": lambda a, b: a.t(),
    "select": lambda a, b: a[1],
    "softmax": lambda a, b: a.softmax(1),
}


def cost(op, device, rounds=30, calls=100):
    a, b = torch.ones(8, 8, device=device), torch.ones(8, 8, device=device)
    best = float("inf")
    for _ in range(rounds):
        kept = []
        start = time.perf_counter()
        for _ in range(calls):
            kept.append(op(a, b))
        best = min(best, time.perf_counter() - start)
        del kept
        if device == "hammock":
            torch.hammock.mark_step(wait=True)
    return best / calls * 1e6


def main():
    print(f"{'op':12} {'meta':>8} {'cpu':>8} {'hammock':>8}")
    with torch.no_grad():
        for name, op in OPS.items():
            meta, cpu, ours = (cost(op, d) for d in ("meta", "cpu", "hammock"))
            print(f"{name:12} {meta:8.2f} {cpu:8.2f} {ours:8.2f}")


if __name__ == "__main__":
    main()
