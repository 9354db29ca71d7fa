"""Pooling and resizing."""

from typing import TYPE_CHECKING, Any

from .activation import make_layers

_MAX = {"kernel_size": None, "stride": None, "padding": 0, "dilation": 1, "return_indices": False, "ceil_mode": False}
_AVG = {"kernel_size": None, "stride": None, "padding": 0, "ceil_mode": False, "count_include_pad": True}
__all__ = make_layers(globals(), [
    *((f"MaxPool{n}d", f"max_pool{n}d", _MAX) for n in (1, 2, 3)),
    *((f"AvgPool{n}d", f"avg_pool{n}d", _AVG) for n in (1, 2, 3)),
    *((f"AdaptiveAvgPool{n}d", f"adaptive_avg_pool{n}d", {"output_size": None}) for n in (1, 2, 3)),
    ("Upsample", "interpolate", {"size": None, "scale_factor": None, "mode": "nearest", "align_corners": None}),
    ("PixelShuffle", "pixel_shuffle", {"upscale_factor": None}),
])

if TYPE_CHECKING:  # classes that are made from a table
    def __getattr__(name: str) -> Any: ...
