"""Device "hammock": tensors whose ops Hammock records and runs when a value is needed.

>>> import torch, hammock_torch.device
>>> x = torch.arange(3.0, device="hammock")
>>> (x * 2).sum().item()
6.0

Importing this module registers the device and makes it `torch.hammock`. HAMMOCK_DEVICE says which
device of Hammock it is: "cpu", "cuda:0", "reference" or that of a library in HAMMOCK_LOAD.
"""

import functools
import sys

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from . import _device

__all__ = [
    "current_device",
    "default_generators",
    "device",
    "device_count",
    "device_name",
    "empty_cache",
    "get_amp_supported_dtype",
    "get_rng_state",
    "is_available",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "mark_step",
    "max_memory_allocated",
    "memory_allocated",
    "seed",
    "set_device",
    "set_rng_state",
    "synchronize",
]

_ops = torch.ops.hammock


def is_available() -> bool:
    """Whether Hammock has the device that HAMMOCK_DEVICE names."""
    return device_count() > 0


def is_initialized() -> bool:
    """Always: importing the module registers the device."""
    return True


def _is_in_bad_fork() -> bool:
    return False


def device_count() -> int:
    """The devices of the kind that HAMMOCK_DEVICE names."""
    return _ops.device_count()


def current_device() -> int:
    """The index that "hammock" without one stands for, on this thread."""
    return torch._C._accelerator_getDeviceIndex()


def set_device(device) -> None:
    """Change what current_device gives."""
    index = torch.device(device).index if not isinstance(device, int) else device
    torch._C._accelerator_setDeviceIndex(0 if index is None else index)


class device:
    """`with torch.hammock.device(1):` changes the current device for a while."""

    def __init__(self, device):
        self.index = device if isinstance(device, int) else torch.device(device).index

    def __enter__(self):
        self.before = current_device()
        set_device(self.index or 0)

    def __exit__(self, *exception):
        set_device(self.before)
        return False


def device_name(index: int = 0) -> str:
    """Hammock's name of a device: "cpu", "cuda:1"."""
    return _ops.device_name(index)


def mark_step(wait: bool = False) -> None:
    """Start what was recorded on this thread. torch.optim's steps end with it."""
    _ops.device_mark_step(wait)


def synchronize(device=None) -> None:
    """Run what all threads have recorded, and wait for it."""
    torch._C._accelerator_synchronizeDevice(
        current_device() if device is None else torch.device(device).index or 0
    )


def memory_allocated(index: int = 0) -> int:
    """Bytes that live values take."""
    return _ops.device_memory(index)[0]


def max_memory_allocated(index: int = 0) -> int:
    """The most bytes that live values took."""
    return _ops.device_memory(index)[1]


def empty_cache() -> None:
    """Nothing to do: Hammock frees its caches when memory runs out."""


# Random numbers are those of PyTorch's CPU generator: a seed gives what it gives on the CPU.


def manual_seed(seed: int) -> None:
    """Seed the generator, which is the CPU's."""
    torch.default_generator.manual_seed(int(seed))


manual_seed_all = manual_seed


def seed() -> int:
    """A seed by chance."""
    return torch.default_generator.seed()


def get_rng_state(device="hammock") -> torch.Tensor:
    """The state of the generator."""
    return torch.default_generator.get_state()


def set_rng_state(state: torch.Tensor, device="hammock") -> None:
    """Go on from that state."""
    torch.default_generator.set_state(state)


def get_amp_supported_dtype() -> list:
    """The dtypes that torch.autocast("hammock") may compute in."""
    return [torch.bfloat16, torch.float16]


def _register() -> None:
    torch.utils.rename_privateuse1_backend("hammock")
    _ops.device_init()
    torch._register_device_module("hammock", sys.modules[__name__])
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    register_optimizer_step_post_hook(_after_step)
    _wrap(torch._tensor_str, "_tensor_str", _printed_on_cpu)
    _wrap(torch.Tensor, "__dlpack__", _exported_by_cpu)
    _wrap(torch.Tensor, "__dlpack_device__", _exported_by_cpu)
    _wrap(torch.Tensor, "data_ptr", _computed_first)
    _wrap(torch.nn.Module, "_apply", _keeping_parameters)
    _device.name_lines(torch.__path__[0])


def _after_step(optimizer, args, kwargs) -> None:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.device.type == "hammock":
                mark_step()
                return


def _wrap(owner, name, make) -> None:
    setattr(owner, name, make(getattr(owner, name)))


def _exported_by_cpu(original):
    """Other libraries get the values in memory of the CPU."""

    @functools.wraps(original)
    def export(self, *args, **kwargs):
        return original(
            self.cpu() if self.device.type == "hammock" else self, *args, **kwargs
        )

    return export


def _computed_first(original):
    """An address is asked for to look at memory, so that the values must be there."""

    @functools.wraps(original)
    def data_ptr(self):
        # Tensors of tracing only say that they are of the device.
        is_plain = type(self).__torch_dispatch__ is torch.Tensor.__torch_dispatch__
        if is_plain and self.device.type == "hammock":
            _ops.device_compute(self)
        return original(self)

    return data_ptr


def _keeping_parameters(original):
    """Parameters that move from or to the device stay the objects that optimisers and tied modules
    hold. PyTorch puts new ones in their place where the class of tensors in C++ changes."""

    @functools.wraps(original)
    def _apply(self, fn, recurse=True):
        before = list(self._parameters.items())
        original(self, fn, recurse)
        for name, parameter in before:
            moved = self._parameters[name]
            if moved is parameter or "hammock" not in (parameter.device.type, moved.device.type):
                continue
            self._parameters[name] = parameter
            if moved.device != parameter.device:  # not yet, under another name
                _move(f"{type(self).__name__}.{name}", parameter, moved)
        return self

    return _apply


def _move(name, parameter, moved) -> None:
    """`parameter` gets what `moved` has, and keeps its attributes and hooks."""
    where = moved.device
    moved.__dict__.update(parameter.__dict__)
    for hooks in ("_backward_hooks", "_post_accumulate_grad_hooks"):
        if getattr(parameter, hooks):
            setattr(moved, hooks, getattr(parameter, hooks))
    try:
        torch.utils.swap_tensors(parameter, moved)
    except RuntimeError as error:
        raise RuntimeError(
            f"{name} cannot move to {where}, because a weak reference or a C++ object holds it: "
            "move the module before it is compiled, and not between forward and backward"
        ) from error


def _printed_on_cpu(original):
    """Printing picks elements one by one, which would compile a graph for each."""

    def _tensor_str(self, indent):
        return original(self.cpu() if self.device.type == "hammock" else self, indent)

    return _tensor_str


_register()

default_generators = (torch.default_generator,)
