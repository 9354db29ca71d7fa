#!/usr/bin/env python3
"""Writes a golden suite of wide unsigned integers and of f8, computed by PyTorch 2 on its CPU.

    scripts/golden_types.py DIR                  # needs torch and numpy
    tests/golden/pack.sh DIR golden_types        # makes tests/golden/golden_types.tar.xz

The format is that of tests/golden/README.md. Inputs come from a fixed seed. Calls that PyTorch refuses are left out: Hammock has
more ops on these types.
"""

import sys

import torch

from golden_complex import Suite

UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)
ALL = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32,
       torch.float64)


class Types(Suite):
    def try_add(self, group, label, fn, args, kwargs=None):
        self.add(group, label, fn, args, kwargs, grad=False)
        if "error" in self.lines[-1]:
            self.lines.pop()

    def whole(self, dtype, *sizes, low=0, high=None):
        bits = torch.iinfo(dtype).bits
        high = high or 2**bits
        return torch.from_numpy(self.random.integers(low, high, sizes, dtype="uint64")).to(dtype)


def unsigned(suite):
    binary = ("add", "sub", "mul", "floor_divide", "remainder", "div", "eq", "ne", "lt", "le", "gt", "ge", "maximum",
              "minimum", "bitwise_and", "bitwise_or", "bitwise_xor", "pow", "fmod", "logical_and")
    unary = ("neg", "abs", "sign", "square", "bitwise_not", "logical_not", "sqrt", "exp", "clone", "isnan", "floor")
    reductions = ("sum", "prod", "amax", "amin", "argmax", "argmin", "any", "all", "max", "min", "mean", "count_nonzero",
                  "cumsum", "cumprod", "sort", "argsort", "unique", "flip", "msort", "median")
    for dtype in UNSIGNED:
        for name in binary:
            for high in (None, 7):
                x, y = suite.whole(dtype, 3, 4, high=high), suite.whole(dtype, 3, 4, low=1, high=high)
                suite.try_add(f"unsigned_{name}", "same", f"torch.{name}", [x, y])
            suite.try_add(f"unsigned_{name}", "broadcast", f"torch.{name}",
                          [suite.whole(dtype, 3, 1), suite.whole(dtype, 4, low=1)])
            suite.try_add(f"unsigned_{name}", "number", f"torch.{name}", [suite.whole(dtype, 5), 3])
            for other in (torch.float32, torch.float16, torch.bool):
                y = suite.numbers(3, dtype=torch.float32).to(other)
                suite.try_add(f"unsigned_{name}", "mixed", f"torch.{name}", [suite.whole(dtype, 3, high=9), y])
        for name in unary:
            suite.try_add(f"unsigned_{name}", "all", f"torch.{name}", [suite.whole(dtype, 9)])
            suite.try_add(f"unsigned_{name}", "small", f"torch.{name}", [suite.whole(dtype, 9, high=5)])
        for name in reductions:
            x = suite.whole(dtype, 4, 5)
            for args in ([x], [x, 0], [x, 1]) + (() if name in ("any", "all") else ([x, [0]],)):
                suite.try_add(f"unsigned_{name}", "all", f"torch.{name}", args)
        x, y = suite.whole(dtype, 4, 5), suite.whole(dtype, 4, 5)
        suite.try_add("unsigned_where", "all", "torch.where", [x.long() % 2 == 0, x, y])
        suite.try_add("unsigned_cat", "all", "torch.cat", [[x, y], 1])
        suite.try_add("unsigned_index_select", "all", "torch.index_select", [x, 0, torch.tensor([3, 0, 3])])
        suite.try_add("unsigned_gather", "all", "torch.gather", [x, 0, torch.tensor([[3, 0, 1, 2, 0]])])
        suite.try_add("unsigned_clamp", "all", "torch.clamp", [suite.whole(dtype, 9, high=50), 5, 30])
        suite.try_add("unsigned_full_like", "all", "torch.full_like", [x, 7])
        for other in (*ALL, *UNSIGNED):
            suite.try_add("unsigned_to", "from", "Tensor.to", [x, other])
            y = suite.numbers(3, 3, dtype=torch.float32, low=0, high=90).to(other)
            suite.try_add("unsigned_to", "to", "Tensor.to", [y, dtype])


def float8(suite):
    # Every f16, which rounds, overflows and underflows.
    halves = torch.arange(-(2**15), 2**15).to(torch.int16).view(torch.float16)
    finite = halves[~halves.isnan()]
    for dtype in FLOAT8:
        for other in (torch.float16, torch.float32, torch.float64, torch.bfloat16):
            if other != torch.bfloat16:
                suite.try_add("float8_to", "halves", "Tensor.to", [finite.to(other), dtype])
        every = torch.arange(256).to(torch.uint8).view(dtype)
        for other in (torch.float16, torch.float32, torch.float64):
            suite.try_add("float8_to", "back", "Tensor.to", [every, other])
        x = suite.numbers(4, 6, dtype=torch.float32, low=-3, high=3).to(dtype)
        suite.try_add("float8_cat", "all", "torch.cat", [[x, x], 0])
        suite.try_add("float8_flip", "all", "torch.flip", [x, [0, 1]])
        suite.try_add("float8_where", "all", "torch.where", [x.float() > 0, x, x.flip(0)])
        suite.try_add("float8_index_select", "all", "torch.index_select", [x, 1, torch.tensor([5, 0])])
        suite.try_add("float8_clone", "all", "torch.clone", [x])


def main():
    suite = Types("types")
    unsigned(suite)
    float8(suite)
    suite.write(sys.argv[1])


if __name__ == "__main__":
    main()
