#!/usr/bin/env python3
"""PyTorch programs on the CPU: eager mode, inductor and PyTorch's own lazy tensors beside Hammock's doors, in one process
on two threads.

  PYTHONPATH=build/torch-pypi/python compare.py [--rows TEXT] [--seconds 3] [--json FILE]

A row is a model, forward or a training step. Backends of a row take turns; each figure is the lowest time of a call in ms, and
behind it the seconds of the first call, which includes tracing and compiling. Needs torchvision and transformers. PyTorch has
one lazy backend in a process: its own is measured first, in another one, each time beside eager mode, and `lazy` is compared by these
ratios.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import time

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads of a loaded machine must not spin
os.environ.setdefault("HAMMOCK_CPU_THREADS", "2")

import torch
import torch._lazy.ts_backend
import torch.nn as nn
import torch.nn.functional as F
import torchvision
import transformers

import hammock_torch
import hammock_torch.device  # noqa: F401: registers the device
from hammock_torch.dynamo import hammock

torch.set_num_threads(2)


def mlp():
    net = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    return net, torch.randn(128, 784), torch.randint(0, 10, (128,))


def encoder():
    block = nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True)
    return block, torch.randn(8, 128, 512), None


def lenet():
    net = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip
    return net, torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,))


def resnet18():
    return torchvision.models.resnet18(), torch.randn(4, 3, 224, 224), torch.randint(0, 1000, (4,))


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        config = transformers.GPT2Config(use_cache=False, attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0)
        self.model = transformers.GPT2LMHeadModel(config)

    def forward(self, tokens):
        return self.model(tokens).logits.flatten(0, 1)


def gpt2():
    tokens = torch.randint(0, 50257, (1, 128))
    return Gpt2(), tokens, tokens.flatten()


MODELS = {"MLP": mlp, "encoder block": encoder, "LeNet": lenet, "ResNet-18": resnet18, "GPT-2 small": gpt2}


def loss_of(output, target):
    return output.square().mean() if target is None else F.cross_entropy(output, target)


def same(x):
    return x


def on(device):
    return lambda x: x.to(device)


# A backend: what becomes of modules and tensors, of the called function, and what ends a step.
BACKENDS = {
    "eager": (same, same, lambda: None),
    "inductor": (same, torch.compile, lambda: None),
    "stock lazy": (on("lazy"), same, lambda: torch._lazy.mark_step(wait=True)),
    "compile": (same, lambda f: torch.compile(f, backend=hammock), lambda: None),
    "lazy": (on("lazy"), same, lambda: torch._lazy.mark_step(wait=True)),
    "device": (on("hammock"), same, lambda: torch.hammock.mark_step(wait=True)),
}


def step_of(make, training, backend):
    """A call that runs the model once and gives its output or its loss."""
    place, prepare, end = BACKENDS[backend]
    torch.manual_seed(0)
    model, x, target = make()
    model = place(model.train(training))
    x, target = place(x), target if target is None else place(target)
    run = prepare(model)
    if not training:

        def forward():
            with torch.no_grad():
                result = run(x)
            end()
            return result

        return forward
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)

    def train():
        optimizer.zero_grad()
        loss = loss_of(run(x), target)
        loss.backward()
        optimizer.step()
        end()
        return loss.detach()

    return train


def measure(make, training, backends, seconds):
    """Of each backend: the lowest ms, the seconds of the first call, and the first element of its result."""
    torch._dynamo.reset()
    steps, setup, values = {}, {}, {}
    for backend in backends:
        step = step_of(make, training, backend)
        start = time.perf_counter()
        try:
            result = step()
        except RuntimeError as error:
            if "lazy" not in backend:
                raise
            print(f"{backend} fails: {error}")
            continue
        values[backend] = result.flatten()[0].item()
        setup[backend] = time.perf_counter() - start
        for _ in range(3):  # optimisers make their state, programs are captured
            step()
        steps[backend] = step
    best = dict.fromkeys(steps, math.inf)
    end, rounds = time.perf_counter() + seconds * len(backends), 0
    while time.perf_counter() < end or rounds < 5:
        rounds += 1
        for backend, step in steps.items():
            start = time.perf_counter()
            step()
            best[backend] = min(best[backend], time.perf_counter() - start)
    return {b: {"ms": best[b] * 1e3, "setup_s": setup[b], "value": values[b]} for b in steps}


def check(row, results):
    expected = results["eager"]["value"]
    for backend, result in results.items():
        if not math.isclose(result["value"], expected, rel_tol=1e-3, abs_tol=1e-4):
            raise SystemExit(f"{row}: {backend} computed {result['value']}, eager mode {expected}")


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", default="")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--json")
    parser.add_argument("--stock-lazy", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    rows = [(name, training) for name in MODELS for training in (False, True)]
    names = {row: f"{row[0]} {'training' if row[1] else 'forward'}" for row in rows}
    rows = [row for row in rows if arguments.rows in names[row]]
    results = {row: {} for row in rows}

    def run_phase(backends):
        for row in rows:
            measured = measure(MODELS[row[0]], row[1], backends, arguments.seconds)
            check(names[row], measured)
            results[row][backends[1]] = measured

    if arguments.stock_lazy:
        torch._lazy.ts_backend.init()
        run_phase(["eager", "stock lazy"])
        print(json.dumps({names[row]: results[row]["stock lazy"] for row in rows}))
        return
    command = [sys.executable, __file__, "--stock-lazy", "--rows", arguments.rows, "--seconds", str(arguments.seconds)]
    stock = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
    for row in rows:
        results[row]["stock lazy"] = stock[names[row]]
    hammock_torch.lazy.init()
    run_phase(["eager", "lazy", "inductor", "compile", "device"])

    columns = ["eager", "inductor", "stock lazy", "compile", "lazy", "device"]
    print("row".ljust(24) + "".join(c.rjust(18) for c in columns) + "compile/inductor".rjust(18) + "lazy/stock".rjust(12))
    over_inductor, over_stock = [], []
    for row in rows:
        second, first = results[row]["lazy"], results[row]["stock lazy"]
        cells = {**first, **second}
        over_inductor.append(cells["inductor"]["ms"] / cells["compile"]["ms"])
        ratio = ""
        if "stock lazy" in first and "lazy" in second:
            by_eager = [cells["eager"]["ms"] / cells[lazy]["ms"] for cells, lazy in ((second, "lazy"), (first, "stock lazy"))]
            over_stock.append(by_eager[0] / by_eager[1])
            ratio = f"{over_stock[-1]:.2f}"
        shown = [f"{cells[c]['ms']:.2f} ({cells[c]['setup_s']:.1f})" if c in cells else "fails" for c in columns]
        print(names[row].ljust(24) + "".join(text.rjust(18) for text in shown) + f"{over_inductor[-1]:.2f}".rjust(18) + ratio.rjust(12))
    print(f"geometric mean: compile {geometric_mean(over_inductor):.2f}x inductor, lazy {geometric_mean(over_stock):.2f}x stock lazy")
    print(f"fallbacks: {hammock_torch.fallbacks()}")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({names[row]: results[row] for row in rows}, file, indent=1)


if __name__ == "__main__":
    main()
