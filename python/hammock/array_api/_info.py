"""What the namespace is capable of."""

from .. import _hammock
from ._array import kinds


class Info:
    """What `__array_namespace_info__()` returns."""

    def capabilities(self):
        """What the standard leaves open."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 8}

    def default_device(self):
        """Where arrays are made unless a device is named."""
        return _hammock.default_device()

    def default_dtypes(self, *, device=None):
        """The dtypes of results that no argument says."""
        return {
            "real floating": _hammock.float32,
            "complex floating": _hammock.complex64,
            "integral": _hammock.int64,
            "indexing": _hammock.int64,
        }

    def dtypes(self, *, device=None, kind=None):
        """The dtypes of a kind, or of several, by name."""
        if kind is None:
            kind = ("bool", "numeric")
        wanted = (kind,) if isinstance(kind, str) else kind
        unknown = [name for name in wanted if name not in kinds]
        if unknown:
            raise _hammock.ValueError(f"dtypes: no kind '{unknown[0]}'; kinds are {', '.join(kinds)}")
        return {dtype.name: dtype for name in wanted for dtype in kinds[name]}

    def devices(self):
        """All devices."""
        return tuple(_hammock.devices())
