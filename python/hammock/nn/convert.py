"""PyTorch's modules as Hammock's."""

import operator

import hammock as hm

from .activation import OpLayer
from .module import Module


def _kind(m):
    from .. import nn

    return getattr(nn, type(m).__name__)


def _options(*names):
    """Makes a layer of the attributes that are called as its arguments are."""
    return lambda m: _kind(m)(**{name: getattr(m, name) for name in names})


def _conv(m):
    options = {"output_padding": m.output_padding} if m.transposed else {"padding_mode": m.padding_mode}
    return _kind(m)(m.in_channels, m.out_channels, m.kernel_size, m.stride, m.padding, dilation=m.dilation, groups=m.groups,
                    bias=m.bias is not None, **options)


def _recurrent(m):
    options = {"nonlinearity": m.nonlinearity} if type(m).__name__ == "RNN" else {}
    return _kind(m)(m.input_size, m.hidden_size, m.num_layers, m.bias, m.batch_first, m.dropout, m.bidirectional, m.proj_size,
                    **options)


def _embedding(m):
    if m.max_norm is not None or m.scale_grad_by_freq:
        raise hm.NotSupported("nn.from_torch: an Embedding with max_norm or scale_grad_by_freq")
    return _kind(m)(m.num_embeddings, m.embedding_dim, m.padding_idx)


def _attention(m):
    return _kind(m)(m.embed_dim, m.num_heads, m.dropout, m.in_proj_bias is not None, m.bias_k is not None, m.add_zero_attn, m.kdim,
                    m.vdim, m.batch_first)


def _transformer_options(m):
    name = getattr(m.activation, "__name__", type(m.activation).__name__).lower()
    if name not in ("relu", "gelu") or getattr(m.activation, "approximate", "none") != "none":
        raise hm.NotSupported(f"nn.from_torch: a transformer with the activation {name}")
    return {"d_model": m.self_attn.embed_dim, "nhead": m.self_attn.num_heads, "dim_feedforward": m.linear1.out_features,
            "dropout": m.dropout.p, "activation": name, "layer_norm_eps": m.norm1.eps, "batch_first": m.self_attn.batch_first,
            "norm_first": m.norm_first, "bias": m.linear1.bias is not None}


def _stack(m):
    return _kind(m)(_made(m.layers[0], "layers.0"), len(m.layers), None if m.norm is None else _made(m.norm, "norm"))


def _transformer(m):
    return _kind(m)(num_encoder_layers=len(m.encoder.layers), num_decoder_layers=len(m.decoder.layers),
                    **_transformer_options(m.encoder.layers[0]))


_KNOWN = {
    "Linear": lambda m: _kind(m)(m.in_features, m.out_features, m.bias is not None),
    "Bilinear": lambda m: _kind(m)(m.in1_features, m.in2_features, m.out_features, m.bias is not None),
    "Identity": _options(), "Flatten": _options("start_dim", "end_dim"), "Unflatten": _options("dim", "unflattened_size"),
    **dict.fromkeys([f"Conv{way}{n}d" for way in ("", "Transpose") for n in (1, 2, 3)], _conv),
    **dict.fromkeys([f"{norm}{n}d" for norm in ("BatchNorm", "InstanceNorm") for n in (1, 2, 3)],
                    _options("num_features", "eps", "momentum", "affine", "track_running_stats")),
    **dict.fromkeys(["RNN", "GRU", "LSTM"], _recurrent),
    **dict.fromkeys(["GRUCell", "LSTMCell"], _options("input_size", "hidden_size", "bias")),
    "RNNCell": _options("input_size", "hidden_size", "bias", "nonlinearity"),
    "LayerNorm": lambda m: _kind(m)(m.normalized_shape, m.eps, m.elementwise_affine, m.bias is not None),
    "RMSNorm": _options("normalized_shape", "eps", "elementwise_affine"),
    "GroupNorm": _options("num_groups", "num_channels", "eps", "affine"),
    "Embedding": _embedding,
    "EmbeddingBag": _options("num_embeddings", "embedding_dim", "max_norm", "norm_type", "scale_grad_by_freq", "mode", "sparse",
                             "include_last_offset", "padding_idx"),
    "PReLU": _options("num_parameters"),
    **dict.fromkeys([f"{kind}Pad{n}d" for kind in ("Zero", "Reflection", "Replication", "Circular") for n in (1, 2, 3)],
                    _options("padding")),
    **dict.fromkeys([f"ConstantPad{n}d" for n in (1, 2, 3)], _options("padding", "value")),
    **dict.fromkeys([f"MaxUnpool{n}d" for n in (1, 2, 3)], _options("kernel_size", "stride", "padding")),
    "MultiheadAttention": _attention,
    **dict.fromkeys(["TransformerEncoderLayer", "TransformerDecoderLayer"], lambda m: _kind(m)(**_transformer_options(m))),
    **dict.fromkeys(["TransformerEncoder", "TransformerDecoder"], _stack), "Transformer": _transformer,
}


def _is_pytorchs(module):
    return type(module).__module__.startswith("torch.nn.modules")


