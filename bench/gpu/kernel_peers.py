#!/usr/bin/env python3
"""The rows of kernel_bench on PyTorch, eager, in milliseconds: medians of synchronised calls.

  kernel_peers.py [TEXT...]: rows whose names have one of the texts
"""

import statistics
import sys
import time

import torch
import torch.nn.functional as F

MANY = 1 << 26


def median_ms(call):
    for _ in range(4):
        call()
    torch.cuda.synchronize()
    times = []
    begin = time.perf_counter()
    while len(times) < 10 or (len(times) < 100 and time.perf_counter() - begin < 0.3):
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def random(*sizes, dtype=torch.float32):
    return torch.randn(*sizes, device="cuda").to(dtype)


def convolution(channels, side, dtype, backward):
    x = random(64, channels, side, side, dtype=dtype).requires_grad_(backward)
    w = random(channels, channels, 3, 3, dtype=dtype).requires_grad_(backward)
    g = random(64, channels, side, side, dtype=dtype)
    if not backward:
        return lambda: F.conv2d(x, w, None, 1, 1)
    return lambda: torch.autograd.grad(F.conv2d(x, w, None, 1, 1), [x, w], g)


def attention(length, dtype, backward):
    q, k, v, g = (random(4, 16, length, 64, dtype=dtype) for _ in range(4))
    if not backward:
        return lambda: F.scaled_dot_product_attention(q, k, v)
    for x in (q, k, v):
        x.requires_grad_()
    return lambda: torch.autograd.grad(F.scaled_dot_product_attention(q, k, v), [q, k, v], g)


def rows():
    half = torch.bfloat16
    yield "conv 3x3 64x64x56x56 f32", lambda: convolution(64, 56, torch.float32, False)
    yield "conv 3x3 64x256x14x14 f32", lambda: convolution(256, 14, torch.float32, False)
    yield "conv 3x3 64x64x56x56 bf16", lambda: convolution(64, 56, half, False)
    yield "conv gradients 64x64x56x56 f32", lambda: convolution(64, 56, torch.float32, True)
    yield "conv gradients 64x64x56x56 bf16", lambda: convolution(64, 56, half, True)
    image = random(64, 64, 112, 112)
    yield "max pool 3x3/2 64x64x112x112 f32", lambda: lambda: F.max_pool2d(image, 3, 2, 1)
    yield "attention 4x16x2048x64 f32", lambda: attention(2048, torch.float32, False)
    yield "attention 4x16x8192x64 f32", lambda: attention(8192, torch.float32, False)
    yield "attention 4x16x2048x64 bf16", lambda: attention(2048, half, False)
    yield "attention gradients 4x16x2048x64 f32", lambda: attention(2048, torch.float32, True)
    yield "attention gradients 4x16x2048x64 bf16", lambda: attention(2048, half, True)
    many, lines = random(65536, 1024), random(1 << 24)
    yield "sort 65536x1024 f32", lambda: lambda: torch.sort(many)
    yield "sort 16M f32", lambda: lambda: torch.sort(lines)
    whole = lines.long()
    yield "sort 16M i64", lambda: lambda: torch.sort(whole)
    far_apart = (random(1 << 24, dtype=torch.float64) * 1e18).long()
    yield "sort 16M i64 of all bits", lambda: lambda: torch.sort(far_apart)
    words, flat = random(1024, 50257), random(MANY)
    yield "top 32 of 1024x50257 f32", lambda: lambda: torch.topk(words, 32)
    yield "top 10 of 64M f32", lambda: lambda: torch.topk(flat, 10)
    yield "cumsum 64M f32", lambda: lambda: torch.cumsum(flat, 0)
    m = random(16384, 4096)
    yield "cumsum 16384x4096 f32, rows", lambda: lambda: torch.cumsum(m, 1)
    t = random(4096, 16384)
    yield "cumsum 4096x16384 f32, columns", lambda: lambda: torch.cumsum(t, 0)

    def gradient(tokens, count, width, dtype):
        index = torch.randint(0, count, (tokens,), device="cuda")
        g, zero = random(tokens, width, dtype=dtype), torch.zeros(count, width, device="cuda", dtype=dtype)
        return lambda: torch.index_add(zero, 0, index, g)
    yield "index_add 65536 rows to 50257x768 f32", lambda: gradient(65536, 50257, 768, torch.float32)
    yield "index_add 65536 rows to 50257x768 bf16", lambda: gradient(65536, 50257, 768, half)
    yield "index_add 65536 rows to 8x768 f32", lambda: gradient(65536, 8, 768, torch.float32)
    index = torch.randint(0, 1 << 20, (1 << 24,), device="cuda")
    zero = torch.zeros(1 << 20, device="cuda")
    yield "scatter_add 16M to 1M f32", lambda: lambda: torch.scatter_add(zero, 0, index, lines)
    bins = torch.randint(0, 256, (1 << 24,), device="cuda")
    yield "bincount-like add, 16M i64 to 256", lambda: lambda: torch.scatter_add(
        torch.zeros(256, device="cuda", dtype=torch.long), 0, bins, torch.ones_like(bins))
    far = torch.randint(0, MANY, (MANY,), device="cuda")
    yield "gather 64M f32", lambda: lambda: torch.gather(flat, 0, far)
    yield "copy 64M f32", lambda: lambda: flat * 2
    yield "sum over rows 16384x4096 f32", lambda: lambda: m.sum(0)
    narrow, long = m.to(half), random(65536, 1024, dtype=half)
    yield "sum over rows 16384x4096 bf16", lambda: lambda: narrow.sum(0)
    yield "sum over rows 65536x1024 bf16", lambda: lambda: long.sum(0)
    yield "sum of all 64M f32", lambda: lambda: flat.sum()
    square = random(8192, 8192)
    small = square.to(half)
    yield "transpose 8192x8192 f32", lambda: lambda: square.t().contiguous()
    yield "transpose 8192x8192 bf16", lambda: lambda: small.t().contiguous()
    yield "uniform random 64M f32", lambda: lambda: torch.rand(MANY, device="cuda")
    yield "normal random 64M f32", lambda: lambda: torch.randn(MANY, device="cuda")


torch.backends.cudnn.allow_tf32 = False
for name, make in rows():
    if len(sys.argv) > 1 and not any(text in name for text in sys.argv[1:]):
        continue
    print(f"{name:40} eager {median_ms(make()):8.3f}", flush=True)
