"""PyTorch's tensors."""

from . import _hammock


def from_torch(tensor, *, copy=None):
    """A tensor of a PyTorch tensor, by the rules of `asarray`: a copy unless copy=False."""
    if not hasattr(tensor, "detach"):
        raise _hammock.TypeError(f"from_torch: takes a torch.Tensor, not {type(tensor).__name__}")
    source = tensor.detach()
    if source.device.type != "cpu":
        if copy is False:
            raise _hammock.ValueError("from_torch: copy=False, but the tensor is not in host memory")
        source = source.cpu()
    if getattr(source, "is_conj", bool)() or getattr(source, "is_neg", bool)():
        source = source.resolve_conj().resolve_neg()
    # PyTorch does not say "read-only": its memory can always be written.
    return _hammock.from_dlpack(source, copy=False if copy is False else True)


def to_torch(tensor, *, copy=True):
    """A PyTorch tensor. Its memory is its own, unless copy=False: then it is shared, and must not be written."""
    import torch

    plain = tensor.detach()
    if copy:
        return torch.from_dlpack(_Exported(plain, True))
    return torch.from_dlpack(_Exported(plain, False))


class _Exported:
    """What torch.from_dlpack takes, with or without a copy."""

    def __init__(self, tensor, copy):
        self._tensor, self._copy = tensor, copy

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        return self._tensor.__dlpack__(max_version=max_version, copy=True if self._copy else None)

    def __dlpack_device__(self):
        return self._tensor.__dlpack_device__()
