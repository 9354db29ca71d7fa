#!/usr/bin/env python3
"""Writes a golden suite of complex numbers, computed by PyTorch 2 on its CPU.

    scripts/golden_complex.py DIR                  # needs torch and numpy
    tests/golden/pack.sh DIR golden_complex        # makes tests/golden/golden_complex.tar.xz

The format is that of tests/golden/README.md. Inputs come from a fixed seed.
"""

import json
import os
import sys
import zipfile

import numpy as np
import torch

DTYPES = [torch.complex64, torch.complex128]
ELEMENT = {torch.complex64: torch.float32, torch.complex128: torch.float64}


def name_of(dtype):
    return str(dtype).removeprefix("torch.")


def array_of(value):
    """As NumPy has it; of f8 the bits."""
    value = value.detach().resolve_conj()
    return (value.view(torch.uint8) if "float8" in str(value.dtype) else value).numpy()


class Suite:
    def __init__(self, source="complex"):
        self.source = source
        self.lines = []
        self.arrays = {}
        self.random = np.random.default_rng(7)

    # ---- inputs

    def numbers(self, *sizes, dtype=torch.complex64, low=-2.0, high=2.0):
        def part():
            return np.round(self.random.uniform(low, high, sizes), 3)

        if dtype.is_complex:
            return torch.tensor(part() + 1j * part()).to(dtype)
        if dtype.is_floating_point:
            return torch.tensor(part()).to(dtype)
        return torch.tensor(self.random.integers(-4, 5, sizes)).to(dtype)

    # ---- cases

    def add(self, op, label, fn, args, kwargs=None, grad=True, error=None, run=None, steps=None):
        """`args` are JSON values, complex numbers and tensors, also in lists; `grad` says whether
        these have gradients, or which of them; `error` is how far gradients are from exact ones;
        `run` computes what is expected where `fn` is no function of PyTorch; `steps` are what the
        runner does instead, the last one the result."""
        inputs, kwargs = [], kwargs or {}

        def box(value):
            if isinstance(value, torch.Tensor):
                inputs.append(value)
                return {"t": len(inputs) - 1}
            if isinstance(value, torch.dtype):
                return {"dtype": name_of(value)}
            if isinstance(value, complex):
                return {"complex": [value.real, value.imag]}
            if isinstance(value, float) and not np.isfinite(value):
                return {"float": str(value)}
            if isinstance(value, (list, tuple)):
                return [box(item) for item in value]
            return value

        boxed = [box(value) for value in args]
        boxed_kwargs = {key: box(value) for key, value in kwargs.items()}
        number = sum(1 for line in self.lines if line["op"] == op)
        key = f"{label}#{number}"
        line = {"id": f"{op}/{key}", "op": op, "src": self.source, "fn": fn, "args": boxed,
                "kwargs": boxed_kwargs, "inputs": []}
        if steps:
            line |= {"steps": steps, "result": [steps[-1][3]]}
        group = self.arrays.setdefault(op, {})
        leaves = []
        for i, value in enumerate(inputs):
            wants = (grad is True or grad and i in grad) and (value.is_complex() or value.is_floating_point())
            leaves.append(value.clone().requires_grad_() if wants else value)
            entry = {"dtype": name_of(value.dtype), "shape": list(value.shape),
                     "key": f"{key}:in{i}"}
            if wants:
                entry["requires_grad"] = True
            line["inputs"].append(entry)
            group[entry["key"]] = array_of(value).copy()  # some ops write it

        def unbox(value):
            if isinstance(value, torch.Tensor):
                return next(leaf for leaf, own in zip(leaves, inputs) if own is value)
            if isinstance(value, (list, tuple)):
                return type(value)(unbox(item) for item in value)
            return value

        call = [unbox(value) for value in args]
        call_kwargs = {name: unbox(value) for name, value in kwargs.items()}
        try:
            result = (run or resolve(fn))(*call, **call_kwargs)
        except Exception as error:  # what must raise
            line["error"] = type(error).__name__
            line["message"] = str(error).split("\n")[0][:120]
            for entry in line["inputs"]:
                entry.pop("requires_grad", None)
            self.lines.append(line)
            return
        outputs = []
        flatten(result, outputs)
        line["outputs"] = []
        for i, value in enumerate(outputs):
            line["outputs"].append({"dtype": name_of(value.dtype), "shape": list(value.shape),
                                    "key": f"{key}:out{i}"})
            group[f"{key}:out{i}"] = array_of(value)
        if any(entry.get("requires_grad") for entry in line["inputs"]):
            self.add_gradients(line, key, group, leaves, outputs)
        if error:
            line["f64"] = {"grad": [error, error]}
        self.lines.append(line)

    def add_gradients(self, line, key, group, leaves, outputs):
        roots, cotangents, names = [], [], []
        for i, value in enumerate(outputs):
            names.append(None)
            if not value.requires_grad:
                continue
            cotangent = self.numbers(*value.shape, dtype=value.dtype)
            names[-1] = f"{key}:cot{i}"
            group[names[-1]] = cotangent.numpy()
            roots.append(value)
            cotangents.append(cotangent)
        if not roots:
            return
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        try:
            grads = list(torch.autograd.grad(roots, wanted, cotangents, allow_unused=True))
        except Exception as error:
            print("no gradient:", line["id"], str(error).split("\n")[0])
            return
        line["cot"], line["grads"] = names, []
        for i, leaf in enumerate(leaves):
            own = grads.pop(0) if leaf.requires_grad else None
            line["grads"].append(None if own is None else f"{key}:grad{i}")
            if own is not None:
                group[f"{key}:grad{i}"] = own.resolve_conj().numpy()

    def write(self, folder):
        os.makedirs(f"{folder}/data", exist_ok=True)
        with open(f"{folder}/manifest.jsonl", "w") as out:
            for line in sorted(self.lines, key=lambda line: line["op"]):
                out.write(json.dumps(line) + "\n")
        for op, arrays in self.arrays.items():
            # One date for all: the same values give the same bytes.
            with zipfile.ZipFile(f"{folder}/data/{op}.npz", "w") as archive:
                for name, array in arrays.items():
                    entry = zipfile.ZipInfo(name + ".npy", (2020, 1, 1, 0, 0, 0))
                    with archive.open(entry, "w") as file:
                        np.lib.format.write_array(file, np.asarray(array))


