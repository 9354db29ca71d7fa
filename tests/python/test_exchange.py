"""Memory that is exchanged with other libraries."""

import array
import ctypes
import gc
import pickle
import tracemalloc

import numpy as np
import pytest

import hammock as hm
from memory import resident_bytes

DTYPES = ["bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_both_ways(dtype):
    n = (np.arange(6).reshape(2, 3) % 2).astype(dtype)
    for x in (hm.tensor(n), hm.asarray(n), hm.from_numpy(n), hm.from_dlpack(n), hm.asarray(n, copy=False)):
        assert x.dtype.name == dtype and x.shape == (2, 3)
        np.testing.assert_array_equal(x.numpy(), n)
        assert x.numpy().dtype == n.dtype
        np.testing.assert_array_equal(np.from_dlpack(x), n)


def test_strided_arrays_are_copied_in_order():
    n = np.arange(24.0).reshape(2, 3, 4)
    for view in (n.T, n[:, ::2], n[::-1], n[..., 1], n[:0]):
        np.testing.assert_array_equal(hm.tensor(view), view)
    np.testing.assert_array_equal(hm.from_dlpack(n.T), n.T)
    with pytest.raises(ValueError):
        hm.asarray(n.T, copy=False)


def test_imports_copy_at_the_call():
    n = np.zeros(3, dtype=np.float32)
    copies = [hm.tensor(n), hm.asarray(n), hm.from_numpy(n), hm.from_dlpack(n)]
    n[:] = 7
    for x in copies:
        assert x.tolist() == [0, 0, 0]


def test_memory_is_shared_where_it_cannot_change_or_where_the_caller_says_so():
    n = np.ones(1000, dtype=np.float32)
    n.flags.writeable = False
    x = hm.asarray(n)
    assert (x + 1).sum().item() == 2000
    w = np.ones(4, dtype=np.float32)
    y = hm.asarray(w, copy=False) * 2
    assert y.tolist() == [2, 2, 2, 2]


def test_a_change_of_shared_memory_is_found():
    if hm.config.get("check_borrowed") != "true":
        pytest.skip("the option check_borrowed is off")
    w = np.ones(4, dtype=np.float32)
    y = hm.asarray(w, copy=False) * 2
    w[0] = 5
    with pytest.raises(ValueError, match="test_exchange.py"):
        y.tolist()
    assert hm.config.get("check_imports") == "true"  # its name in other texts


def test_exports_are_read_only_and_keep_their_values():
    x = hm.tensor([1.0, 2.0, 3.0]) * 2
    n = x.numpy()
    assert not n.flags.writeable
    with pytest.raises((ValueError, BufferError)):
        n[0] = 1
    x += 1
    assert x.tolist() == [3, 5, 7] and n.tolist() == [2, 4, 6]
    with hm.step():
        x *= 0
    hm.wait_device_ops()
    assert n.tolist() == [2, 4, 6]
    copied = np.array(x)
    copied[0] = 9
    assert x.tolist() == [0, 0, 0]
    with pytest.raises(BufferError):
        memoryview(hm.ones(2).requires_grad_())


def address(array):
    return array.__array_interface__["data"][0]


EXPORTS = [hm.Tensor.numpy, np.asarray, np.from_dlpack, lambda x: np.asarray(memoryview(x))]


@pytest.mark.parametrize("export", EXPORTS)
def test_exports_share_the_memory_of_results_and_forbid_donation(export):
    x = hm.full([1000], 1.5, device="cpu") * 2
    n = export(x)
    assert not n.flags.writeable and address(n) == address(x.numpy()) and np.array_equal(n, np.full(1000, 3))

    @hm.compile
    def add(x):
        x += 1
        return x.sum()

    for write in (lambda: x.add_(1), lambda: x.__setitem__(slice(2, 5), 9), lambda: add(x)):
        with hm.step():
            write()
        hm.wait_device_ops()
        assert np.array_equal(n, np.full(1000, 3)) and address(x.numpy()) != address(n)
    assert x[1:3].tolist() == [5, 10]


@pytest.mark.parametrize("export", EXPORTS)
def test_exports_and_tensors_are_freed_in_any_order(export):
    x = hm.full([1000], 1.5, device="cpu") * 2
    y, z = x.reshape(10, 100), x[100:200]
    n, part = export(x), export(y)[:, ::10]
    of_slice = export(z)
    del x
    gc.collect()
    hm.wait_device_ops()
    for other in range(4):  # takes memory that was freed
        (hm.full([1000], 1.5, device="cpu") * other).tolist()
    assert np.array_equal(n, np.full(1000, 3)) and np.array_equal(part, np.full((10, 10), 3))
    del n
    gc.collect()
    with hm.no_grad():
        y += 1
        z *= 2
    assert y[0, 0].item() == 4 and np.array_equal(part, np.full((10, 10), 3))
    del y, z
    gc.collect()
    assert part.sum() == 300 and np.array_equal(of_slice, np.full(100, 3))


def test_exports_of_borrowed_memory_are_copies():
    mine = np.ones(1000, dtype=np.float32)
    x = hm.asarray(mine, device="cpu", copy=False)
    before = x.numpy()
    (x + 1).tolist()
    after = x.numpy()
    mine[:] = 5
    assert np.array_equal(before, np.ones(1000)) and np.array_equal(after, np.ones(1000))


def test_exported_memory_outlives_its_tensor():
    n = (hm.ones(1000) * 3).numpy()
    gc.collect()
    hm.zeros(1000).tolist()
    assert n.sum() == 3000


def test_other_buffers():
    assert hm.tensor(array.array("d", [1, 2])).dtype is hm.float64
    assert hm.tensor(memoryview(b"\x01\x02")).tolist() == [1, 2]
    assert hm.tensor(bytearray(3)).dtype is hm.uint8
    assert hm.tensor(np.zeros(2, dtype=complex)).dtype is hm.complex128
    for bad in (np.zeros(2, dtype=">f4"), np.array(["a"]), np.array([object()])):
        with pytest.raises((TypeError, ValueError, BufferError)):
            hm.tensor(bad)
    with pytest.raises(ValueError):
        hm.tensor(np.zeros((1,) * 9))


class Old:
    """Exports a tensor as DLPack did before version 1."""

    def __init__(self, tensor, copy):
        self.tensor, self.copy = tensor, copy

    def __dlpack__(self, **_):
        return self.tensor.__dlpack__(copy=self.copy)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def test_dlpack_protocol():
    x = hm.tensor([[1.0, 2.0]])
    assert x.__dlpack_device__() == (1, 0)
    assert hm.from_dlpack(x).tolist() == [[1, 2]]
    assert hm.from_dlpack(x.to(hm.bfloat16)).dtype is hm.bfloat16
    assert hm.from_dlpack(x.__dlpack__()).tolist() == [[1, 2]]  # unversioned
    assert not np.from_dlpack(x).flags.writeable
    for copy in (None, True, False):  # a consumer from before version 1 may insist on our memory
        assert np.from_dlpack(Old(x, copy)).tolist() == [[1, 2]]
    for bad in (1, object(), None):
        with pytest.raises(TypeError):
            hm.from_dlpack(bad)
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError):
        hm.tensor([1.0], requires_grad=True).__dlpack__()


