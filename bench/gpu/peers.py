#!/usr/bin/env python3
"""gpu_bench beside PyTorch (eager, compiled, lazy) and JAX on the same card, in one run: medians of
synchronised calls in milliseconds, and a table of them with the goals last.

  peers.py [--ours GPU_BENCH] [--seconds 120] [peer...]

Peers are eager, compile, lazy and jax; those that cannot be imported, or fail at a row, leave it
empty. Each is a process of its own with a part of the time. Names of rows say in which precision
matmuls are computed, the same for all."""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time

BATCH, TOKENS, WIDTH, HEADS = 8, 1024, 1024, 16
PEERS = {"eager": 0.1, "compile": 0.35, "lazy": 0.1, "jax": 0.45}  # of the time

GELU = "gelu(x*w+b)+x 64M f32"
SOFTMAX = "softmax 16384x4096 f32"
NORM = "layer norm 16384x4096 f32"
ROWS = "sum over rows 16384x4096 f32"
ALL = "sum of all 64M f32"
TRANSPOSE = "transpose 8192x8192 f32"
SCALARS = "200 scalar ops on 16 elements"
MATMUL = "matmul 8192 bf16"
FORWARD = "transformer block forward bf16"
TRAIN = "transformer block train SGD bf16"
MLP = "MLP train, batch 128, f32 {}"


def median_ms(call, finish, seconds=0.3):
    for _ in range(10):
        call()
    finish()
    times = []
    begin = time.perf_counter()
    while len(times) < 10 or (len(times) < 200 and time.perf_counter() - begin < seconds):
        start = time.perf_counter()
        call()
        finish()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def report(name, make, finish):
    """One line for the parent: the row's time, or why there is none."""
    try:
        print(json.dumps({"row": name, "ms": median_ms(make(), finish)}), flush=True)
    except Exception as error:
        why = str(error).strip().split("\n")[0][:120] or type(error).__name__
        print(json.dumps({"row": name, "why": why}), flush=True)


# ---- PyTorch


def run_torch(kind):
    if kind == "lazy":
        os.environ["LTC_TS_CUDA"] = "1"
    import torch
    import torch.nn.functional as F

    device, half = "cuda", torch.bfloat16
    finish, step, wrap = torch.cuda.synchronize, lambda: None, lambda f: f
    if kind == "compile":
        wrap = torch.compile
    if kind == "lazy":
        import torch._lazy
        import torch._lazy.ts_backend
        torch._lazy.ts_backend.init()
        device, step = "lazy", torch._lazy.mark_step

        def finish():
            torch._lazy.wait_device_ops()
            torch.cuda.synchronize()

    def random(*sizes, dtype=torch.float32, scale=1.0):
        return (torch.randn(*sizes, device="cuda") * scale).to(dtype).to(device)

    def simple(function, *operands):
        function = wrap(function)

        def call():
            result = function(*operands)
            step()
            return result
        return call

    def scalars(x):
        for _ in range(100):
            x = x * 0.99 + 0.01
        return x

    def weight(n_in, n_out):
        return random(n_out, n_in, dtype=half, scale=n_in ** -0.5)

    def block_parameters():
        return [weight(WIDTH, 3 * WIDTH), random(3 * WIDTH, dtype=half, scale=0.1),
                weight(WIDTH, WIDTH), random(WIDTH, dtype=half, scale=0.1),
                weight(WIDTH, 4 * WIDTH), random(4 * WIDTH, dtype=half, scale=0.1),
                weight(4 * WIDTH, WIDTH), random(WIDTH, dtype=half, scale=0.1)] + [
                    random(WIDTH, dtype=half) for _ in range(4)]

    def block(x, *p):
        qkv = F.linear(F.layer_norm(x, (WIDTH,), p[8], p[9]), p[0], p[1])
        q, k, v = qkv.view(BATCH, TOKENS, 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v).permute(0, 2, 1, 3)
        y = x + F.linear(mixed.reshape(BATCH, TOKENS, WIDTH), p[2], p[3])
        m = F.gelu(F.linear(F.layer_norm(y, (WIDTH,), p[10], p[11]), p[4], p[5]))
        return y + F.linear(m, p[6], p[7])

    def trainer(parameters, rate, loss):
        parameters = [w.requires_grad_() for w in parameters]

        def train():
            grads = torch.autograd.grad(loss(*parameters), parameters)
            with torch.no_grad():
                if kind == "lazy":
                    for w, grad in zip(parameters, grads):
                        w.sub_(grad, alpha=rate)
                else:
                    torch._foreach_sub_(parameters, grads, alpha=rate)
        return simple(train)

    def train_block():
        x, target = (random(BATCH, TOKENS, WIDTH, dtype=half) for _ in range(2))
        return trainer(block_parameters(), 1e-3, lambda *p: ((block(x, *p) - target) ** 2).mean())

    def train_mlp():
        data = random(128, 784)
        labels = torch.randint(0, 10, (128,), device="cuda").to(device)

        def loss(w0, b0, w1, b1, w2, b2):
            h = torch.relu(F.linear(data, w0, b0))
            h = torch.relu(F.linear(h, w1, b1))
            return F.cross_entropy(F.linear(h, w2, b2), labels)
        zeros = lambda n: torch.zeros(n, device="cuda").to(device)
        return trainer([random(512, 784, scale=0.03), zeros(512), random(512, 512, scale=0.04),
                        zeros(512), random(10, 512, scale=0.04), zeros(10)], 0.01, loss)

    def row(name, make):
        report(name, make, finish)

    big, plane, square = (1 << 26,), (16384, 4096), (8192, 8192)
    row(SCALARS, lambda: simple(scalars, random(16)))
    for precision in ("highest", "high"):
        torch.set_float32_matmul_precision(precision)
        row(MLP.format(precision), train_mlp)
    torch.set_float32_matmul_precision("highest")
    row(GELU, lambda: simple(lambda x, w, b: F.gelu(x * w + b) + x, *(random(*big) for _ in "xwb")))
    row(SOFTMAX, lambda: simple(lambda x: torch.softmax(x, -1), random(*plane)))
    row(NORM, lambda: simple(lambda x, w, b: F.layer_norm(x, (4096,), w, b), random(*plane),
                             random(4096), random(4096)))
    row(FORWARD, lambda: simple(block, random(BATCH, TOKENS, WIDTH, dtype=half),
                                *block_parameters()))
    row(TRAIN, train_block)
    row(ROWS, lambda: simple(lambda x: x.sum(0), random(*plane)))
    row(ALL, lambda: simple(lambda x: x.sum(), random(*big)))
    row(TRANSPOSE, lambda: simple(lambda x: x.t().contiguous(), random(*square)))
    row(MATMUL, lambda: simple(lambda a, b: a @ b, *(random(*square, dtype=half) for _ in "ab")))


