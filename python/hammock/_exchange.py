"""PyTorch's tensors."""

from . import _hammock


def from_torch(tensor, *, dtype=None, device=None, copy=None):
    """A tensor of a PyTorch tensor: a copy, on the default device unless `device` names another. With copy=False memory is
    shared, which another dtype or device cannot do: ValueError. `dtype` is Hammock's or PyTorch's."""
    if not hasattr(tensor, "detach") or isinstance(tensor, _hammock.Tensor):
        raise _hammock.TypeError(f"from_torch: takes a torch.Tensor, not {type(tensor).__name__}")
    source = tensor.detach()
    wanted = None if dtype is None else _hammock_dtype(dtype)
    target = _hammock.default_device() if device is None else _hammock.device(device)
    if copy is False:
        _need_no_copy("from_torch", source, None if wanted is None else wanted.name, target)
        if source.is_conj() or source.is_neg():
            raise _hammock.ValueError("from_torch: copy=False, but the tensor is a conjugated or negated view")
    source = (source if _same_device(source.device, target) else source.cpu()).resolve_conj().resolve_neg()
    # PyTorch does not say "read-only": its memory can always be written.
    result = _hammock.from_dlpack(source, device=target, copy=copy is not False)
    return result if wanted is None or wanted == result.dtype else result.to(wanted)


def to_torch(tensor, *, dtype=None, device=None, copy=True):
    """A PyTorch tensor in host memory, unless `device` names one of PyTorch's: from a CUDA device to the same one nothing goes
    through the host. Its memory is its own, unless copy=False: then it is shared, and must not be written; another dtype or device
    cannot do that: ValueError. `dtype` is Hammock's or PyTorch's."""
    import torch

    if not isinstance(tensor, _hammock.Tensor):
        raise _hammock.TypeError(f"to_torch: takes a hammock.Tensor, not {type(tensor).__name__}")
    wanted = None if dtype is None else _torch_dtype(torch, dtype)
    target = torch.device("cpu" if device is None else device)
    if not copy:
        _need_no_copy("to_torch", tensor, None if wanted is None else _name_of(wanted), target)
    source = tensor.detach()
    if tensor.device.type != "cuda" or not _same_device(source.device, target):
        source = source.cpu()
    return torch.from_dlpack(_Exported(source, copy)).to(device=target, dtype=wanted)


def _need_no_copy(function, tensor, dtype, device):
    own = _name_of(tensor.dtype)
    if dtype not in (None, own):
        raise _hammock.ValueError(f"{function}: copy=False, but the tensor is {own} and dtype is {dtype}")
    if tensor.device.type not in ("cpu", "cuda"):
        raise _hammock.ValueError(f"{function}: copy=False shares memory of the host or a card, but the tensor is on {tensor.device}")
    if not _same_device(tensor.device, device):
        raise _hammock.ValueError(f"{function}: copy=False, but the tensor is on {tensor.device} and device is {device}")


def _same_device(one, other):
    return one.type == other.type and (one.index or 0) == (other.index or 0)


def _name_of(dtype):
    """What PyTorch and Hammock both call a dtype: `float32`."""
    return dtype.name if isinstance(dtype, _hammock.dtype) else str(dtype).rpartition(".")[2]


def _hammock_dtype(dtype):
    if type(dtype).__module__ == "torch":
        known = getattr(_hammock, _name_of(dtype), None)
        if not isinstance(known, _hammock.dtype):
            raise _hammock.TypeError(f"from_torch: Hammock has no dtype {_name_of(dtype)}")
        return known
    return _hammock.tensor(0, dtype=dtype).dtype  # also of names and of Python's types


def _torch_dtype(torch, dtype):
    if isinstance(dtype, torch.dtype):
        return dtype
    name = _hammock_dtype(dtype).name
    known = getattr(torch, name, None)
    if not isinstance(known, torch.dtype):
        raise _hammock.TypeError(f"to_torch: PyTorch has no dtype {name}")
    return known


class _Exported:
    """What torch.from_dlpack takes, with or without a copy."""

    def __init__(self, tensor, copy):
        self._tensor, self._copy = tensor, copy

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        return self._tensor.__dlpack__(stream=stream, max_version=max_version, copy=True if self._copy else None)

    def __dlpack_device__(self):
        return self._tensor.__dlpack_device__()
