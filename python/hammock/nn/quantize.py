"""Quantised layers, and the pass that makes them of trained ones.

Weights alone, for models that are bound by the memory of their weights:

    nn.quantize_(model, dtype=hm.int4, group=64)

Activations too, as bytes times bytes, after their ranges were observed:

    with nn.Calibration(model) as calibration:
        for batch in batches:
            model(batch)
    nn.quantize_(model, calibration=calibration)
"""

import hammock as hm

from .. import _hammock
from .._hammock import MinMaxObserver
from .conv import _Conv, _ConvTranspose
from .linear import Linear
from .module import Module


class Calibration:
    """Observes the inputs of every Linear and convolution of a model until `stop`, the end of a `with` block, or its use."""

    def __init__(self, model, momentum=1.0):
        self._observers, self._handles = {}, []
        for name, module in model.named_modules():
            if isinstance(module, (Linear, _Conv)):
                observer = MinMaxObserver(momentum)
                self._observers[name] = observer
                self._handles.append(module.register_forward_pre_hook(_observing(observer)))

    def find(self, name):
        """The observer of a layer, by dotted name; None for layers without one."""
        return self._observers.get(name)

    def stop(self):
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.stop()


def _observing(observer):
    def observe(module, args):
        if not args:
            raise hm.ValueError(f"Calibration: {type(module).__name__} is called with its input by name; give it by position")
        observer.observe(args[0])

    return observe


_ZEROS = {hm.uint8: 128, hm.uint4: 8, hm.uint2: 2}  # unsigned weights have their zero in the middle
_LIKENED = {hm.uint8: hm.int8, hm.uint4: hm.int4, hm.uint2: hm.int2}
_BITS = {hm.int4: 4, hm.uint4: 4, hm.int2: 2, hm.uint2: 2}