# ---- JAX


def run_jax():
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax
    import jax.numpy as jnp

    if jax.default_backend() != "gpu":
        raise RuntimeError("JAX has no GPU")
    half, keys = jnp.bfloat16, iter(jax.random.split(jax.random.key(0), 1000))

    def random(*sizes, dtype=jnp.float32, scale=1.0):
        return (jax.random.normal(next(keys), sizes, jnp.float32) * scale).astype(dtype)

    def simple(function, *operands):
        function = jax.jit(function)
        return lambda: jax.block_until_ready(function(*operands))

    def trainer(parameters, loss, rate):
        @jax.jit
        def train(p):
            return jax.tree.map(lambda w, g: w - (rate * g).astype(w.dtype), p, jax.grad(loss)(p))
        state = [parameters]

        def call():
            state[0] = jax.block_until_ready(train(state[0]))
        return call

    def scalars(x):
        for _ in range(100):
            x = x * 0.99 + 0.01
        return x

    def norm(x, w, b):
        wide = x.astype(jnp.float32)
        mean = wide.mean(-1, keepdims=True)
        scale = jax.lax.rsqrt(wide.var(-1, keepdims=True) + 1e-5)
        return ((wide - mean) * scale * w + b).astype(x.dtype)

    def block_parameters():
        def weight(n_in, n_out):
            return random(n_out, n_in, dtype=half, scale=n_in ** -0.5)
        return [weight(WIDTH, 3 * WIDTH), random(3 * WIDTH, dtype=half, scale=0.1),
                weight(WIDTH, WIDTH), random(WIDTH, dtype=half, scale=0.1),
                weight(WIDTH, 4 * WIDTH), random(4 * WIDTH, dtype=half, scale=0.1),
                weight(4 * WIDTH, WIDTH), random(WIDTH, dtype=half, scale=0.1)] + [
                    random(WIDTH, dtype=half) for _ in range(4)]

    def block(x, p):
        qkv = (norm(x, p[8], p[9]) @ p[0].T + p[1]).reshape(BATCH, TOKENS, 3, HEADS, -1)
        mixed = jax.nn.dot_product_attention(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2])
        y = x + mixed.reshape(BATCH, TOKENS, WIDTH) @ p[2].T + p[3]
        m = jax.nn.gelu(norm(y, p[10], p[11]) @ p[4].T + p[5], approximate=False)
        return y + m @ p[6].T + p[7]

    def train_block():
        x, target = (random(BATCH, TOKENS, WIDTH, dtype=half) for _ in range(2))
        return trainer(block_parameters(), lambda p: ((block(x, p) - target) ** 2).mean(), 1e-3)

    def train_mlp():
        data, labels = random(128, 784), jax.random.randint(next(keys), (128,), 0, 10)

        def loss(p):
            h = jax.nn.relu(data @ p[0].T + p[1])
            h = jax.nn.relu(h @ p[2].T + p[3])
            scores = jax.nn.log_softmax(h @ p[4].T + p[5])
            return -jnp.take_along_axis(scores, labels[:, None], 1).mean()
        return trainer([random(512, 784, scale=0.03), jnp.zeros(512),
                        random(512, 512, scale=0.04), jnp.zeros(512),
                        random(10, 512, scale=0.04), jnp.zeros(10)], loss, 0.01)

    def row(name, make):
        report(name, make, lambda: None)

    big, plane, square = (1 << 26,), (16384, 4096), (8192, 8192)
    row(SCALARS, lambda: simple(scalars, random(16)))
    for precision, of_jax in (("highest", "float32"), ("high", "tensorfloat32")):
        with jax.default_matmul_precision(of_jax):
            row(MLP.format(precision), train_mlp)
    row(GELU, lambda: simple(lambda x, w, b: jax.nn.gelu(x * w + b, approximate=False) + x,
                             *(random(*big) for _ in "xwb")))
    row(SOFTMAX, lambda: simple(lambda x: jax.nn.softmax(x, -1), random(*plane)))
    row(NORM, lambda: simple(norm, random(*plane), random(4096), random(4096)))
    row(ROWS, lambda: simple(lambda x: x.sum(0), random(*plane)))
    row(ALL, lambda: simple(lambda x: x.sum(), random(*big)))
    row(TRANSPOSE, lambda: simple(lambda x: jnp.copy(x.T), random(*square)))
    row(MATMUL, lambda: simple(lambda a, b: a @ b, *(random(*square, dtype=half) for _ in "ab")))
    row(FORWARD, lambda: simple(block, random(BATCH, TOKENS, WIDTH, dtype=half),
                                block_parameters()))
    row(TRAIN, train_block)


