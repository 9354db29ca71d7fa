"""Writes autocast.json: the dtypes of PyTorch's results under torch.autocast("cpu", torch.bfloat16).

PyTorch has one list for CPUs and one for GPUs, which is the documented one. Hammock has one list for all
devices, GPUs' one; where that one differs it is written here ("gpu"), else it is what this PyTorch computes.

    python3 tests/trace/autocast.py > tests/trace/autocast.json
"""
import json
import torch
import torch.nn.functional as F

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f64": torch.float64, "i64": torch.int64}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def tensor(spec):
    name, sizes = spec.rstrip("]").split("[")
    sizes = [int(size) for size in sizes.split(",")] if sizes else []
    return torch.ones(sizes, dtype=DTYPES[name]) * (0 if name == "i64" else 0.5)


# Op, arguments (text: a tensor's type; else a number or numbers), the GPU's dtype if it differs.
X, Y, LOW = "f32[4,4]", "f32[4]", "bf16[4,4]"
CASES = [
    ("matmul", [X, X]), ("matmul", [LOW, X]), ("matmul", ["f64[4,4]", "f64[4,4]"]), ("mm", [X, LOW]),
    ("bmm", ["f32[2,3,4]", "bf16[2,4,3]"]), ("mv", [X, Y], "bf16"),
    ("addmm", [X, LOW, X]), ("baddbmm", ["f32[2,4,4]", "bf16[2,4,4]", "f32[2,4,4]"]),
    ("addbmm", [X, "bf16[2,4,4]", "f32[2,4,4]"]), ("addmv", [Y, X, Y], "bf16"), ("addr", [X, Y, Y], "bf16"),
    ("linear", [LOW, X, Y]), ("linear", [X, X]), ("chain_matmul", [[X, X, X]]),
    ("conv1d", ["bf16[1,2,8]", "f32[3,2,3]", "f32[3]"]), ("conv2d", ["f32[1,2,8,8]", "f32[3,2,3,3]", "f32[3]"]),
    ("conv3d", ["f32[1,2,4,4,4]", "f32[3,2,3,3,3]"]),
    ("conv_transpose2d", ["f32[1,2,8,8]", "f32[2,3,3,3]"], "bf16"),
    ("add", [LOW, X]), ("add", [LOW, LOW]), ("mul", [X, LOW]), ("div", [LOW, LOW]), ("relu", [LOW]),
    ("tanh", [LOW]), ("sigmoid", [LOW]), ("gelu", [LOW]), ("sqrt", [LOW]), ("sin", [LOW]), ("mean", [LOW]),
    ("amax", [LOW]), ("transpose", [LOW, 0, 1]), ("cat", [[LOW, X]]), ("stack", [[LOW, X]]),
    ("max_pool2d", ["bf16[1,2,8,8]", [2, 2]]), ("avg_pool2d", ["bf16[1,2,8,8]", [2, 2]]),
    ("exp", [LOW], "f32"), ("expm1", [LOW], "f32"), ("log", [LOW], "f32"), ("log2", [LOW], "f32"),
    ("log10", [LOW], "f32"), ("log1p", [LOW], "f32"), ("rsqrt", [LOW], "f32"), ("reciprocal", [LOW], "f32"),
    ("cosh", [LOW], "f32"), ("sinh", [LOW], "f32"), ("tan", [LOW], "f32"), ("acos", [LOW], "f32"),
    ("asin", [LOW], "f32"), ("erfinv", [LOW], "f32"), ("pow", [LOW, LOW], "f32"), ("pow", [LOW, 2], "f32"),
    ("exp", ["f64[4]"]), ("exp", ["i64[4]"]), ("softplus", [LOW], "f32"),
    ("softmax", [LOW, 1], "f32"), ("log_softmax", [LOW, 1], "f32"),
    ("sum", [LOW], "f32"), ("prod", [LOW], "f32"), ("cumsum", [LOW, 0], "f32"), ("cumprod", [LOW, 0], "f32"),
    ("sum", ["i64[4]"]), ("logsumexp", [LOW, [1]], "f32"), ("norm", [LOW], "f32"), ("dist", [LOW, LOW], "f32"),
    ("cdist", [LOW, LOW], "f32"), ("layer_norm", [LOW, [4], Y, Y], "f32"), ("group_norm", [LOW, 2, Y, Y], "f32"),
    ("mse_loss", [LOW, X]), ("l1_loss", [LOW, LOW], "f32"), ("smooth_l1_loss", [LOW, LOW], "f32"),
    ("huber_loss", [LOW, LOW], "f32"), ("kl_div", [LOW, LOW], "f32"), ("nll_loss", [LOW, "i64[4]"], "f32"),
    ("cross_entropy", [LOW, "i64[4]"], "f32"), ("binary_cross_entropy", [LOW, X]),
    ("binary_cross_entropy_with_logits", [LOW, X], "f32"), ("soft_margin_loss", [LOW, LOW], "f32"),
    ("hinge_embedding_loss", [LOW, LOW], "f32"), ("margin_ranking_loss", [LOW, LOW, LOW], "f32"),
    ("triplet_margin_loss", [LOW, LOW, LOW], "f32"), ("cosine_similarity", [LOW, X], "f32"),
    ("multi_margin_loss", [LOW, "i64[4]"], "f32"), ("poisson_nll_loss", [LOW, LOW], "f32"),
    ("dot", [Y, Y]), ("dot", ["bf16[4]", Y], "f32"), ("prelu", [LOW, "f32[1]"], "bf16"),
    ("bilinear", ["f32[2,3]", "f32[2,4]", "f32[5,3,4]"], "f32"),
    ("scatter_add", [LOW, 0, "i64[4,4]", X], "f32"),
]


def run(op, args):
    values = [tensor(a) if isinstance(a, str)
              else [tensor(b) for b in a] if isinstance(a, list) and isinstance(a[0], str) else a for a in args]
    fn = getattr(F, op, None) if hasattr(F, op) else None
    fn = fn or getattr(torch, op)
    if op == "chain_matmul":
        values = values[0]
    try:
        with torch.autocast("cpu", torch.bfloat16):
            return NAMES[fn(*values).dtype]
    except RuntimeError:
        return None


rows = []
for op, args, *gpu in CASES:
    found = run(op, args)
    expected = gpu[0] if gpu else found
    assert expected, (op, args)
    rows.append({"op": op, "args": args, "cpu": found, "expected": expected})
print("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]")
