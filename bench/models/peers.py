#!/usr/bin/env python3
"""The models of model_bench in PyTorch: one line of JSON for each row.

  peers.py eager|compile|hammock [--device cpu|cuda] [--row TEXT] [--seconds 5]

`hammock` is torch.compile with the backend of bridge/torch.

Convolutions are channels-last, the fused optimiser is used where there is one, decoding is compiled with CUDA graphs
(mode="reduce-overhead"). Training is compiled by the default mode: small batches may be faster with CUDA graphs."""

import argparse
import functools
import gc
import json
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

arguments = argparse.ArgumentParser()
arguments.add_argument("mode", choices=["eager", "compile", "hammock"])
arguments.add_argument("--device", default="cpu")
arguments.add_argument("--row", default="")
arguments.add_argument("--seconds", type=float, default=5)
arguments = arguments.parse_args()
DEVICE, COMPILED = arguments.device, arguments.mode != "eager"
CUDA = DEVICE == "cuda"
compiled = torch.compile
if arguments.mode == "hammock":
    from hammock_torch.dynamo import hammock
    compiled = functools.partial(torch.compile, backend=hammock)


def finish():
    if CUDA:
        torch.cuda.synchronize()


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(self.norm_1(x)).view(batch, length, 3, self.heads, -1).unbind(2)
        mixed = F.scaled_dot_product_attention(*(p.transpose(1, 2) for p in parts), is_causal=True)
        y = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return y + self.down(F.gelu(self.up(self.norm_2(y))))


class Gpt(nn.Module):
    def __init__(self, context, width=768, heads=12, layers=12, vocabulary=50304):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        nn.init.normal_(self.tokens.weight, 0, 0.02)
        nn.init.normal_(self.positions.weight, 0, 0.02)
        self.blocks = nn.Sequential(*(GptBlock(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, tokens):
        positions = self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.norm(self.blocks(self.tokens(tokens) + positions))).flatten(0, 1)


def convolution(n_in, n_out, kernel, stride):
    return nn.Conv2d(n_in, n_out, kernel, stride, kernel // 2, bias=False)


class ResidualBlock(nn.Module):
    def __init__(self, channels, layers):
        super().__init__()
        path, n_in, total = [], channels, 1
        for n_out, kernel, stride in layers:
            path += [convolution(n_in, n_out, kernel, stride), nn.BatchNorm2d(n_out), nn.ReLU()]
            n_in, total = n_out, total * stride
        self.path = nn.Sequential(*path[:-1])
        self.shortcut = nn.Identity()
        if total != 1 or channels != n_in:
            self.shortcut = nn.Sequential(convolution(channels, n_in, 1, total), nn.BatchNorm2d(n_in))

    def forward(self, x):
        return F.relu(self.path(x) + self.shortcut(x))


def resnet(depth):
    layers, channels = [convolution(3, 64, 7, 2), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for stage, count in enumerate((3, 4, 6, 3) if depth == 50 else (2, 2, 2, 2)):
        for i in range(count):
            width, stride = 64 << stage, 2 if stage and not i else 1
            block = [(width, 3, stride), (width, 3, 1)]
            if depth == 50:
                block = [(width, 1, 1), (width, 3, stride), (4 * width, 1, 1)]
            layers.append(ResidualBlock(channels, block))
            channels = block[-1][0]
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))
    return net.to(DEVICE, memory_format=torch.channels_last)


class LlamaBlock(nn.Module):
    def __init__(self, width, heads, key_heads, inner, context):
        super().__init__()
        self.heads, self.key_heads, self.size = heads, key_heads, width // heads
        linear = lambda a, b: nn.Linear(a, b, bias=False)
        self.q, self.out = linear(width, width), linear(width, width)
        self.k, self.v = (linear(width, key_heads * self.size) for _ in "kv")
        self.norm_1, self.norm_2 = nn.RMSNorm(width, 1e-5), nn.RMSNorm(width, 1e-5)
        self.gate, self.up, self.down = linear(width, inner), linear(width, inner), linear(inner, width)
        self.register_buffer("keys", torch.zeros(1, key_heads, context, self.size))
        self.register_buffer("values", torch.zeros(1, key_heads, context, self.size))

    def forward(self, x, cos, sin, position=None, mask=None):
        """With a position: one token, by the cache of those before it."""
        batch, length, _ = x.shape

        def split(y, heads):
            return y.view(batch, length, heads, self.size).transpose(1, 2)

        def rotated(y):
            a, b = y.chunk(2, -1)
            return y * cos + torch.cat((-b, a), -1) * sin
        n = self.norm_1(x)
        keys, values = rotated(split(self.k(n), self.key_heads)), split(self.v(n), self.key_heads)
        if position is not None:
            keys, values = self.keys.index_copy_(2, position, keys), self.values.index_copy_(2, position, values)
        mixed = F.scaled_dot_product_attention(rotated(split(self.q(n), self.heads)), keys, values,
                                               attn_mask=mask, is_causal=mask is None, enable_gqa=True)
        y = x + self.out(mixed.transpose(1, 2).reshape(batch, length, -1))
        m = self.norm_2(y)
        return y + self.down(F.silu(self.gate(m)) * self.up(m))


class Llama(nn.Module):
    def __init__(self, width=2048, layers=16, heads=32, key_heads=8, inner=8192, vocabulary=32000, context=512):
        super().__init__()
        self.context = context
        self.tokens = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(LlamaBlock(width, heads, key_heads, inner, context) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width, 1e-5), nn.Linear(width, vocabulary, bias=False)
        size = width // heads
        angles = torch.outer(torch.arange(context).float(), 10000.0 ** (-torch.arange(0, size, 2).float() / size))
        angles = torch.cat((angles, angles), -1)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, token, position=None):
        x, cos, sin = self.tokens(token), self.cos, self.sin
        if position is None:
            for block in self.blocks:
                x = block(x, cos, sin)
            return self.head(self.norm(x)).flatten(0, 1)
        cos, sin = cos[position], sin[position]
        mask = (torch.arange(self.context, device=token.device) <= position)[None, None, None]
        for block in self.blocks:
            x = block(x, cos, sin, position, mask)
        return self.head(self.norm(x[:, -1])).argmax(-1, keepdim=True)


