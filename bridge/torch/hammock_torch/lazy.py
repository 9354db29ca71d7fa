"""PyTorch's lazy tensors (device "lazy") on Hammock."""

import torch

__all__ = ["init", "last_graph", "report"]


def init(device: str = "cpu") -> None:
    """Make device "lazy" run on a device of Hammock: "cpu", "cuda:0" or a plug-in's name.

    May be called again to change the device. PyTorch's functions (torch._lazy.mark_step, metrics,
    debug) work as with its own backend.
    """
    torch.ops.hammock.lazy_init(device)


def report() -> str:
    """What ran and fell back, why graphs were compiled, and Hammock's metrics."""
    return torch.ops.hammock.lazy_report()


def last_graph() -> str:
    """The graph that was lowered last, as TorchScript."""
    return torch.ops.hammock.lazy_last_graph()
