#!/usr/bin/env python3
"""The workloads of gpu_bench on PyTorch (eager and compiled), in milliseconds: medians of
synchronised calls."""

import statistics
import sys
import time

import torch
import torch.nn.functional as F

BATCH, TOKENS, WIDTH, HEADS = 8, 1024, 1024, 16


def median_ms(call):
    for _ in range(8):
        call()
    torch.cuda.synchronize()
    times = []
    begin = time.perf_counter()
    while len(times) < 10 or (len(times) < 200 and time.perf_counter() - begin < 1):
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def random(*sizes, dtype=torch.float32, scale=1.0):
    return (torch.randn(*sizes, device="cuda") * scale).to(dtype)


def block_parameters():
    half = torch.bfloat16
    def weight(n_in, n_out):
        return random(n_out, n_in, dtype=half, scale=n_in ** -0.5)
    return [weight(WIDTH, 3 * WIDTH), random(3 * WIDTH, dtype=half), weight(WIDTH, WIDTH),
            random(WIDTH, dtype=half), weight(WIDTH, 4 * WIDTH), random(4 * WIDTH, dtype=half),
            weight(4 * WIDTH, WIDTH), random(WIDTH, dtype=half)] + [
                random(WIDTH, dtype=half) for _ in range(4)]


def block(x, p):
    qkv = F.linear(F.layer_norm(x, (WIDTH,), p[8], p[9]), p[0], p[1])
    q, k, v = qkv.view(BATCH, TOKENS, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
    mixed = F.scaled_dot_product_attention(q, k, v).permute(0, 2, 1, 3)
    y = x + F.linear(mixed.reshape(BATCH, TOKENS, WIDTH), p[2], p[3])
    return y + F.linear(F.gelu(F.linear(F.layer_norm(y, (WIDTH,), p[10], p[11]), p[4], p[5])),
                        p[6], p[7])


def sgd(loss, parameters, rate):
    grads = torch.autograd.grad(loss, parameters)
    with torch.no_grad():
        torch._foreach_sub_(parameters, grads, alpha=rate)


def rows():
    x, w, b = (random(1 << 26) for _ in range(3))
    yield "gelu(x*w+b)+x 64M f32", lambda: lambda: F.gelu(x * w + b) + x
    m = random(16384, 4096)
    yield "softmax 16384x4096 f32", lambda: lambda: torch.softmax(m, -1)
    u, v = random(4096), random(4096)
    yield "layer norm 16384x4096 f32", lambda: lambda: F.layer_norm(m, (4096,), u, v)
    yield "sum over rows 16384x4096 f32", lambda: lambda: m.sum(0)
    yield "sum of all 64M f32", lambda: lambda: x.sum()
    t = random(8192, 8192)
    yield "transpose 8192x8192 f32", lambda: lambda: t.t().contiguous()
    a, c = (random(8192, 8192, dtype=torch.bfloat16) for _ in range(2))
    yield "matmul 8192 bf16", lambda: lambda: a @ c
    p = block_parameters()
    bx, target = (random(BATCH, TOKENS, WIDTH, dtype=torch.bfloat16) for _ in range(2))
    yield "transformer block forward bf16", lambda: lambda: block(bx, p)

    def train():
        q = [w.clone().requires_grad_() for w in p]
        return lambda: sgd(((block(bx, q) - target) ** 2).mean(), q, 1e-3)
    yield "transformer block train SGD bf16", train

    def mlp():
        q = [random(512, 784, scale=0.03), torch.zeros(512, device="cuda"),
             random(512, 512, scale=0.04), torch.zeros(512, device="cuda"),
             random(10, 512, scale=0.04), torch.zeros(10, device="cuda")]
        q = [w.requires_grad_() for w in q]
        data, labels = random(128, 784), torch.randint(0, 10, (128,), device="cuda")

        def step():
            h = torch.relu(F.linear(data, q[0], q[1]))
            h = torch.relu(F.linear(h, q[2], q[3]))
            sgd(F.cross_entropy(F.linear(h, q[4], q[5]), labels), q, 0.01)
        return step
    yield "MLP train, batch 128, f32 highest", mlp


def main():
    compiled = "--compile" in sys.argv
    for name, make in rows():
        eager = median_ms(make())
        line = f"{name:36} eager {eager:8.3f}"
        if compiled:
            line += f"  compiled {median_ms(torch.compile(make())):8.3f}"
        print(line, flush=True)


main()
