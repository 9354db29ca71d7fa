"""Tensors as Python people expect them."""

import copy
import math
import pickle
import weakref

import numpy as np
import pytest

import hammock as hm


def same(tensor, values):
    np.testing.assert_allclose(np.asarray(tensor), np.asarray(values), rtol=1e-6)


def test_tensor_takes_numbers_lists_and_arrays():
    assert hm.tensor(3).dtype is hm.int64 and hm.tensor(3.0).dtype is hm.float32 and hm.tensor(True).dtype is hm.bool
    assert hm.tensor([[1, 2], [3, 4.5]]).dtype is hm.float32
    assert hm.tensor([]).shape == (0,) and hm.tensor([[], []]).shape == (2, 0)
    assert hm.tensor([1, 2], dtype=hm.bfloat16).dtype is hm.bfloat16
    assert hm.tensor([1, 2], dtype="f64").dtype is hm.float64 and hm.tensor([1], dtype=float).dtype is hm.float32
    same(hm.tensor([np.arange(3), np.arange(3)]), [[0, 1, 2], [0, 1, 2]])
    same(hm.tensor([hm.tensor(1.0), 2.0]), [1, 2])
    same(hm.tensor(np.float64(2.5)), 2.5)
    for bad in ([[1, 2], [3]], [1, [2]], [[1], 2]):
        with pytest.raises(ValueError, match="one length"):
            hm.tensor(bad)
    assert hm.tensor([1, 2j]).tolist() == [1, 2j] and hm.tensor(1j).item() == 1j
    z = hm.exp(1j * hm.tensor([0.0, np.pi]))
    assert abs(complex(z[1]) + 1) < 1e-6 and z.dtype is hm.complex64 and z.numpy().dtype == np.complex64
    same(hm.tensor(np.array([1 + 2j])) * 1j, [-2 + 1j])
    with pytest.raises(TypeError, match="complex"):
        hm.tensor([1j], dtype=hm.float32)
    for bad in ("text", object(), None, {}):
        with pytest.raises(TypeError):
            hm.tensor(bad)
    with pytest.raises(OverflowError):
        hm.tensor(2**64)


def test_operators_take_tensors_and_numbers_from_both_sides():
    x, n = hm.tensor([1.0, 2.0, 4.0]), np.array([1.0, 2.0, 4.0], dtype=np.float32)
    for f in (lambda a: a + 2, lambda a: 2 + a, lambda a: a - 2.5, lambda a: 2.5 - a, lambda a: a * a, lambda a: 3 / a,
              lambda a: a // 2, lambda a: 7 // a, lambda a: a % 3, lambda a: 7 % a, lambda a: a**2, lambda a: 2**a,
              lambda a: -a, lambda a: +a, lambda a: abs(-a), lambda a: a < 2, lambda a: a >= 2, lambda a: a == 2,
              lambda a: a != 2, lambda a: divmod(a, 3)[1], lambda a: a @ a):
        same(f(x), f(n))
    b = hm.tensor([True, False])
    assert (~b).tolist() == [False, True] and (b & True).tolist() == [True, False] and (b ^ b).tolist() == [False, False]
    i = hm.tensor([1, 6])
    assert (i << 1).tolist() == [2, 12] and (i | 1).tolist() == [1, 7]
    with pytest.raises(TypeError):
        x + "a"
    with pytest.raises(TypeError):
        [] * x
    assert (x == "a") is False


def test_in_place_operators_keep_the_object():
    x = hm.tensor([1.0, 2.0])
    y, view = x, x[0:1]
    x += 1
    x *= 2
    assert x is y and view.tolist() == [4.0]
    assert x.add_(1) is x
    x.sub_(1)
    x -= x
    assert x.tolist() == [0, 0]


def test_indexing_is_numpys():
    n = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    x = hm.tensor(n)
    keys = [0, -1, slice(1, None), slice(None, None, 2), (0, 1), (slice(None), 1), (..., 2), (None, 0), Ellipsis, None,
            ([0, 1], [1, 2]), [1, 0], np.array([1, 0]), (0, np.array([True, False, True])), n > 5, (slice(None), [0, 2], 1),
            np.int64(1), True, (slice(-2, None), ..., slice(0, 3, 2))]
    for key in keys:
        same(x[key], n[key])
    same(x[hm.tensor([1, 0])], n[[1, 0]])
    same(x[x > 5], n[n > 5])
    for bad in ("a", 1.5, (0, 0, 0, 0), 5, slice("a", None)):
        with pytest.raises((IndexError, TypeError, ValueError)):
            x[bad]


def test_assignment_writes():
    for key, value in [(0, 1.0), ((..., 1), 2), (slice(0, 1), np.zeros((1, 3, 4))), ([0, 1], 3), ((0, slice(None), [1, 2]), 4),
                       (np.array([True, False]), 5)]:
        n = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
        x = hm.tensor(n)
        x[key] = value
        n[key] = value
        same(x, n)
    x = hm.zeros(3)
    x[x == 0] = hm.tensor([1.0, 2.0, 3.0])
    assert x.tolist() == [1, 2, 3]
    with pytest.raises(TypeError):
        del x[0]


