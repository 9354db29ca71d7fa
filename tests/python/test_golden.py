"""The golden suites through Python: what its calls take and give is proven on every op, by the rules of tools/golden; see
tests/golden/README.md."""

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
TOLERANCES = {"float64": (1e-7, 1e-7), "float32": (1.3e-5, 1e-5), "complex128": (1e-7, 1e-7), "complex64": (1.3e-5, 1e-5),
              **dict.fromkeys(["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"], (1e-2, 1e-2))}


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
    if kind == "float":
        return float(content)
    if kind == "complex":
        return complex(*content)
    return {"none": None, "ellipsis": ...}[kind]


def array_of(arrays, key, dtype):
    array = arrays[key]
    if dtype == "bfloat16":
        if array.dtype == np.uint16 or array.dtype == np.int16:
            return hm.tensor(array.view(np.int16)).view(hm.bfloat16).clone()
        return hm.tensor(array.astype(np.float32)).to(hm.bfloat16)
    if dtype.startswith("float8"):
        return hm.tensor(array).view(getattr(hm, dtype)).clone()
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


def accepted(ours, theirs, relative, absolute):
    """Whether each part of each element is as near as the element's size allows; NaN equals NaN."""
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.abs(theirs)
        allowed = absolute + relative * np.where(np.isfinite(size), size, 0)

        def near(a, b):
            both = np.isfinite(a) & np.isfinite(b)
            return (a == b) | (np.isnan(a) & np.isnan(b)) | (both & (np.abs(a - b) <= allowed))

        return bool(np.all(near(ours.real, theirs.real) & near(ours.imag, theirs.imag)))


def differs(actual, expected, dtype, error):
    if not isinstance(actual, hm.Tensor):
        actual = hm.tensor(actual).to(dtype)
    if actual.dtype.name != dtype or actual.shape != expected.shape:
        return f"is {actual.dtype.name}{actual.shape}, expected {dtype}{expected.shape}"
    wide = hm.complex128 if dtype.startswith("complex") else hm.float64
    ours, theirs = (np.asarray(x.detach().to(wide) if dtype in TOLERANCES else x.detach()) for x in (actual, expected))
    if dtype in TOLERANCES:
        relative, absolute = TOLERANCES[dtype]
        same = accepted(ours, theirs, relative, absolute + (error if np.isfinite(error) else 0))
    else:
        same = np.array_equal(ours, theirs)
    return "" if same else f"is {ours}, expected {theirs}"


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
    wanted = [(slot, d, key) for slot, d, key in zip(slots, case["inputs"], case["grads"]) if d.get("requires_grad")]
    arriving = [(output, array_of(arrays, key, expected["dtype"]))
                for output, expected, key in zip(outputs, case["outputs"], case["cot"]) if key and output.requires_grad]
    gradients = [None] * len(wanted)
    if arriving and wanted:
        gradients = hm.grad([output for output, _ in arriving], [slot for slot, _, _ in wanted], [cot for _, cot in arriving],
                            allow_unused=True)
    for gradient, (slot, description, key) in zip(gradients, wanted):
        gradient = hm.zeros_like(slot) if gradient is None else gradient
        expected = array_of(arrays, key, description["dtype"]) if key else hm.zeros_like(slot)
        why = differs(gradient, expected, description["dtype"], error("grad"))
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


def lines_of(name):
    return {line.strip() for line in (FOLDER / name).read_text().splitlines() if line.strip() and line[0] != "#"}


@pytest.fixture(autouse=True)
def on_cpu():
    before = hm.default_device()
    hm.set_default_device("cpu")
    yield
    hm.set_default_device(before)


@pytest.mark.parametrize("name, known", [("golden", lines_of("known_failures.txt")), ("golden_complex", set()), ("golden_types", set()),
                                         ("golden_fft", set()), ("golden_names", set())], ids=lambda value: value if isinstance(value, str) else "")
def test_golden_suite(name, known, tmp_path):
    with tarfile.open(FOLDER / f"{name}.tar.xz") as archive:
        archive.extractall(tmp_path)
    failures, cases, arrays, group, groups = {}, 0, None, None, set()
    for line in (tmp_path / "manifest.jsonl").read_text().splitlines():
        case = json.loads(line)
        if case["op"] != group:
            groups.add(case["op"])
            group, arrays = case["op"], dict(np.load(tmp_path / "data" / f"{case['op']}.npz"))
        cases += 1
        why = replayed(case, arrays)
        if why:
            failures[case["id"]] = why[:300]
    assert cases > 300
    if name == "golden":
        missing = lines_of("expected_ops.txt") - groups
        assert not missing, f"groups that must pass, and that the suite lacks: {sorted(missing)}"
    stale = known - failures.keys()
    assert not stale, f"known to fail, but these pass: {sorted(stale)}"
    new = {case: why for case, why in failures.items() if case not in known}
    assert not new, f"{len(new)} of {cases}:\n" + "\n".join(f"{case}: {why}" for case, why in list(new.items())[:60])
