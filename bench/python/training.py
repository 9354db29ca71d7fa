#!/usr/bin/env python3
"""Training steps through `hm.compile` beside the same models through C++'s `compile`, in one process and in turns: microseconds
of a step whose loss is read, the best processor time and the median of elapsed times.

    cmake --build build --target python_training
    PYTHONPATH=build/python/package build/python/venv/bin/python bench/python/training.py build/bench/libpython_training.so

`mlp` is 784-512-512-10 with batches of 128 and SGD; `encoder` is a layer of 256 features, 4 heads and 64 positions with batches
of 8 and AdamW.
"""

import ctypes
import statistics
import sys
import time

import hammock as hm
from hammock import nn, optim

SECONDS = 8


def training(model, optimizer, x, labels):
    @hm.compile
    def step(x, labels):
        optimizer.zero_grad()
        loss = hm.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        return loss

    return lambda: step(x, labels).item()


def mlp():
    model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    return training(model, optim.SGD(model.parameters(), lr=0.01), hm.randn(128, 784), hm.randint(0, 10, [128]))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, activation="gelu", batch_first=True)
        self.head = nn.Linear(256, 10)

    def forward(self, x):
        return self.head(self.layer(x).mean(1))


def encoder():
    model = Encoder()
    return training(model, optim.AdamW(model.parameters(), lr=1e-3), hm.randn(8, 64, 256), hm.randint(0, 10, [8]))


def measure(steps):
    for step in steps.values():
        for _ in range(20):
            step()
    elapsed = {name: [] for name in steps}
    busy = dict.fromkeys(steps, float("inf"))
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        for name, step in steps.items():
            start, used = time.perf_counter(), time.process_time()
            step()
            busy[name] = min(busy[name], time.process_time() - used)
            elapsed[name].append(time.perf_counter() - start)
    return {name: (busy[name] * 1e6, statistics.median(elapsed[name]) * 1e6) for name in steps}


def main():
    library = ctypes.PyDLL(sys.argv[1])  # its functions are called with the GIL, as Python's are
    print("| | Python, processor | C++, processor | ratio | Python, elapsed | C++, elapsed | ratio |")
    print("|---" * 7 + "|")
    for name, make in (("mlp", mlp), ("encoder", encoder)):
        theirs = getattr(library, f"train_{name}")
        theirs.restype = ctypes.c_double
        found = measure({"python": make(), "cpp": theirs})
        (busy, took), (cpp_busy, cpp_took) = found["python"], found["cpp"]
        print(f"| {name} | {busy:.0f} | {cpp_busy:.0f} | {busy / cpp_busy:.3f} | {took:.0f} | {cpp_took:.0f} | {took / cpp_took:.3f} |")


if __name__ == "__main__":
    main()
