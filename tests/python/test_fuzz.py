"""Bad input never crashes the interpreter: every record is called with random arguments, most of them of the types that its
schema asks for, so that they get past the first checks. FUZZ_EXAMPLES says how many calls each record gets."""

import os
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import hammock as hm
from hammock import _hammock, _signatures

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "4"))
ALLOWED = (hm.HammockError, TypeError, ValueError, OverflowError, MemoryError, UnicodeError)


@pytest.fixture(autouse=True)
def on_the_interpreter():
    """Which compiles nothing, since every call is another graph. Without a budget for memory, no huge value is run before it is read.
    The step at the end shows whether a call has left something behind that the next one cannot run."""
    device, budget = hm.default_device(), hm.config.get("trim_graph_bytes")
    hm.set_default_device("reference")
    hm.config.set("trim_graph_bytes", 0)
    yield
    hm.mark_step(wait=True)
    hm.config.set("trim_graph_bytes", budget)
    hm.set_default_device(device)


TENSORS = {
    "matrix": lambda: hm.ones(2, 3), "square": lambda: hm.eye(3) + 1, "vector": lambda: hm.tensor([1.0, -2.0, 0.5]),
    "scalar": lambda: hm.tensor(1.5), "ints": lambda: hm.tensor([0, 1]), "large": lambda: hm.tensor([7, -9, 2**40]),
    "empty": lambda: hm.zeros(0, 2), "bools": lambda: hm.tensor([True, False]), "half": lambda: hm.ones(2, 2, dtype=hm.float16),
    "images": lambda: hm.ones(1, 2, 4, 4), "complex": lambda: hm.tensor([[1 + 1j, 2], [3, 4j]]),
    "grad": lambda: hm.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True), "many": lambda: hm.ones(1, 2, 1, 2, 1, 2, 1, 2),
    "nan": lambda: hm.tensor([[float("nan"), float("inf")]]), "bytes": lambda: hm.tensor([1, 255], dtype=hm.uint8),
}


class Named(str):
    """A tensor that is made when the call is: examples share nothing."""


INTS = st.one_of(st.integers(-3, 5), st.sampled_from([2**31, -(2**63), 2**63 - 1, 2**64]))
NAMED = st.sampled_from([Named(name) for name in TENSORS])
OF_TYPE = {
    "Tensor": NAMED, "int": INTS, "SymInt": INTS, "bool": st.booleans(), "Device": st.sampled_from(["cpu", "nowhere:7", ""]),
    "float": st.floats(), "Scalar": st.one_of(st.floats(), INTS, st.booleans(), st.just(1j)),
    "str": st.sampled_from(["", "mean", "sum", "none", "ij,jk->ik", "reflect", "fro", "trunc", "\udcff"]),
    "ScalarType": st.sampled_from([hm.float32, hm.int8, hm.bool, hm.complex64, hm.bfloat16, hm.int4, "float64"]),
}
ANYTHING = st.recursive(
    st.one_of(st.none(), *OF_TYPE.values(), st.sampled_from([object(), np.float32(1), np.zeros((2, 2)), b"x", slice(1), 10**30])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.tuples(inner, inner), st.dictionaries(st.sampled_from("ab"), inner, max_size=1)),
    max_leaves=4)


def of_type(kind):
    if kind.endswith("?"):
        return st.one_of(st.none(), of_type(kind[:-1]))
    listed = re.fullmatch(r"(.+?)(\??)\[\d*\]", kind)
    if listed:
        return st.one_of(st.lists(of_type(listed[1] + listed[2]), max_size=4), OF_TYPE.get(listed[1], ANYTHING))
    return OF_TYPE.get(kind, ANYTHING)


@st.composite
def calls(draw, op):
    """Arguments by position and by name for one of the op's schemas; one in eight is anything at all."""
    _, parameters, _ = _signatures.parse(draw(st.sampled_from(op.schemas)))
    args, kwargs = [], {}
    for kind, name, default, keyword_only in parameters:
        if default is not None and draw(st.integers(0, 2)) == 0:
            keyword_only = True  # those behind it have to be named
            continue
        value = draw(ANYTHING if draw(st.integers(0, 7)) == 0 else of_type(kind))
        if keyword_only or kwargs or draw(st.integers(0, 3)) == 0:
            kwargs[name] = value
        else:
            args.append(value)
    if draw(st.integers(0, 9)) == 0:
        kwargs[draw(st.sampled_from(["dim", "nothing", "\udcff"]))] = draw(ANYTHING)
    return args, kwargs


def made(value):
    if isinstance(value, Named):
        return TENSORS[value]()
    if isinstance(value, (list, tuple)):
        return type(value)(made(item) for item in value)
    if isinstance(value, dict):
        return {key: made(item) for key, item in value.items()}
    return value


def small_tensors(value):
    if isinstance(value, hm.Tensor):
        return [value] if value.numel() < 10_000 else []
    return [leaf for item in value for leaf in small_tensors(item)] if isinstance(value, (list, tuple)) else []


def call_and_compute(op, args, kwargs):
    try:
        for result in small_tensors(op(*map(made, args), **{name: made(value) for name, value in kwargs.items()})):
            result.tolist()
            if result.requires_grad:
                hm.grad([result], [result], [hm.ones_like(result)], allow_unused=True)
    except ALLOWED as error:
        assert not isinstance(error, hm.InternalError), f"{op.__name__}{tuple(args)} {kwargs}: {error}"


@pytest.mark.parametrize("letter", sorted({name.lstrip("_")[0] for name in _hammock.ops}))
def test_random_arguments_raise_or_work(letter):
    for name, op in _hammock.ops.items():
        if name.lstrip("_")[0] != letter:
            continue

        @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None,
                  phases=[Phase.generate], derandomize="FUZZ_EXAMPLES" not in os.environ)
        @given(calls(op))
        def one(call):
            call_and_compute(op, *call)

        one()


def test_every_record_refuses_nonsense():
    for op in _hammock.ops.values():
        for args in ((), (object(),), (None,), ("x", "y"), ([[]],), (1j,), (hm.ones(2), object()), tuple(range(40))):
            try:
                op(*args)
            except ALLOWED:
                pass
        with pytest.raises((TypeError, ValueError)):
            op(no_such_argument=1)