def resolve(fn):
    owner = torch
    if fn.startswith("Tensor."):
        return getattr(torch.Tensor, fn.removeprefix("Tensor."))
    for part in fn.split(".")[1:]:
        owner = getattr(owner, part)
    return owner


def flatten(value, leaves):
    if isinstance(value, torch.Tensor):
        leaves.append(value)
    elif isinstance(value, (list, tuple)):
        for item in value:
            flatten(item, leaves)


# ---- groups

UNARY = """abs neg reciprocal sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan
sinh cosh tanh asinh acosh atanh sigmoid square sgn angle conj""".split()
NO_GRADIENT = "isnan isinf isfinite isreal logical_not".split()
REFUSED = """floor ceil trunc round sign erf erfc lgamma digamma bitwise_not relu isposinf signbit
sort argmax amax cummax""".split()
# Both sides of every branch cut: the real axis beyond 1 and the imaginary one, by signed zeros.
CUTS = [complex(a, b) for a in (-2.0, -1.0, -0.5, 0.5, 1.0, 2.0) for b in (0.0, -0.0)]
CUTS += [complex(a, b) for b in (-2.0, -0.5, 0.5, 2.0) for a in (0.0, -0.0)]
CUT_FUNCTIONS = "sqrt log log2 log10 asin acos atan asinh acosh atanh abs angle sgn log1p".split()


