"""Every record is a function, and a method where its first argument is `self`."""

import inspect
import pydoc

import numpy as np
import pytest

import hammock as hm
from hammock import _hammock


def test_every_record_is_a_function_with_signature_and_doc():
    assert len(_hammock.ops) > 600
    for name, op in _hammock.ops.items():
        assert op.__name__ == name and op.schemas and inspect.signature(op) is not None
        assert op.__doc__.strip() and callable(op)


def test_methods_are_the_functions():
    x = hm.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.sum().item() == hm.sum(x).item() == 10 and hm.Tensor.sum is hm.sum
    assert x.softmax(dim=1).shape == (2, 2) and list(map(hm.relu, [x]))[0].shape == (2, 2)


def test_arguments_are_pytorchs():
    x = hm.tensor([[1.0, 2.0], [3.0, 4.0]])
    for total in (x.sum(1), x.sum(dim=1), x.sum([1]), x.sum((-1,)), hm.sum(x, 1), hm.sum(input=x, dim=1), hm.sum(self=x, dim=1),
                  x.sum(axis=1), hm.sum(x, axis=1, keepdims=False), x.sum(np.int64(1)), x.sum(hm.tensor(1))):
        assert total.tolist() == [3, 7]
    assert x.sum(1, True).shape == x.sum(1, keepdim=True).shape == (2, 1)
    assert x.view(4).shape == x.view(-1).shape == x.view([4]).shape == x.view((4,)).shape == (4,)
    assert x.view(1, 4).shape == x.reshape(1, -1).shape == (1, 4) and x.permute(1, 0).shape == (2, 2)
    assert hm.zeros(2, 3).shape == hm.zeros([2, 3]).shape == hm.zeros((2, 3), dtype=hm.int8).shape == (2, 3)
    assert hm.add(x, 1, alpha=2).tolist() == [[3, 4], [5, 6]] and hm.add(1.0, x).tolist() == [[2, 3], [4, 5]]
    assert hm.full([2], 7, dtype="int32").tolist() == [7, 7]
    assert hm.randn(3, generator=hm.Generator(1)).tolist() == hm.randn(3, generator=hm.Generator(1)).tolist()
    assert hm.zeros(2, requires_grad=True).requires_grad and not hm.ones(2, requires_grad=False).requires_grad
    assert hm.max(hm.tensor(3), hm.tensor(8)).item() == 8  # no dim
    values, indices = x.max(1)
    assert values.tolist() == [2, 4] and indices.tolist() == [1, 1]
    assert [part.shape for part in x.split(1)] == [(1, 2), (1, 2)]


@pytest.mark.parametrize("call, words", [
    (lambda x: hm.softmax(x), ["'dim' is missing", "softmax(Tensor self, int dim"]),
    (lambda x: hm.softmax(x, dimm=1), ["did you mean 'dim'?"]),
    (lambda x: hm.softmax(x, 1, dim=1), ["'dim' is given twice"]),
    (lambda x: hm.softmax(x, 1, None, 3), ["at most 3 positional arguments, got 4"]),
    (lambda x: hm.softmax(x, 1.5), ["'dim' must be int, not float"]),
    (lambda x: hm.softmax("x", 1), ["'self' must be Tensor, not str"]),
    (lambda x: hm.add(x, "a"), ["no overload takes these arguments", "'other' must be Tensor, not str"]),
    (lambda x: x.view("a"), ["view(Tensor self, int[] size)"]),
    (lambda x: x.sum(1, 2, 3, 4), ["sum"]),
    (lambda x: hm.zeros(2, dtype="float33"), ["'dtype' must be ScalarType"]),
    (lambda x: hm.zeros(2, requires_grad=3), ["requires_grad"]),
    (lambda x: hm.relu(x, requires_grad=True), ["there is no argument 'requires_grad'"]),
    (lambda x: hm.cat([x, 1]), ["must be Tensor[], not list"]),
])
def test_wrong_arguments_quote_the_signature(call, words):
    with pytest.raises(TypeError) as raised:
        call(hm.ones(2, 2))
    assert isinstance(raised.value, hm.HammockError) and raised.value.code == "HM0017"
    assert "test_ops.py" in raised.value.where
    for word in words:
        assert word in str(raised.value)


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(AttributeError, match="did you mean 'softmax'"):
        hm.softmx
    with pytest.raises(AttributeError):
        hm.ones(1).nothing


def test_help_shows_schema():
    text = pydoc.render_doc(hm.softmax)
    assert "softmax(Tensor self, int dim" in text
    assert "dim: 'int'" in str(inspect.signature(hm.softmax))


def test_a_list_of_no_tensors():
    assert _hammock.ops["tensor_list"]([]) == ()


def test_collectives_that_cannot_run_hold_up_no_step():
    x = hm.ones(2)
    for bad in (lambda: hm.all_gather(x, size=2**31), lambda: hm.all_reduce(x, "sum", "nobody", 1), lambda: hm.all_reduce(x, size=-1)):
        with pytest.raises(ValueError):
            bad()
    failed = hm.linalg_cholesky(-hm.eye(2))
    with pytest.raises(hm.HammockError, match="positive-definite"):
        failed.tolist()
    reduced = hm.all_reduce(failed)
    hm.all_gather(failed)
    hm.mark_step(wait=True)
    with pytest.raises(hm.HammockError, match="positive-definite"):
        reduced.tolist()
    assert hm.all_reduce(x).tolist() == [1, 1]