def test_mixed_operands():
    x = hm.ones(2)
    with pytest.raises(TypeError):
        np.ones(2) + x
    assert (np.float32(2) * x).tolist() == [2, 2] and (x * np.float64(2)).dtype is hm.float32
    assert np.asarray(x, dtype=np.float64).dtype == np.float64 and np.sum(np.asarray(x)) == 2
    with pytest.raises(TypeError, match="bfloat16"):
        x.to(hm.bfloat16).numpy()


def test_ten_thousand_imports_leak_nothing():
    n, r = np.ones(1024, dtype=np.float32), np.ones(1024, dtype=np.float32)
    r.flags.writeable = False

    def once():
        for _ in range(1000):
            (hm.tensor(n), hm.asarray(r), hm.from_dlpack(n), hm.asarray(n, copy=False), hm.tensor([1.0, 2.0]))
        hm.ones(2).numpy()

    once()
    tracemalloc.start()
    once()
    resident, traced = resident_bytes(), tracemalloc.get_traced_memory()[0]
    for _ in range(10):
        once()
    grown = tracemalloc.get_traced_memory()[0] - traced
    tracemalloc.stop()
    # Each import is of 4 KB: one of them in ten that stayed would be 16 MB.
    assert resident_bytes() - resident < 8 << 20 and grown < 16 << 10


def test_torch_both_ways():
    torch = pytest.importorskip("torch")
    t = torch.arange(6.0).reshape(2, 3).t()
    x = hm.from_torch(t)
    assert x.tolist() == t.tolist()
    t[0, 0] = 9
    assert x[0, 0].item() == 0
    back = hm.to_torch(x * 2)
    back[0, 0] = 5
    assert back.dtype == torch.float32 and (x * 2)[0, 0].item() == 0
    assert hm.to_torch(hm.ones(2, dtype=hm.bfloat16)).dtype == torch.bfloat16
    assert hm.from_torch(torch.ones(2, requires_grad=True)).tolist() == [1, 1]
    assert hm.tensor(torch.ones(2)).tolist() == [1, 1]