def unary(suite):
    for name in UNARY:
        for dtype in DTYPES:
            suite.add(name, "basic", f"torch.{name}", [suite.numbers(4, 5, dtype=dtype)])
        suite.add(name, "rank0", f"torch.{name}", [suite.numbers(dtype=torch.complex64)])
        suite.add(name, "empty", f"torch.{name}", [suite.numbers(0, 3, dtype=torch.complex64)])
        large = suite.numbers(6, dtype=torch.complex128, low=-30, high=30)
        suite.add(name, "large", f"torch.{name}", [large], grad=name not in ("tan", "tanh"))
        tiny = suite.numbers(6, dtype=torch.complex128) * 1e-4
        suite.add(name, "tiny", f"torch.{name}", [tiny])
    for name in CUT_FUNCTIONS:
        # Poles have no expected value that two libraries share.
        points = [z for z in CUTS if not (abs(z) == 1 and name in ("atanh", "log1p", "atan"))]
        parts = np.array([[z.real, z.imag] for z in points])
        for dtype in DTYPES:
            data = torch.view_as_complex(torch.tensor(parts)).to(dtype)
            suite.add(name, "cuts", f"torch.{name}", [data], grad=False)
    special = [complex(a, b) for a in (np.nan, np.inf, 1.0) for b in (np.nan, -np.inf, 0.0)]
    for name in NO_GRADIENT:
        for dtype in DTYPES:
            suite.add(name, "special", f"torch.{name}", [torch.tensor(special, dtype=dtype)],
                      grad=False)
    for name in REFUSED:
        suite.add(name, "refused", f"torch.{name}", [suite.numbers(3, dtype=torch.complex64)],
                  grad=False)


def binary(suite):
    others = [torch.complex64, torch.complex128, torch.float32, torch.float64, torch.int64,
              torch.bool]
    for name in "add sub mul div pow".split():
        for a in DTYPES:
            for b in others:
                if name == "sub" and b == torch.bool:
                    continue
                x, y = suite.numbers(3, 4, dtype=a), suite.numbers(4, dtype=b)
                if name == "div":
                    y = torch.where(y == 0, torch.ones_like(y), y)
                suite.add(name, "promote", f"torch.{name}", [x, y])
                if name in ("div", "pow"):
                    continue
                suite.add(name, "reflected", f"torch.{name}", [y, x])
        for number in (2, 1.5, 1 - 2j):
            for dtype in (torch.complex64, torch.float64, torch.float32):
                if name == "pow" and not dtype.is_complex:
                    base = suite.numbers(3, dtype=dtype, low=0.5)
                else:
                    base = suite.numbers(3, dtype=dtype)
                suite.add(name, "number", f"torch.{name}", [base, number])
        rank0 = suite.numbers(dtype=torch.complex128)
        # The gradient of a c128 number that was used as c64.
        suite.add(name, "rank0", f"torch.{name}", [suite.numbers(3, dtype=torch.complex64), rank0],
                  error=5e-6)
        suite.add(name, "rank0", f"torch.{name}",
                  [suite.numbers(3, dtype=torch.float32, low=0.5), rank0], error=5e-6)
    for exponent in (0, 1, 2, 3, 0.5, -0.5, -1, -2, 2.5):
        suite.add("pow", "exponent", "torch.pow", [suite.numbers(4, dtype=torch.complex128),
                                                   exponent])
    for name in "eq ne".split():
        x = torch.tensor([1 + 2j, 1 - 2j, complex(0.0, -0.0), complex(np.nan, 0)])
        y = torch.tensor([1 + 2j, 1 + 2j, 0j, complex(np.nan, 0)])
        suite.add(name, "basic", f"torch.{name}", [x, y], grad=False)
        suite.add(name, "real", f"torch.{name}", [x, torch.tensor([1.0, 1.0, 0.0, 2.0])],
                  grad=False)
    for name in "lt le gt ge maximum minimum atan2 hypot fmod remainder floor_divide".split():
        x = suite.numbers(3, dtype=torch.complex64)
        suite.add(name, "refused", f"torch.{name}", [x, x.clone()], grad=False)
    for name in "logical_and logical_or logical_xor".split():
        x = torch.tensor([0j, 1j, 1 + 0j, 0j])
        suite.add(name, "basic", f"torch.{name}", [x, torch.tensor([0j, 0j, 1j, 1j])], grad=False)
    condition = torch.tensor([True, False, True])
    for dtype in (torch.complex64, torch.float32):
        suite.add("where", "basic", "torch.where",
                  [condition, suite.numbers(3, dtype=torch.complex64), suite.numbers(3, dtype=dtype)])
    x, y = suite.numbers(3, dtype=torch.complex64), suite.numbers(3, dtype=torch.complex64)
    suite.add("add", "alpha", "torch.add", [x, y], {"alpha": 2 - 1j})
    suite.add("isclose", "basic", "torch.isclose", [x, x + 1e-9], grad=False)