def _made(module, path):
    """A module of the same kind, with values of its own."""
    from .. import nn

    name = type(module).__name__
    children = {child: f"{path}.{child}" if path else child for child, _ in module.named_children()}
    if _is_pytorchs(module) and name in ("Sequential", "ModuleList", "ModuleDict"):
        parts = {child: _made(module.get_submodule(child), where) for child, where in children.items()}
        return _kind(module)(list(parts.values()) if name == "ModuleList" else parts)
    if _is_pytorchs(module) and name in _KNOWN:
        return _KNOWN[name](module)
    own = getattr(nn, name, None)
    if _is_pytorchs(module) and isinstance(own, type) and issubclass(own, OpLayer):
        return own(**{option: _value(getattr(module, option)) for option in own._options if hasattr(module, option)})
    return _Traced(module, path)


def _value(option):
    """An option or argument as Hammock's."""
    if hasattr(option, "detach"):
        return hm.from_torch(option)
    kind = type(option).__name__ if type(option).__module__ == "torch" else ""
    if kind == "dtype":
        return getattr(hm, str(option).split(".")[-1])
    return str(option) if kind == "device" else option


class _Result(int):
    """The result of a step, by its number."""


def _mapped(value, leaf):
    """`value` with `leaf` applied to what is in its lists, tuples, dicts and slices."""
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(item, leaf) for item in value)
    if isinstance(value, dict):
        return {key: _mapped(item, leaf) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*(_mapped(part, leaf) for part in (value.start, value.stop, value.step)))
    return leaf(value)


def _function_of(node, where):
    if getattr(node.target, "__module__", "") in ("_operator", "builtins", "math"):
        return node.target
    name = getattr(node.target, "__name__", str(node.target))
    function = hm._hammock.find_op(name)
    if function is None:
        raise hm.NotSupported(f"nn.from_torch: {where} calls {name}, which is no op of Hammock")
    return function


class _Traced(Module):
    """A module with a forward of its own: the calls that torch.fx finds in it, each by its name here."""

    def __init__(self, module, path):
        super().__init__()
        where = f"{type(module).__name__} at '{path}'" if path else type(module).__name__
        self._steps = self._steps_of(module, where)
        for name, child in module.named_children():
            setattr(self, name, _made(child, f"{path}.{name}" if path else name))
        for name, parameter in module.named_parameters(recurse=False):
            setattr(self, name, hm.nn.Parameter(hm.from_torch(parameter), parameter.requires_grad))
        for name, buffer in module.named_buffers(recurse=False):
            self.register_buffer(name, hm.from_torch(buffer), name not in module._non_persistent_buffers_set)
        for kind, target, *_ in self._steps:  # plain tensors, also those of numbers in the forward, which the tracer has put there
            if kind == "get_attr" and "." not in target and not hasattr(self, target):
                self.register_buffer(target, hm.from_torch(getattr(module, target)), False)

    @staticmethod
    def _steps_of(module, where):
        """(kind, target, arguments, named arguments) of each call."""
        from torch import fx

        try:
            nodes = list(fx.Tracer().trace(module).nodes)
        except Exception as error:
            raise hm.NotSupported(f"nn.from_torch: {where} is no layer that Hammock knows, and torch.fx cannot trace its forward: "
                                  f"{error}") from error
        numbers = {node: _Result(number) for number, node in enumerate(nodes)}

        def ours(value):
            return numbers[value] if isinstance(value, fx.Node) else _value(value)

        steps = []
        for node in nodes:
            target = _function_of(node, where) if node.op == "call_function" else node.target
            named = {name: _mapped(value, ours) for name, value in node.kwargs.items() if name != "inplace"}
            steps.append((node.op, target, _mapped(tuple(node.args), ours), named))
        return steps

    def _run(self, kind, target, args, kwargs):
        if kind == "call_function":
            return target(*args, **kwargs)
        if kind == "call_method":
            return getattr(args[0], target)(*args[1:], **kwargs)
        found = operator.attrgetter(target)(self)
        return found(*args, **kwargs) if kind == "call_module" else found

    def forward(self, *args, **kwargs):
        results, given = [], iter(args)
        for kind, target, step_args, step_kwargs in self._steps:
            own_args, own_kwargs = _mapped((step_args, step_kwargs), lambda x: results[x] if isinstance(x, _Result) else x)
            if kind == "output":
                return own_args[0]
            if kind == "placeholder":
                results.append(next(given, kwargs.get(target, own_args[0] if own_args else None)))
            else:
                results.append(self._run(kind, target, own_args, own_kwargs))


def from_torch(module):
    """A Hammock module with the weights and mode of a PyTorch module of known layers. A forward of its own is taken over call
    by call, as torch.fx traces it: branches are those of the module's present mode."""
    made = _made(module, "")
    made.load_state_dict(module.state_dict())
    ours = dict(made.named_modules())
    for path, theirs in module.named_modules():
        if path in ours:
            object.__setattr__(ours[path], "training", theirs.training)
    return made
