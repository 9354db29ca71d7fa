"""Signals: `hm.signal.windows`, by the names of torch.signal."""

from . import windows

__all__ = ["windows"]