def parts(suite):
    for a in (torch.float32, torch.float64):
        suite.add("complex", "basic", "torch.complex", [suite.numbers(2, 3, dtype=a),
                                                        suite.numbers(2, 3, dtype=a)])
        suite.add("polar", "basic", "torch.polar", [suite.numbers(2, 3, dtype=a, low=0.1),
                                                    suite.numbers(2, 3, dtype=a)])
        suite.add("view_as_complex", "basic", "torch.view_as_complex",
                  [suite.numbers(2, 3, 2, dtype=a)])
        suite.add("real", "of_real", "torch.real", [suite.numbers(3, dtype=a)])
        suite.add("imag", "of_real", "torch.imag", [suite.numbers(3, dtype=a)], grad=False)
        suite.add("conj", "of_real", "torch.conj", [suite.numbers(3, dtype=a)])
    suite.add("complex", "mixed", "torch.complex", [suite.numbers(2, dtype=torch.float32),
                                                    suite.numbers(2, dtype=torch.float64)], grad=False)
    suite.add("view_as_complex", "odd", "torch.view_as_complex",
              [suite.numbers(2, 3, dtype=torch.float32)], grad=False)
    for dtype in DTYPES:
        for name in "real imag view_as_real adjoint".split():
            suite.add(name, "basic", f"torch.{name}", [suite.numbers(3, 4, dtype=dtype)])
        for target in (torch.complex64, torch.complex128):
            suite.add("to", "complex", "Tensor.to", [suite.numbers(3, dtype=dtype), target])
        suite.add("to", "bool", "Tensor.to", [torch.tensor([0, 1j, 1], dtype=dtype), torch.bool],
                  grad=False)
    for dtype in (torch.float32, torch.int64, torch.bool):
        suite.add("to", "from_real", "Tensor.to", [suite.numbers(3, dtype=dtype), torch.complex64])


def reductions(suite):
    for dtype in DTYPES:
        x = suite.numbers(3, 4, dtype=dtype)
        for name in "sum mean prod".split():
            suite.add(name, "all", f"torch.{name}", [x])
            suite.add(name, "dim", f"torch.{name}", [x, 1], {"keepdim": True})
        for name in "var std".split():
            suite.add(name, "all", f"torch.{name}", [x])
            suite.add(name, "dim", f"torch.{name}", [x, 1])
        suite.add("var_mean", "dim", "torch.var_mean", [x, 0])
        for name in "cumsum cumprod".split():
            suite.add(name, "dim", f"torch.{name}", [x, 1])
            suite.add(name, "dim0", f"torch.{name}", [x, 0])
        for p in (0, 0.5, 1, 2, 3, float("inf"), -float("inf")):
            suite.add("norm", "p", "torch.norm", [x, p])
            suite.add("norm", "p_dim", "torch.norm", [x, p, 1])
        suite.add("count_nonzero", "all", "torch.count_nonzero", [x], grad=False)
        suite.add("any", "all", "torch.any", [x], grad=False)
        suite.add("all", "all", "torch.all", [x], grad=False)
        suite.add("prod", "one", "torch.prod", [suite.numbers(1, dtype=dtype)])
        suite.add("prod", "many", "torch.prod", [suite.numbers(7, dtype=dtype)])
    suite.add("prod", "zero", "torch.prod", [torch.tensor([1 + 1j, 0, 2 - 1j])])
    suite.add("prod", "empty", "torch.prod", [torch.zeros(0, dtype=torch.complex64)])
    suite.add("nansum", "refused", "torch.nansum", [suite.numbers(3, dtype=torch.complex64)],
              grad=False)