def test_torch_with_dtypes_and_devices():
    torch = pytest.importorskip("torch")
    t = torch.tensor([[1.5, 2.5], [3.5, 4.5]])
    for dtype in (torch.float64, hm.float64, "float64"):
        assert hm.from_torch(t, dtype=dtype).dtype is hm.float64
        assert hm.to_torch(hm.tensor([1.5]), dtype=dtype).dtype == torch.float64
    assert hm.from_torch(t, dtype=int).tolist() == [[1, 2], [3, 4]]
    x = hm.from_torch(t, dtype=hm.bfloat16, device="reference")
    assert x.dtype is hm.bfloat16 and str(x.device) == "reference:0" and x.tolist() == t.tolist()
    back = hm.to_torch(x, dtype=torch.float16, device="cpu")
    assert back.dtype == torch.float16 and torch.equal(back, t.half())
    assert hm.to_torch(x, device="meta").device.type == "meta"
    with pytest.raises(TypeError, match="float8_e8m0fnu"):
        hm.from_torch(t, dtype=torch.float8_e8m0fnu)
    with pytest.raises(TypeError, match="dtype must be a dtype"):
        hm.to_torch(hm.ones(2), dtype=torch.Tensor)
    with pytest.raises(TypeError, match="takes a torch.Tensor, not Tensor"):
        hm.from_torch(hm.ones(2))
    with pytest.raises(TypeError, match="takes a hammock.Tensor"):
        hm.to_torch(t)


def test_torch_without_a_copy():
    torch = pytest.importorskip("torch")
    t = torch.ones(4)
    x = hm.from_torch(t, dtype=torch.float32, device="cpu", copy=False) * 2
    assert x.tolist() == [2, 2, 2, 2]
    y = hm.tensor([1.0, 2.0]) * 3
    assert hm.to_torch(y, dtype=hm.float32, device="cpu", copy=False).tolist() == [3, 6]
    for kwargs, why in (({"dtype": hm.float64}, "float64"), ({"device": "reference"}, "reference:0")):
        with pytest.raises(ValueError, match=f"copy=False.*{why}"):
            hm.from_torch(t, copy=False, **kwargs)
    for kwargs, why in (({"dtype": torch.float64}, "float64"), ({"device": "meta"}, "meta")):
        with pytest.raises(ValueError, match=f"copy=False.*{why}"):
            hm.to_torch(y, copy=False, **kwargs)
    with pytest.raises(ValueError, match="the tensor is on reference:0"):
        hm.to_torch(y.to("reference"), copy=False)
    with pytest.raises(ValueError, match="the tensor is on meta"):
        hm.from_torch(t.to("meta"), copy=False)
    with pytest.raises(ValueError, match="conjugated"):
        hm.from_torch(torch.ones(2, dtype=torch.complex64).conj(), copy=False)
    assert hm.from_torch(torch.tensor([1 + 2j]).conj()).tolist() == [1 - 2j]


def test_jax_both_ways():
    jax = pytest.importorskip("jax")
    x = hm.arange(6.0).reshape(2, 3) * 2
    j = jax.numpy.from_dlpack(x)
    assert j.tolist() == x.tolist() and (j + 1).tolist() == (x + 1).tolist()
    back = hm.from_dlpack(j * 3)
    assert back.tolist() == (x * 3).tolist() and hm.tensor(j).dtype is hm.float32
    assert hm.asarray(jax.numpy.ones(4, dtype="bfloat16")).dtype is hm.bfloat16


def test_mlx_gives_its_arrays():
    mx = pytest.importorskip("mlx.core", exc_type=ImportError)
    assert hm.tensor(mx.array([1.0, 2.0]) * 2).tolist() == [2, 4]
    assert mx.array((hm.ones(3) * 5).numpy()).tolist() == [5, 5, 5]


def test_storage_types_are_pickled_and_exchanged():
    x = hm.tensor([[1.0, -2.0, 3.0, 0.0], [0.5, 7.0, -1.0, 1.0]])
    for dtype in (hm.float8_e4m3fn, hm.float8_e5m2, hm.int4, hm.uint4, hm.int2, hm.uint2):
        small = x.to(dtype)
        again = pickle.loads(pickle.dumps(small))
        assert again.dtype is dtype and again.to(hm.float32).tolist() == small.to(hm.float32).tolist()
        with pytest.raises(TypeError, match=dtype.name):
            small.numpy()
    assert hm.from_dlpack(x.to(hm.float8_e5m2)).dtype is hm.float8_e5m2