def test_facts():
    x = hm.zeros(2, 3, dtype=hm.float64, device="cpu")
    assert x.shape == (2, 3) and x.size() == (2, 3) and x.size(-1) == 3 and x.ndim == x.dim() == 2 and x.numel() == 6
    assert x.dtype is hm.float64 and x.device == "cpu" and x.device == hm.device("cpu:0") and x.device != "nowhere"
    assert x.itemsize == 8 and x.nbytes == 48 and x.stride() == (3, 1) and x.T.shape == (3, 2)
    assert hm.float32.name == "float32" and hm.float32.itemsize == 4 and not hm.int8.is_floating_point
    assert all(hm.zeros(4, dtype=dtype).itemsize == dtype.itemsize == 1 for dtype in (hm.bool, hm.float8_e5m2, hm.int4, hm.uint2))
    assert {hm.float32: 1}[x.float().dtype] == 1
    assert {"cpu": 1}[x.device] == {x.device: 1}["cpu"] == {hm.device("cpu:0"): 1}[x.device] == 1
    assert weakref.ref(x)() is x and hash(x) == hash(x)


def test_python_conversions():
    x = hm.tensor([2.5])
    assert float(x) == 2.5 and int(x) == 2 and bool(x) and complex(x) == 2.5 and x.item() == 2.5
    assert [10, 20, 30][hm.tensor(1)] == 20 and list(range(hm.tensor(2))) == [0, 1]
    assert f"{x.sum():.3f}" == "2.500" and f"{hm.tensor(3)}" == "tensor(3)" and math.sqrt(hm.tensor(4.0)) == 2
    assert hm.tensor(np.array([2**64 - 1], dtype=np.uint64)).item() == 2**64 - 1
    with pytest.raises(ValueError):
        bool(hm.zeros(2))
    with pytest.raises(ValueError):
        hm.zeros(2).item()
    with pytest.raises(TypeError):
        [1, 2][x]
    with pytest.raises(TypeError):
        f"{hm.zeros(2):.3f}"


def test_sequences():
    x = hm.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert len(x) == 2 and [row.tolist() for row in x] == [[1, 2], [3, 4]] and 3.0 in x and 7 not in x
    a, b = x
    assert b.tolist() == [3, 4] and list(hm.zeros(0, 2)) == []
    for bad in (len, iter):
        with pytest.raises(TypeError):
            bad(hm.tensor(1.0))
    assert x.tolist() == [[1, 2], [3, 4]] and hm.tensor(True).tolist() is True


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"])
def test_copies_and_pickles(dtype):
    x = hm.tensor([[0, 1], [1, 1]], dtype=dtype)
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert y.dtype is x.dtype and y.tolist() == x.tolist() and not y.is_same(x)
    assert copy.copy(x).is_same(x)
    assert pickle.loads(pickle.dumps(x.dtype)) is x.dtype and pickle.loads(pickle.dumps(hm.add)) is hm.add
    assert pickle.loads(pickle.dumps(x.device)) == x.device and pickle.loads(pickle.dumps(hm.zeros(0, 2))).shape == (0, 2)
    w = hm.tensor([1.0], requires_grad=True)
    assert pickle.loads(pickle.dumps(w)).requires_grad and copy.deepcopy(w).requires_grad
    with pytest.raises(ValueError):
        copy.deepcopy(w * 2)


def test_printing_is_like_pytorchs():
    assert repr(hm.tensor([1.0, 2.5])) == "tensor([1.0000, 2.5000])"
    assert repr(hm.tensor([[1, 2], [3, 4]])) == "tensor([[1, 2],\n        [3, 4]])"
    assert repr(hm.tensor(1.0, dtype=hm.float64)) == "tensor(1., dtype=hammock.float64)"
    assert "requires_grad=True" in repr(hm.tensor(1.0, requires_grad=True))
    assert "..." in repr(hm.zeros(2000))
    hm.set_printoptions(precision=2)
    assert repr(hm.tensor([1.234])) == "tensor([1.23])"
    hm.set_printoptions(precision=4)
    with pytest.raises(ValueError):
        hm.set_printoptions(precision=-1)


def test_summary_computes_nothing():
    with hm.no_execution("a summary"):
        assert "pending, from add at test_tensor.py" in (hm.zeros(2) + 1).summary()


def test_subclasses_and_wrong_constructions():
    class Mine(hm.Tensor):
        pass

    x = Mine(hm.ones(2))
    x.note = 3
    assert (x + 1).tolist() == [2, 2] and type(x + 1) is hm.Tensor and x.note == 3
    for bad in ((), (1,), (hm.ones(1), 2)):
        with pytest.raises(TypeError):
            hm.Tensor(*bad)


def test_devices_and_casts():
    x = hm.ones(2, device="cpu")
    assert x.to("cpu").is_same(x) and x.to(hm.float16).dtype is hm.float16 and x.to("reference").device == "reference"
    assert x.to("reference", hm.int32).dtype is hm.int32 and x.to(x.to(hm.int8)).dtype is hm.int8
    assert x.half().dtype is hm.float16 and x.cpu().is_same(x)
    with pytest.raises(ValueError):
        hm.device("nowhere")
    with pytest.raises(ValueError):
        x.to("nowhere")
    with pytest.raises(ValueError):
        x + x.to("reference")
