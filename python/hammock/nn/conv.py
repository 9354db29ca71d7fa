"""Convolutions."""

import math

import hammock as hm

from . import init
from .module import Module, Parameter


def _tuple(value, count):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * count


class _Conv(Module):
    _dims, _transposed, _op = 0, False, ""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
                 padding_mode="zeros", *, output_padding=0, device=None, dtype=None):
        super().__init__()
        if in_channels % groups or out_channels % groups:
            raise hm.ValueError(f"{type(self).__name__}: {in_channels} and {out_channels} channels cannot be divided by {groups}")
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise hm.ValueError(f"{type(self).__name__}: there is no padding_mode '{padding_mode}'")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = _tuple(kernel_size, self._dims), _tuple(stride, self._dims)
        self.padding = padding if isinstance(padding, str) else _tuple(padding, self._dims)
        self.dilation, self.output_padding = _tuple(dilation, self._dims), _tuple(output_padding, self._dims)
        self.padding_mode = padding_mode
        channels = (in_channels, out_channels // groups) if self._transposed else (out_channels, in_channels // groups)
        self.weight = Parameter(hm.empty([*channels, *self.kernel_size], device=device, dtype=dtype))
        self.bias = Parameter(hm.empty([out_channels], device=device, dtype=dtype)) if bias else None
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if bias:
            fan_in = self.weight.shape[1] * math.prod(self.kernel_size)
            init.uniform_(self.bias, -1 / math.sqrt(max(fan_in, 1)), 1 / math.sqrt(max(fan_in, 1)))

    def forward(self, x):
        op = getattr(hm, self._op)
        padding = self.padding
        if self._transposed:
            return op(x, self.weight, self.bias, self.stride, padding, self.output_padding, self.groups, self.dilation)
        if self.padding_mode != "zeros":
            x = hm.pad(x, self._both_sides(), mode=self.padding_mode)
            padding = 0
        return op(x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def _both_sides(self):
        if self.padding == "valid":
            return [0, 0] * self._dims
        if self.padding == "same":
            totals = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size)]
            return [side for total in reversed(totals) for side in (total // 2, total - total // 2)]
        return [size for size in reversed(self.padding) for _ in range(2)]

    def extra_repr(self):
        return (f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
                f", padding={self.padding}")


class Conv1d(_Conv):
    _dims, _op = 1, "conv1d"


class Conv2d(_Conv):
    _dims, _op = 2, "conv2d"


class Conv3d(_Conv):
    _dims, _op = 3, "conv3d"


class _ConvTranspose(_Conv):
    _transposed = True

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True,
                 dilation=1, device=None, dtype=None):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias,
                         output_padding=output_padding, device=device, dtype=dtype)


class ConvTranspose1d(_ConvTranspose):
    _dims, _op = 1, "conv_transpose1d"


class ConvTranspose2d(_ConvTranspose):
    _dims, _op = 2, "conv_transpose2d"


class ConvTranspose3d(_ConvTranspose):
    _dims, _op = 3, "conv_transpose3d"