def test_quantised_ops():
    weight, x = hm.randn(4, 64), hm.randn(2, 64)
    scale = weight.abs().amax(1, keepdim=True) / 7
    small = hm.quantize(weight, scale, dtype=hm.int4)
    assert small.dtype is hm.int4
    assert hm.allclose(hm.quantized_linear(x, small, scale), x @ hm.dequantize(small, scale).mT, atol=1e-4)
    a, b = hm.tensor([[1, -2]], dtype=hm.int8), hm.tensor([[3], [4]], dtype=hm.int8)
    assert hm.int_matmul(a, b).tolist() == [[-5]]


def test_no_copy_means_none():
    n = np.ones((2, 2), dtype=np.float32)
    x = hm.tensor(n)
    assert hm.asarray(x, copy=False) is not None and hm.asarray(n, dtype=hm.float32, device="cpu", copy=False).shape == (2, 2)
    for data in (n, x):
        for other in ({"dtype": hm.float64}, {"device": "reference"}):
            with pytest.raises(ValueError, match="copy=False"):
                hm.asarray(data, copy=False, **other)
    for data in ([1.0], (1, 2), 3.0, [n]):
        with pytest.raises(ValueError, match="copy=False.*has no memory"):
            hm.asarray(data, copy=False)
    with pytest.raises(ValueError, match="copy=False"):
        hm.from_dlpack(n, device="reference", copy=False)
    y = x.to("reference")
    assert hm.asarray(y, copy=False).device == y.device  # a tensor stays where it is


class ManagedArray(ctypes.Structure):
    """DLPack's DLManagedTensorVersioned."""

    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("owner", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.c_void_p),
                ("byte_offset", ctypes.c_uint64)]


PYTHON = ctypes.pythonapi
PYTHON.PyCapsule_New.restype = ctypes.py_object
PYTHON.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
PYTHON.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
PYTHON.PyCapsule_GetDestructor.argtypes = [ctypes.py_object]
PYTHON.PyCapsule_GetDestructor.restype = ctypes.c_void_p


class Producer:
    """A capsule of four floats that counts calls of its deleter. As producers do, it calls that itself for a capsule that
    nobody has used."""

    def __init__(self, major=1, code=2):
        self.deleted = 0
        self.values, self.sizes = (ctypes.c_float * 4)(1, 2, 3, 4), (ctypes.c_int64 * 1)(4)
        self._deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._delete)
        self._destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._destroy)
        self.array = ManagedArray(major, 0, None, ctypes.cast(self._deleter, ctypes.c_void_p), 0,
                                  ctypes.addressof(self.values), 1, 0, 1, code, 32, 1, self.sizes, None, 0)
        self.capsule = PYTHON.PyCapsule_New(ctypes.addressof(self.array), b"dltensor_versioned",
                                            ctypes.cast(self._destructor, ctypes.c_void_p))

    def _delete(self, _):
        self.deleted += 1

    def _destroy(self, capsule):
        is_valid = ctypes.PyDLL(None).PyCapsule_IsValid
        is_valid.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
        if is_valid(capsule, b"dltensor_versioned"):
            self._delete(None)

    def is_used(self):
        return PYTHON.PyCapsule_IsValid(self.capsule, b"used_dltensor_versioned") == 1


@pytest.mark.parametrize("copy", [None, True, False])
def test_dlpack_capsules_are_used_once_and_deleted_once(copy):
    producer = Producer()
    x = hm.from_dlpack(producer.capsule, copy=copy)
    assert producer.is_used() and not PYTHON.PyCapsule_GetDestructor(producer.capsule)
    assert producer.deleted == (0 if copy is False else 1)
    with pytest.raises(TypeError, match="was used"):
        hm.from_dlpack(producer.capsule, copy=copy)
    producer.capsule = None
    gc.collect()
    assert producer.deleted == (0 if copy is False else 1)
    assert (x + 1).tolist() == [2, 3, 4, 5]
    del x
    hm.ones(1).tolist()
    assert producer.deleted == 1


@pytest.mark.parametrize("wrong, error", [({"major": 2}, NotImplementedError), ({"code": 9}, TypeError)])
def test_refused_dlpack_capsules_stay_their_owners(wrong, error):
    producer = Producer(**wrong)
    with pytest.raises(error):
        hm.from_dlpack(producer.capsule)
    assert not producer.is_used() and producer.deleted == 0
    producer.capsule = None
    gc.collect()
    assert producer.deleted == 1
