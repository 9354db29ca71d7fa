"""Memory of CUDA devices that is exchanged with other libraries: on an emulated device, whose memory is the host's, and with
PyTorch and CuPy where there is a GPU. Both need a process of their own, which pytest is run in."""

import ctypes
import os
import shutil
import subprocess
import sys

import pytest

import hammock as hm
from test_exchange import PYTHON, ManagedArray

EMULATED = "CARDS_EMULATED" in os.environ
HAS_CARD = any(str(device) == "cuda:0" for device in hm.devices())
on_emulated_card = pytest.mark.skipif(not EMULATED, reason="runs in a process of its own")

PYTHON.PyCapsule_GetPointer.restype = ctypes.c_void_p
PYTHON.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


@pytest.mark.skipif(EMULATED or not shutil.which("c++"), reason="needs a compiler, which emulates the device")
def test_on_an_emulated_card():
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", __file__], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "CARDS_EMULATED": "1", "HAMMOCK_CUDA_EMULATE": "c++"})
    assert done.returncode == 0, done.stdout + done.stderr


def values(capsule):
    """What a versioned capsule points to, and its address."""
    array = ManagedArray.from_address(PYTHON.PyCapsule_GetPointer(capsule, b"dltensor_versioned"))
    count = array.shape[0]
    return list((ctypes.c_float * count).from_address(array.data)), array


class Producer:
    """An array of floats in the memory of a device: `offset` elements behind an address that is aligned."""

    def __init__(self, sizes, strides=None, offset=0, device=(2, 0)):
        self.device, self.asked, self.deleted = device, [], 0
        self.memory = (ctypes.c_float * 256)()
        at = -ctypes.addressof(self.memory) % 256 + 4 * offset
        self.values = (ctypes.c_float * 64).from_buffer(self.memory, at)
        self.values[:] = range(64)
        self.sizes = (ctypes.c_int64 * len(sizes))(*sizes)
        self.strides = strides and (ctypes.c_int64 * len(strides))(*strides)
        self._deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._delete)
        self.array = ManagedArray(1, 0, None, ctypes.cast(self._deleter, ctypes.c_void_p), 0, ctypes.addressof(self.values), *device,
                                  len(sizes), 2, 32, 1, self.sizes, self.strides and ctypes.addressof(self.strides), 0)

    def _delete(self, _):
        self.deleted += 1

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **arguments):
        self.asked.append(arguments)
        return PYTHON.PyCapsule_New(ctypes.addressof(self.array), b"dltensor_versioned", None)


@on_emulated_card
def test_exports_share_the_memory_and_keep_its_values():
    x = hm.arange(6.0, device="cuda") * 2
    assert x.__dlpack_device__() == (2, 0)
    capsules = [x.__dlpack__(max_version=(1, 1), stream=stream) for stream in (None, 1, 2, -1, 12345)]
    numbers, array = values(capsules[0])
    assert numbers == [0, 2, 4, 6, 8, 10] and array.flags == 1 and (array.device_type, array.device_id) == (2, 0)
    assert {values(capsule)[1].data for capsule in capsules} == {array.data}
    x += 1
    assert x.tolist() == [1, 3, 5, 7, 9, 11] and values(capsules[0])[0] == numbers
    copied = x.__dlpack__(max_version=(1, 1), copy=True)
    assert values(copied)[0] == x.tolist() and values(copied)[1].flags == 2
    shared = x.__dlpack__(max_version=(1, 1))
    assert values(copied)[1].data != values(shared)[1].data


@on_emulated_card
def test_exports_go_where_the_consumer_asks():
    x = hm.arange(3.0, device="cuda") + 1
    assert values(x.__dlpack__(max_version=(1, 1), dl_device=(1, 0)))[1].device_type == 1
    assert values(x.__dlpack__(max_version=(1, 1), dl_device=(2, 0)))[1].device_type == 2
    assert hm.from_dlpack(x.__dlpack__()).tolist() == [1, 2, 3]  # unversioned
    for empty in (hm.ones(2, 0, device="cuda"), hm.ones(2, 0, device="cuda") * 2):
        assert hm.from_dlpack(empty).tolist() == [[], []]
    for number in (hm.tensor(3.0, device="cuda"), hm.tensor(1.5, device="cuda") * 2):
        assert hm.from_dlpack(number).item() == 3 and str(hm.from_dlpack(number).device) == "cuda:0"
    for wrong in ({"dl_device": (2, 7)}, {"stream": 0}, {"stream": -2}):
        with pytest.raises(BufferError):
            x.__dlpack__(**wrong)
    assert hm.ones(2, device="cpu").__dlpack_device__() == (1, 0)


@on_emulated_card
@pytest.mark.parametrize("sizes, strides, offset, expected", [
    ((4,), None, 0, [0, 1, 2, 3]), ((4,), None, 1, [0, 1, 2, 3]), ((2, 2), (1, 8), 0, [[0, 8], [1, 9]]), ((2, 0), None, 0, [[], []])])