def movement(suite):
    for dtype in DTYPES:
        x, y = suite.numbers(3, 4, dtype=dtype), suite.numbers(3, 4, dtype=dtype)
        suite.add("cat", "basic", "torch.cat", [[x, y], 1])
        suite.add("cat", "promote", "torch.cat", [[x, suite.numbers(2, 4, dtype=torch.float32)], 0])
        suite.add("stack", "basic", "torch.stack", [[x, y], 2])
        suite.add("flip", "basic", "torch.flip", [x, [0, 1]])
        suite.add("roll", "basic", "torch.roll", [x, 1, 1])
        suite.add("transpose", "basic", "torch.transpose", [x, 0, 1])
        suite.add("reshape", "basic", "torch.reshape", [x, [2, 6]])
        suite.add("permute", "basic", "torch.permute", [x, [1, 0]])
        suite.add("tril", "basic", "torch.tril", [x])
        suite.add("triu", "basic", "torch.triu", [x])
        suite.add("diagonal", "basic", "torch.diagonal", [x])
        suite.add("diag", "basic", "torch.diag", [suite.numbers(3, dtype=dtype)])
        suite.add("repeat_interleave", "basic", "torch.repeat_interleave", [x, 2])
        index = torch.tensor([[0, 1, 1], [3, 0, 2], [2, 2, 0]])
        suite.add("gather", "basic", "torch.gather", [x, 1, index])
        suite.add("scatter_add", "basic", "torch.scatter_add",
                  [x, 1, index, suite.numbers(3, 3, dtype=dtype)])
        suite.add("index_select", "basic", "torch.index_select", [x, 0, torch.tensor([2, 0, 2])])
        suite.add("index_add", "basic", "torch.index_add",
                  [x, 0, torch.tensor([2, 0]), suite.numbers(2, 4, dtype=dtype)])
        mask = torch.tensor([True, False, True, False])
        suite.add("masked_fill", "basic", "torch.masked_fill", [x, mask, 1 - 2j])
        suite.add("masked_select", "basic", "torch.masked_select", [x, mask])
        suite.add("nonzero", "basic", "torch.nonzero", [torch.tensor([0, 1j, 0, 2], dtype=dtype)],
                  grad=False)
        suite.add("pad", "basic", "torch.nn.functional.pad", [x, [1, 2]])
        suite.add("clone", "basic", "torch.clone", [x])
    suite.add("full", "basic", "torch.full", [[2, 2], 1 + 2j])
    suite.add("linspace", "basic", "torch.linspace", [0, 1 + 2j, 5])
    suite.add("zeros", "basic", "torch.zeros", [[2]], {"dtype": torch.complex64})
    suite.add("ones", "basic", "torch.ones", [[2]], {"dtype": torch.complex128})
    suite.add("eye", "basic", "torch.eye", [2], {"dtype": torch.complex64})