def training(model, optimizer, x, labels, half):
    def loss_of(x, labels):
        with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=half):
            return F.cross_entropy(model(x), labels)
    compute = compiled(loss_of) if COMPILED else loss_of

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = compute(x, labels)
        loss.backward()
        optimizer.step()
        return loss
    return step


def train_text(model, batch, context, vocabulary, half):
    model.to(DEVICE)
    tokens = lambda: torch.randint(0, vocabulary, (batch, context), device=DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    return training(model, optimizer, tokens(), tokens().flatten(), half)


def train_gpt2(batch, length):
    return train_text(Gpt(length), batch, length, 50304, True)


def train_small_gpt():
    return train_text(Gpt(256, width=256, heads=8, layers=6, vocabulary=8192), 4, 256, 8192, False)


LLAMA_100M = dict(width=768, layers=10, heads=12, key_heads=4, inner=2048, vocabulary=16000, context=256)


def train_small_llama():
    model = Llama(width=256, layers=6, heads=8, key_heads=4, inner=704, vocabulary=8192, context=256)
    return train_text(model, 4, 256, 8192, False)


class Recurrent(nn.Module):
    def __init__(self, layer, width=256):
        super().__init__()
        self.layer, self.head = layer(width, width, batch_first=True), nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.layer(x)[0][:, -1])


def train_recurrent(layer):
    model = Recurrent(layer).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, fused=True)
    return training(model, optimizer, torch.randn(32, 64, 256, device=DEVICE),
                    torch.randint(0, 10, (32,), device=DEVICE), False)


def of_matrix(op, rows, columns):
    x = torch.randn(rows, columns, device=DEVICE)
    run = compiled(op) if COMPILED else op
    return torch.no_grad()(lambda: run(x))


def embedding_gradient():
    weight = torch.randn(32000, 256, device=DEVICE, requires_grad=True)
    tokens, grad = torch.randint(0, 32000, (8192,), device=DEVICE), torch.randn(8192, 256, device=DEVICE)
    rows = compiled(F.embedding) if COMPILED else F.embedding
    return lambda: torch.autograd.grad(rows(tokens, weight), weight, grad)[0]


def images(batch):
    return torch.randn(batch, 3, 224, 224, device=DEVICE).to(memory_format=torch.channels_last)


def train_resnet(depth, batch, half):
    model = resnet(depth)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, fused=True)
    return training(model, optimizer, images(batch), torch.randint(0, 1000, (batch,), device=DEVICE), half)


def infer_resnet18(batch, half):
    model, x = resnet(18).eval(), images(batch)

    def forward(x):
        with torch.no_grad(), torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=half):
            return model(x)
    forward = compiled(forward) if COMPILED else forward
    return lambda: forward(x)


class Classifier(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.layers = nn.Sequential(*(nn.TransformerEncoderLayer(
            width, 4, 4 * width, 0.0, "gelu", batch_first=True) for _ in range(4)))
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.layers(x).mean(1))


def train_encoder(half):
    model = Classifier().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    return training(model, optimizer, torch.randn(16, 64, 256, device=DEVICE),
                    torch.randint(0, 10, (16,), device=DEVICE), half)


def decode(**sizes):
    model = Llama(**sizes).to(DEVICE, torch.bfloat16).eval()
    forward = compiled(model, mode="reduce-overhead" if CUDA else None, fullgraph=True) if COMPILED else model
    state = {"token": torch.tensor([[1]], device=DEVICE), "position": 0}

    def step():
        position = torch.tensor([state["position"] % model.context], device=DEVICE)
        state["position"] += 1
        with torch.no_grad():
            state["token"] = forward(state["token"], position).clone()
        return state["token"]
    return step