# ---- All of them


def run_limited(command, seconds):
    """Its output, as far as it came in time."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        err = f"stopped after {seconds:.0f} s"
    return out or "", (err or "").strip().split("\n")[-1]


def run_peer(peer, seconds):
    out, err = run_limited([sys.executable, __file__, "--only", peer], seconds)
    found = [json.loads(line) for line in out.split("\n") if line.startswith("{")]
    for line in found:
        if "why" in line:
            print(f"{peer}: {line['row']}: {line['why']}")
    times = {line["row"]: line["ms"] for line in found if "ms" in line}
    if not found or err.startswith("stopped"):
        print(f"{peer}: {len(times)} rows: {err}")
    return times


def run_ours(program, seconds):
    out, err = run_limited([program], seconds)
    print(out, end="")
    times, goals = {}, {}
    for line in out.split("\n"):
        match = re.match(r"(.+?)\s+([\d.]+) ms(?:.*goal ([\d.]+))?", line)
        if match:
            times[match[1]] = float(match[2])
            if match[3]:
                goals[match[1]] = float(match[3])
    if not times:
        print(f"{program}: {err}")
    return times, goals


def print_table(columns, goals):
    names = list(dict.fromkeys(row for times in columns.values() for row in times))
    print(f"{'ms':36}" + "".join(f"{name:>10}" for name in columns) +
          f"{'goal':>8}{'ours/goal':>11}{'best/ours':>11}")
    for row in names:
        times = {name: column.get(row) for name, column in columns.items()}
        ours, goal = times.get("ours"), goals.get(row)
        others = [ms for name, ms in times.items() if name != "ours" and ms]
        line = f"{row:36}" + "".join(f"{ms:10.3f}" if ms else f"{'-':>10}" for ms in times.values())
        line += f"{goal:8.3f}" if goal else f"{'':>8}"
        line += f"{ours / goal:10.2f}x" if ours and goal else f"{'':>11}"
        line += f"{min(others) / ours:10.2f}x" if ours and others else ""
        print(line.rstrip())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ours", help="the program gpu_bench")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--only", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("peers", nargs="*", default=[])
    options = parser.parse_args()
    if options.only:
        return run_jax() if options.only == "jax" else run_torch(options.only)
    columns, goals, left = {}, {}, options.seconds
    if options.ours:
        start = time.perf_counter()
        columns["ours"], goals = run_ours(options.ours, left)
        left -= time.perf_counter() - start
    for peer in options.peers or PEERS:
        columns[peer] = run_peer(peer, max(left * PEERS[peer], 1))
    print_table(columns, goals)


if __name__ == "__main__":
    main()