class QuantizedLinear(Module):
    """y = quantized_linear(x, weight, scale, zero_point, bias). `group` elements of a row share a scale; 0: the whole row."""

    def __init__(self, linear, dtype=hm.int8, group=0):
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        each = self.in_features if group == 0 else group
        if each < 1 or self.in_features % each:
            raise hm.ValueError(f"QuantizedLinear: rows of {self.in_features} cannot be parted into groups of {group}")
        with hm.no_grad():
            weight = linear.weight.detach()
            scale = _hammock.quantization_scale(weight, [self.out_features, self.in_features // each], _LIKENED.get(dtype, dtype))
            # A scale is rounded before it is used: what is stored is what quantised.
            scale = scale.to(hm.float32 if weight.dtype is hm.float64 else weight.dtype)
            zero = hm.full([], _ZEROS[dtype], dtype=hm.int32, device=weight.device) if dtype in _ZEROS else None
            self.register_buffer("weight", hm.quantize(weight, scale, zero, dtype=dtype))
        self.register_buffer("scale", scale)
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach())

    def forward(self, x):
        zero = None
        if self.weight.dtype in _ZEROS:
            zero = hm.full(self.scale.shape, _ZEROS[self.weight.dtype], dtype=hm.uint8, device=self.scale.device)
        return hm.quantized_linear(x, self.weight, self.scale, zero, self.bias)

    def extra_repr(self):
        groups = self.scale.shape[-1]
        shared = f", group={self.in_features // groups}" if groups > 1 else ""
        return f"in_features={self.in_features}, out_features={self.out_features}, weight={self.weight.dtype.short_name}{shared}"


class _Bytes(Module):
    """Bytes times bytes, summed in int32: the input is quantised by a scale that was observed, the weight by one a row."""

    def __init__(self, layer, observer, of_results):
        super().__init__()
        weight = layer.weight.detach()
        with hm.no_grad():
            scale = _hammock.quantization_scale(weight, [weight.shape[0]] + [1] * (weight.ndim - 1), hm.int8)
            self.register_buffer("weight", hm.quantize(weight, scale, None, dtype=hm.int8))
            self.register_buffer("scale", scale.reshape(of_results))
            input_scale, input_zero = observer.scale(hm.uint8)
        self.register_buffer("input_scale", input_scale)
        self.register_buffer("input_zero", input_zero)
        self.register_buffer("bias", None if layer.bias is None else layer.bias.detach().reshape(of_results))

    def _quantized(self, x):
        return hm.quantize(x, self.input_scale, self.input_zero, dtype=hm.uint8)

    def _scaled(self, sums):
        result = sums.to(hm.float32) * (self.scale.to(hm.float32) * self.input_scale)
        return result if self.bias is None else result + self.bias.to(hm.float32)


class ByteLinear(_Bytes):
    """A Linear of bytes."""

    def __init__(self, linear, observer):
        super().__init__(linear, observer, [linear.out_features])
        self.in_features, self.out_features = linear.in_features, linear.out_features

    def forward(self, x):
        rows = self._quantized(x.reshape([-1, self.in_features]))
        result = self._scaled(hm.int_matmul(rows, self.weight.t(), self.input_zero))
        return result.to(x.dtype).reshape([*x.shape[:-1], self.out_features])

    def extra_repr(self):
        return f"in_features={self.in_features}, out_features={self.out_features}"


class ByteConv(_Bytes):
    """A convolution of bytes, whose padding is zeros."""

    def __init__(self, conv, observer):
        super().__init__(conv, observer, [1, conv.out_channels] + [1] * conv._dims)
        self.in_channels, self.out_channels, self.groups = conv.in_channels, conv.out_channels, conv.groups
        self.stride, self.padding, self.dilation = conv.stride, conv.padding, conv.dilation

    def forward(self, x):
        batched = x.ndim == self.weight.ndim
        given = self._quantized(x if batched else x.unsqueeze(0))
        result = self._scaled(hm.int_convolution(given, self.weight, self.input_zero, None, self.stride, self.padding,
                                                 self.dilation, self.groups))
        return (result if batched else result.squeeze(0)).to(x.dtype)

    def extra_repr(self):
        return f"{self.in_channels}, {self.out_channels}, groups={self.groups}"


def _is_byte_conv(module):
    return (isinstance(module, _Conv) and not isinstance(module, _ConvTranspose) and module.padding_mode == "zeros"
            and not isinstance(module.padding, str))


def _quantized_form(name, module, dtype, group, calibration, keep):
    """None where the layer stays as it is."""
    if keep is not None and keep(name, module):
        return None
    observer = calibration.find(name) if calibration is not None else None
    observed = observer is not None and not observer.empty
    if observed and _is_byte_conv(module):
        return ByteConv(module, observer)
    if not isinstance(module, Linear):
        return None
    if observed:
        return ByteLinear(module, observer)
    if group > 0 and module.in_features % group or module.in_features % (8 // _BITS.get(dtype, 8)):
        return None
    return QuantizedLinear(module, dtype, group)


def quantize_(model, dtype=hm.int8, group=0, calibration=None, keep=None):
    """Replaces the Linear layers below `model`, and convolutions that a calibration observed, by quantised ones, and returns the
    names of those that it replaced.

    `dtype` of weights is int8, uint8, int4, uint4, int2, uint2 or a float8; `group` elements of a row share a scale (0: the whole row);
    layers whose rows do not divide into groups stay. With a `calibration`, layers that it observed compute with bytes.
    `keep(name, layer)` says whether a layer stays as it is.

    >>> import hammock as hm
    >>> net = hm.nn.Sequential(hm.nn.Linear(64, 8), hm.nn.ReLU(), hm.nn.Linear(8, 2))
    >>> hm.nn.quantize_(net, dtype=hm.int4, group=32)
    ['0']
    >>> net[0]
    QuantizedLinear(in_features=64, out_features=8, weight=i4, group=32)
    """
    if not isinstance(dtype, hm.dtype):
        raise hm.TypeError(f"quantize_: dtype must be a dtype such as hammock.int8, not {type(dtype).__name__}")
    if calibration is not None:
        calibration.stop()
    replaced, forms = [], {}
    for name, module in list(model.named_modules()):
        if not name:
            continue
        form = _quantized_form(name, module, dtype, group, calibration, keep)
        if form is not None:
            forms[id(module)] = form.train(module.training)
            replaced.append(name)
    for holder in list(model.modules()):
        for name, child in holder.named_children():
            if id(child) in forms:
                holder._replace_module(name, forms[id(child)])
    return replaced