ROWS = [
    ("GPT-2 124M training, 8 x 1024, bf16", "cuda", False, lambda: train_gpt2(8, 1024)),
    ("GPT-2 124M training, 1 x 256, bf16", "cuda", False, lambda: train_gpt2(1, 256)),
    ("ResNet-50 training, 64 x 224, bf16", "cuda", False, lambda: train_resnet(50, 64, True)),
    ("Llama-style 100M training, 32 x 256, bf16", "cuda", False,
     lambda: train_text(Llama(**LLAMA_100M), 32, 256, 16000, True)),
    ("Llama-style 1B decoding, bf16", "cuda", True, decode),
    ("ResNet-18 training, 4 x 224, f32", "cpu", False, lambda: train_resnet(18, 4, False)),
    ("ResNet-18 training, 4 x 224, bf16", "cpu", False, lambda: train_resnet(18, 4, True)),
    ("ResNet-18 inference, 4 x 224, f32", "cpu", False, lambda: infer_resnet18(4, False)),
    ("ResNet-18 inference, 4 x 224, bf16", "cpu", False, lambda: infer_resnet18(4, True)),
    ("encoder training, 16 x 64 x 256, f32", "cpu", False, lambda: train_encoder(False)),
    ("encoder training, 16 x 64 x 256, bf16", "cpu", False, lambda: train_encoder(True)),
    ("ResNet-50 training, 4 x 224, f32", "cpu", False, lambda: train_resnet(50, 4, False)),
    ("GPT-2-style training, 4 x 256, f32", "cpu", False, train_small_gpt),
    ("Llama-style training, 4 x 256, f32", "cpu", False, train_small_llama),
    ("Llama-style 100M decoding, bf16", "cpu", True, lambda: decode(**LLAMA_100M)),
    ("LSTM training, 32 x 64 x 256, f32", "cpu", False, lambda: train_recurrent(nn.LSTM)),
    ("GRU training, 32 x 64 x 256, f32", "cpu", False, lambda: train_recurrent(nn.GRU)),
    ("gradient of an embedding, 8192 of 32000 x 256", "cpu", False, embedding_gradient),
    ("sort, 64 x 16384", "cpu", False, lambda: of_matrix(lambda x: x.sort()[0], 64, 16384)),
    ("top 50 of 64 x 16384", "cpu", False, lambda: of_matrix(lambda x: x.topk(50)[0], 64, 16384)),
    ("cumsum of rows, 4096 x 1024", "cpu", False, lambda: of_matrix(lambda x: x.cumsum(1), 4096, 1024)),
    ("cumsum of columns, 4096 x 1024", "cpu", False, lambda: of_matrix(lambda x: x.cumsum(0), 4096, 1024)),
    ("softmax, 4096 x 1024", "cpu", False, lambda: of_matrix(lambda x: x.softmax(-1), 4096, 1024)),
    ("layer norm, 4096 x 1024", "cpu", False, lambda: of_matrix(lambda x: F.layer_norm(x, (1024,)), 4096, 1024)),
]


def milliseconds(step, count, waits):
    start = time.perf_counter()
    for _ in range(count):
        step()
        if waits:
            finish()
    finish()
    return (time.perf_counter() - start) * 1e3 / count


def tensor_bytes():
    """Of all tensors that are alive."""
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes()
                for t in gc.get_objects() if issubclass(type(t), torch.Tensor)}
    return sum(storages.values())


def cpu_peak(step):
    """The most that tensors take during a step: what lives before it, and what the allocator's events add up to. The
    second step of a profile is taken, since memory that is older than the profile is given back without an event."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as run:
        step()
        gc.collect()
        before = tensor_bytes()
        with torch.profiler.record_function("second step"):
            step()
    live, start, most = 0, None, 0
    for event in sorted(run.profiler.kineto_results.events(), key=lambda event: event.start_ns()):
        if event.name() == "second step":
            start = most = live
        elif event.name() == "[memory]":
            live += event.nbytes()
            most = max(most, live)
    return before + most - start


def measure(name, waits, make):
    torch.manual_seed(1)
    if CUDA:
        torch.cuda.reset_peak_memory_stats()
    step = make()
    first = milliseconds(step, 1, waits)
    start = time.perf_counter()
    while time.perf_counter() - start < max(2, 0.1 * arguments.seconds):
        milliseconds(step, 3, waits)
    count = min(50, max(1, int(100 / milliseconds(step, 3, waits))))
    times, start = [], time.perf_counter()
    while len(times) < 5 or time.perf_counter() - start < arguments.seconds:
        times.append(milliseconds(step, count, waits))
    times.sort()
    line = {"row": name, "side": f"PyTorch {torch.__version__.split('+')[0]}, {arguments.mode}",
            "ms": times[len(times) // 2], "min": times[0], "first": first}
    line["peak"] = torch.cuda.max_memory_allocated() if CUDA else cpu_peak(step)
    print(json.dumps(line), flush=True)


torch.backends.cudnn.benchmark = True
for name, device, waits, make in ROWS:
    if device == DEVICE and arguments.row in name:
        try:
            measure(name, waits, make)
        except Exception as error:  # a peer that cannot do a row leaves it empty
            print(json.dumps({"row": name, "side": arguments.mode, "why": str(error).split("\n")[0][:200]}), flush=True)