def test_imports_copy_at_the_call(sizes, strides, offset, expected):
    producer = Producer(sizes, strides, offset)
    for take in (hm.from_dlpack, hm.asarray, hm.tensor):
        x = take(producer)
        assert str(x.device) == "cuda:0" and producer.asked[-1]["stream"] == 1
        before, producer.values[:] = producer.values[:], [7] * 64
        assert x.tolist() == expected
        producer.values[:] = before
    assert producer.deleted == 3
    assert take(producer, device="cpu").tolist() == expected


@on_emulated_card
def test_imports_share_memory_where_the_caller_says_so():
    producer = Producer((4,))
    x = hm.from_dlpack(producer, copy=False)
    producer.values[0] = 9
    assert x.tolist() == [9, 1, 2, 3] and producer.deleted == 0
    x += 1  # Hammock never writes there
    assert x.tolist() == [10, 2, 3, 4] and producer.values[0] == 9
    hm.ones(1).tolist()
    assert producer.deleted == 1
    for wrong in (Producer((4,), None, 1), Producer((2, 2), (1, 2))):
        with pytest.raises(ValueError, match="copy=False"):
            hm.from_dlpack(wrong, copy=False)
        assert wrong.deleted == 0
    with pytest.raises(ValueError, match="copy=False"):
        hm.from_dlpack(producer, copy=False, device="cpu")
    with pytest.raises(NotImplementedError, match="backwards"):
        hm.from_dlpack(Producer((2, 2), (-2, 1), 8))
    for other in ((2, 7), (10, 0)):
        with pytest.raises(NotImplementedError, match="does not share"):
            hm.from_dlpack(Producer((4,), device=other))


# ---- With PyTorch and CuPy on a GPU: a stream of theirs is busy for a while before it writes what is taken over, or reads what is
# given away.


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch")
    if EMULATED or not HAS_CARD or not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    return torch


def keep_busy(torch):
    torch.cuda._sleep(200_000_000)  # about a tenth of a second


@pytest.mark.parametrize("side_stream", [False, True])
def test_torch_waits_for_hammock_and_hammock_for_torch(torch, side_stream):
    stream = torch.cuda.Stream() if side_stream else torch.cuda.default_stream()
    with torch.cuda.stream(stream):
        for round in range(5):
            t = torch.zeros(1 << 20, device="cuda")
            keep_busy(torch)
            t += round
            x = hm.from_dlpack(t)
            t.fill_(-1)
            assert str(x.device) == "cuda:0" and (x == round).all().item()
            shared = hm.from_torch(torch.full((1 << 20,), float(round), device="cuda"), device="cuda", copy=False)
            y = shared * 2 + x
            del shared
            given = torch.from_dlpack(y)
            assert given.is_cuda
            keep_busy(torch)
            late = given + 1
            y += 100  # and the memory of `given` may be taken again as soon as it goes
            del given
            for _ in range(4):
                assert ((y * 2).sum() > 0).item()
            assert torch.equal(late, torch.full_like(late, 3.0 * round + 1))
    assert torch.equal(hm.to_torch(x, device="cuda"), t * 0 + 4) and hm.to_torch(x).device.type == "cpu"


def test_torch_has_the_memory_itself(torch):
    x = hm.arange(8.0, device="cuda") * 2
    assert torch.from_dlpack(x).data_ptr() == hm.to_torch(x, device="cuda", copy=False).data_ptr() != hm.to_torch(x, device="cuda").data_ptr()
    t = torch.ones(1000, device="cuda")
    y = hm.from_torch(t, device="cuda", copy=False)
    t.fill_(2)
    torch.cuda.synchronize()
    assert y.sum().item() == 2000


def test_torch_in_other_layouts_and_dtypes(torch):
    t = torch.arange(24.0, device="cuda").reshape(4, 6)
    for view in (t.t(), t[1:, 2:], t[:, ::2], t[2], t[0, :0], t.bfloat16(), t.long(), t > 3, t.to(torch.complex64)):
        x = hm.from_dlpack(view)
        assert x.tolist() == view.tolist() and torch.equal(torch.from_dlpack(x), view)
    assert hm.from_torch(t.to(torch.complex64).conj() * 1j, device="cuda").tolist() == (t.to(torch.complex64).conj() * 1j).tolist()


def test_cupy(torch):
    cupy = pytest.importorskip("cupy")
    for stream in (cupy.cuda.Stream.null, cupy.cuda.Stream(), cupy.cuda.Stream(non_blocking=True)):
        with stream:
            a = cupy.arange(1 << 20, dtype=cupy.float32) * 3
            x = hm.from_dlpack(a) + 1
            back = cupy.from_dlpack(x)
            assert bool((back == a + 1).all()) and x[5].item() == 16
            del back
    del stream
    assert (hm.ones(1 << 20, device="cuda") + x).sum().item() > 0


def test_jax():
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = pytest.importorskip("jax")
    if EMULATED or not HAS_CARD or jax.default_backend() != "gpu":
        pytest.skip("needs a GPU")
    for dtype in ("float32", "bfloat16"):
        a = jax.numpy.arange(1000, dtype=dtype) * 2
        x = hm.asarray(a)
        assert str(x.device) == "cuda:0" and x.tolist() == a.tolist()
        assert (jax.numpy.from_dlpack(x + 1) == a + 1).all()
