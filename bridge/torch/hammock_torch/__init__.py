"""PyTorch on Hammock: lazy tensors, the delegate "hammock" and torch.compile(backend="hammock").

>>> import torch, hammock_torch
>>> hammock_torch.lazy.init()
>>> (torch.ones(3, device="lazy") + 1).cpu()
tensor([2., 2., 2.])
"""

import ctypes as _ctypes
import os as _os

import torch as _torch

from ._build_info import libhammock as _libhammock, torch_version as _built_for

if not _torch.__version__.startswith(_built_for + "."):
    raise ImportError(
        f"hammock_torch was built for PyTorch {_built_for} and does not work with "
        f"{_torch.__version__}: install it again with `pip install ./bridge/torch`"
    )

# By itself first: PyTorch contains a oneDNN of its own, whose symbols must not take the place of
# those that Hammock's was built with.
_ctypes.CDLL(_libhammock)
_torch.ops.load_library(
    _os.path.join(_os.path.dirname(__file__), "libhammock_torch.so")
)

from . import lazy  # noqa: E402

__all__ = ["fallbacks", "lazy", "reset_fallbacks", "set_strict", "strict"]


def set_strict(strict: bool = True) -> None:
    """Raise where an op would run by PyTorch on the CPU. At first from HAMMOCK_TORCH_STRICT."""
    _torch.ops.hammock.set_strict(strict)


def strict() -> bool:
    """Whether strict mode is on."""
    return _torch.ops.hammock.is_strict()


def fallbacks() -> dict:
    """How often which op ran by PyTorch on the CPU."""
    return dict(_torch.ops.hammock.fallback_counts())


def reset_fallbacks() -> None:
    """Count anew."""
    _torch.ops.hammock.reset_fallback_counts()