def products(suite):
    for dtype in DTYPES:
        def numbers(*sizes):
            return suite.numbers(*sizes, dtype=dtype)

        suite.add("matmul", "basic", "torch.matmul", [numbers(3, 4), numbers(4, 2)])
        suite.add("matmul", "batch", "torch.matmul", [numbers(2, 3, 4), numbers(4, 2)])
        suite.add("bmm", "basic", "torch.bmm", [numbers(2, 3, 4), numbers(2, 4, 2)])
        suite.add("mv", "basic", "torch.mv", [numbers(3, 4), numbers(4)])
        suite.add("dot", "basic", "torch.dot", [numbers(4), numbers(4)])
        suite.add("vdot", "basic", "torch.vdot", [numbers(4), numbers(4)])
        suite.add("inner", "basic", "torch.inner", [numbers(3, 4), numbers(4)])
        suite.add("outer", "basic", "torch.outer", [numbers(3), numbers(4)])
        suite.add("einsum", "basic", "torch.einsum", ["ij,kj->ik", [numbers(3, 4), numbers(2, 4)]])
        suite.add("addmm", "basic", "torch.addmm", [numbers(3, 2), numbers(3, 4), numbers(4, 2)])
        suite.add("kron", "basic", "torch.kron", [numbers(2, 2), numbers(2, 3)])
        suite.add("conv1d", "basic", "torch.nn.functional.conv1d",
                  [numbers(2, 3, 6), numbers(4, 3, 2)])


def matrices(suite):
    for dtype in DTYPES:
        def numbers(*sizes):
            return suite.numbers(*sizes, dtype=dtype)

        square = numbers(2, 3, 3) + 3 * torch.eye(3, dtype=dtype)
        positive = square @ square.mH + torch.eye(3, dtype=dtype)
        lower = torch.tril(square)
        suite.add("linalg_solve", "basic", "torch.linalg.solve", [square, numbers(2, 3, 2)])
        suite.add("linalg_inv", "basic", "torch.linalg.inv", [square])
        suite.add("linalg_det", "basic", "torch.linalg.det", [square])
        suite.add("linalg_slogdet", "basic", "torch.linalg.slogdet", [square])
        # Of a Hermitian matrix PyTorch's gradient has a part that is not; ours is the other part.
        for upper in (False, True):
            suite.add("linalg_cholesky", "basic", "torch.linalg.cholesky", [positive],
                      {"upper": upper}, grad=False)
        # PyTorch gives the triangle that is not read a gradient too.
        suite.add("cholesky_solve", "basic", "torch.cholesky_solve", [numbers(2, 3, 2), lower],
                  grad=False)
        suite.add("cholesky_solve", "upper", "torch.cholesky_solve",
                  [numbers(2, 3, 2), torch.triu(square), True], grad=False)
        suite.add("linalg_qr", "basic", "torch.linalg.qr", [numbers(2, 4, 3)])
        suite.add("linalg_lu_factor", "basic", "torch.linalg.lu_factor", [square])
        suite.add("linalg_eigvalsh", "basic", "torch.linalg.eigvalsh", [positive])
        suite.add("linalg_svdvals", "basic", "torch.linalg.svdvals", [numbers(2, 4, 3)])
        suite.add("linalg_pinv", "basic", "torch.linalg.pinv", [numbers(4, 3)])
        suite.add("linalg_solve_triangular", "lower", "torch.linalg.solve_triangular",
                  [lower, numbers(2, 3, 2)], {"upper": False})
        suite.add("linalg_solve_triangular", "right", "torch.linalg.solve_triangular",
                  [lower, numbers(2, 2, 3)], {"upper": False, "left": False})
        suite.add("linalg_vector_norm", "basic", "torch.linalg.vector_norm", [numbers(3, 4)])
        suite.add("linalg_matrix_norm", "fro", "torch.linalg.matrix_norm", [numbers(3, 4)])
        suite.add("linalg_matrix_exp", "basic", "torch.linalg.matrix_exp", [numbers(3, 3)])
        suite.add("linalg_matrix_power", "basic", "torch.linalg.matrix_power", [numbers(3, 3), 3])
        suite.add("linalg_matrix_rank", "basic", "torch.linalg.matrix_rank", [numbers(3, 3)],
                  grad=False)


def main():
    torch.manual_seed(0)
    suite = Suite()
    for group in (unary, binary, parts, reductions, movement, products, matrices):
        group(suite)
    suite.write(sys.argv[1])
    raising = sum(1 for line in suite.lines if "error" in line)
    print(f"{len(suite.lines)} cases of {len(suite.arrays)} groups, {raising} that raise")


if __name__ == "__main__":
    main()
