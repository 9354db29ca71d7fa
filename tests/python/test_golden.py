"""The golden suite through Python: what its calls take and give is proven on every op; see tests/golden/README.md."""

import json
import pathlib
import tarfile

import numpy as np
import pytest

import hammock as hm

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "golden"
RENAMED = {"F.unfold": "im2col", "torch.nn.functional.unfold": "im2col"}
VARIADIC = ["atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes", "broadcast_tensors", "cartesian_prod",
            "meshgrid"]
TOLERANCES = {"float64": (1e-7, 1e-7), "float32": (1.3e-5, 1e-5), "float16": (1e-2, 1e-2), "bfloat16": (1e-2, 1e-2)}


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    folder = tmp_path_factory.mktemp("golden")
    with tarfile.open(FOLDER / "golden.tar.xz") as archive:
        archive.extractall(folder)
    return folder


def op_name(fn):
    for prefix in ("torch.nn.functional.", "torch.", "F.", "Tensor."):
        if fn not in RENAMED and fn.startswith(prefix):
            return fn[len(prefix):].replace(".", "_")
    return RENAMED.get(fn, fn)


def value_of(json_value, slots):
    if isinstance(json_value, list):
        return [value_of(item, slots) for item in json_value]
    if not isinstance(json_value, dict):
        return json_value
    kind, = json_value
    content = json_value[kind]
    if kind == "t":
        return slots[content]
    if kind == "dtype":
        return getattr(hm, content)
    if kind == "slice":
        return slice(*value_of(content, slots))
    return {"none": None, "ellipsis": ..., "float": float(content) if kind == "float" else None}[kind]


def array_of(arrays, key, dtype):
    array = arrays[key]
    if dtype == "bfloat16":
        if array.dtype == np.uint16 or array.dtype == np.int16:
            return hm.tensor(array.view(np.int16)).view(hm.bfloat16).clone()
        return hm.tensor(array.astype(np.float32)).to(hm.bfloat16)
    return hm.tensor(array.astype(dtype))


def make_input(description, arrays):
    if "gen" in description:
        gen = description["gen"]
        words = (np.arange(gen["n"], dtype=np.uint64) * np.uint64(2654435761)) & np.uint64(0xFFFFFFFF)
        values = (words.astype(np.float64) / 4294967296.0 - gen["shift"]) * gen["scale"]
        tensor = hm.tensor(values.reshape(description["shape"])).to(description["dtype"])
    else:
        tensor = array_of(arrays, description["key"], description["dtype"])
    if "view" in description:
        view = description["view"]
        tensor = tensor.as_strided(view["shape"], view["stride"], view["offset"])
    return tensor


def call(fn, args, kwargs):
    name = op_name(fn)
    if name in ("getitem", "setitem"):  # as Python writes them
        key = tuple(args[1]) if isinstance(args[1], list) else args[1]
        if name == "getitem":
            return args[0][key]
        args[0][key] = args[2]
        return args[0]
    if name in VARIADIC and not (len(args) == 1 and (isinstance(args[0], list) or name.startswith("atleast"))):
        args = [args]
    if fn.startswith("Tensor.") and hasattr(args[0], name):
        return getattr(args[0], name)(*args[1:], **kwargs)
    return getattr(hm, name)(*args, **kwargs)


def leaves(value):
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in leaves(item)]
    return [] if value is None else [value]


def differs(actual, expected, dtype, error):
    if not isinstance(actual, hm.Tensor):
        actual = hm.tensor(actual).to(dtype)
    if actual.dtype.name != dtype or actual.shape != expected.shape:
        return f"is {actual.dtype.name}{actual.shape}, expected {dtype}{expected.shape}"
    ours, theirs = (np.asarray(x.detach().to(hm.float64) if dtype in TOLERANCES else x.detach()) for x in (actual, expected))
    if dtype not in TOLERANCES:
        return "" if np.array_equal(ours, theirs) else f"is {ours}, expected {theirs}"
    relative, absolute = TOLERANCES[dtype]
    if np.isfinite(error):
        absolute += error
    return "" if np.allclose(ours, theirs, rtol=relative, atol=absolute, equal_nan=True) else f"is {ours}, expected {theirs}"


