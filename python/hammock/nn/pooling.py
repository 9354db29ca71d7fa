"""Pooling, resizing, padding, and other layers that move elements."""

from typing import TYPE_CHECKING, Any

import hammock as hm

from .activation import make_layers
from .module import Module

_MAX = {"kernel_size": None, "stride": None, "padding": 0, "dilation": 1, "return_indices": False, "ceil_mode": False}
_AVG = {"kernel_size": None, "stride": None, "padding": 0, "ceil_mode": False, "count_include_pad": True}
_POWER = {"norm_type": None, "kernel_size": None, "stride": None, "ceil_mode": False}
_FRACTIONAL = {"kernel_size": None, "output_size": None, "output_ratio": None, "return_indices": False, "_random_samples": None}
_WINDOW = {"kernel_size": None, "dilation": 1, "padding": 0, "stride": 1}
_SIZE = {"size": None, "scale_factor": None}
__all__ = make_layers(globals(), [
    *((f"MaxPool{n}d", f"max_pool{n}d", _MAX) for n in (1, 2, 3)),
    *((f"AvgPool{n}d", f"avg_pool{n}d", _AVG) for n in (1, 2, 3)),
    *((f"LPPool{n}d", f"lp_pool{n}d", _POWER) for n in (1, 2, 3)),
    *((f"AdaptiveAvgPool{n}d", f"adaptive_avg_pool{n}d", {"output_size": None}) for n in (1, 2, 3)),
    *((f"AdaptiveMaxPool{n}d", f"adaptive_max_pool{n}d", {"output_size": None, "return_indices": False}) for n in (1, 2, 3)),
    *((f"FractionalMaxPool{n}d", f"fractional_max_pool{n}d", _FRACTIONAL) for n in (2, 3)),
    ("Upsample", "interpolate", {**_SIZE, "mode": "nearest", "align_corners": None}),
    ("UpsamplingNearest2d", "interpolate", _SIZE, {"mode": "nearest"}),
    ("UpsamplingBilinear2d", "interpolate", _SIZE, {"mode": "bilinear", "align_corners": True}),
    ("PixelShuffle", "pixel_shuffle", {"upscale_factor": None}), ("PixelUnshuffle", "pixel_unshuffle", {"downscale_factor": None}),
    ("ChannelShuffle", "channel_shuffle", {"groups": None}),
    ("Unfold", "im2col", _WINDOW), ("Fold", "fold", {"output_size": None, **_WINDOW}),
])


class _MaxUnpool(Module):
    """Puts the results of a max pool back to where `indices` say, among zeros."""

    _op = ""

    def __init__(self, kernel_size, stride=None, padding=0):
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding

    def forward(self, x, indices, output_size=None):
        return getattr(hm, self._op)(x, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self):
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _Pad(Module):
    """Elements around the last dims: one number for all sides, or two for each dim, the last dim first."""

    _dims, _mode, _value = 0, "", None

    def __init__(self, padding):
        super().__init__()
        self.padding = (padding,) * (2 * self._dims) if isinstance(padding, int) else tuple(padding)

    def forward(self, x):
        return hm.pad(x, self.padding, self._mode, self._value)

    def extra_repr(self):
        return f"{self.padding}"


class _ConstantPad(_Pad):
    def __init__(self, padding, value):
        super().__init__(padding)
        self.value = self._value = value


def _make(name, base, **attributes):
    globals()[name] = type(name, (base,), {"__module__": __name__, "__doc__": base.__doc__, **attributes})
    __all__.append(name)


for _n in (1, 2, 3):
    _make(f"MaxUnpool{_n}d", _MaxUnpool, _op=f"max_unpool{_n}d")
    _make(f"ConstantPad{_n}d", _ConstantPad, _dims=_n, _mode="constant")
    _make(f"ZeroPad{_n}d", _Pad, _dims=_n, _mode="constant", _value=0)
    for _name, _mode in (("Reflection", "reflect"), ("Replication", "replicate"), ("Circular", "circular")):
        _make(f"{_name}Pad{_n}d", _Pad, _dims=_n, _mode=_mode)

if TYPE_CHECKING:  # classes that are made from a table
    def __getattr__(name: str) -> Any: ...