def replay(case, arrays):
    slots = [make_input(description, arrays) for description in case["inputs"]]
    wants_grad = "grads" in case
    for slot, description in zip(slots, case["inputs"]):
        if wants_grad and description.get("requires_grad"):
            slot.requires_grad_() if slot.is_leaf else slot.retain_grad()
    if "steps" in case:
        for fn, args, kwargs, slot in case["steps"]:
            result = call(fn, value_of(args, slots), {name: value_of(v, slots) for name, v in kwargs.items()})
            if slot is not None:
                slots[slot:slot + 1] = [result]
        outputs = [slots[number] for number in case["result"]]
    else:
        outputs = call(case["fn"], value_of(case["args"], slots), {name: value_of(v, slots) for name, v in case["kwargs"].items()})
    outputs = leaves(outputs)
    errors = case.get("f64", {})
    if len(outputs) != len(case["outputs"]):
        return f"gives {len(outputs)} results, expected {len(case['outputs'])}"

    def error(kind):
        value = errors.get(kind, [0.0])[0]
        return value if isinstance(value, (int, float)) else 0.0

    for output, expected in zip(outputs, case["outputs"]):
        why = differs(output, array_of(arrays, expected["key"], expected["dtype"]), expected["dtype"], error("out"))
        if why:
            return why
    if not wants_grad:
        return ""
    wanted = [(slot, d, key) for slot, d, key in zip(slots, case["inputs"], case["grads"]) if d.get("requires_grad") and key]
    if not wanted:  # no input has a gradient: the result does not depend on them
        return ""
    arriving = [(output, array_of(arrays, key, expected["dtype"]))
                for output, expected, key in zip(outputs, case["outputs"], case["cot"]) if key and output.requires_grad]
    gradients = hm.grad([output for output, _ in arriving], [slot for slot, _, _ in wanted], [cot for _, cot in arriving],
                        allow_unused=True)
    for gradient, (slot, description, key) in zip(gradients, wanted):
        gradient = hm.zeros_like(slot) if gradient is None else gradient
        why = differs(gradient, array_of(arrays, key, description["dtype"]), description["dtype"], error("grad"))
        if why:
            return "gradient " + why
    return ""


def replayed(case, arrays):
    if "error" not in case:
        try:
            return replay(case, arrays)
        except Exception as failure:  # noqa: BLE001
            return f"{type(failure).__name__}: {failure}"
    try:
        slots = [make_input(description, arrays) for description in case["inputs"]]
        result = call(case["fn"], value_of(case["args"], slots), {n: value_of(v, slots) for n, v in case["kwargs"].items()})
        for leaf in leaves(result):
            leaf.tolist()
    except (hm.HammockError, TypeError, ValueError) as failure:
        return "an internal error" if isinstance(failure, hm.InternalError) else ""
    return "did not raise"


def test_golden_suite(suite):
    known = {line.strip() for line in (FOLDER / "known_failures.txt").read_text().splitlines() if line.strip() and line[0] != "#"}
    failures, cases, arrays, group = {}, 0, None, None
    for line in (suite / "manifest.jsonl").read_text().splitlines():
        case = json.loads(line)
        if case["op"] != group:
            group, arrays = case["op"], dict(np.load(suite / "data" / f"{case['op']}.npz"))
        cases += 1
        why = replayed(case, arrays)
        if why and case["id"] not in known:
            failures[case["id"]] = why[:300]
    assert cases > 4000
    assert not failures, f"{len(failures)} of {cases}:\n" + "\n".join(f"{name}: {why}" for name, why in list(failures.items())[:60])
