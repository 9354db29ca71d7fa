"""PyTorch's modules as Hammock's."""

import hammock as hm


def _linear(m, nn):
    return nn.Linear(m.in_features, m.out_features, m.bias is not None)


def _conv(m, nn):
    made = getattr(nn, type(m).__name__)
    options = {"padding_mode": m.padding_mode}
    if m.transposed:
        options = {"output_padding": m.output_padding}
    return made(m.in_channels, m.out_channels, m.kernel_size, m.stride, m.padding, dilation=m.dilation, groups=m.groups,
                bias=m.bias is not None, **options)


def _batch_norm(m, nn):
    return getattr(nn, type(m).__name__)(m.num_features, m.eps, m.momentum, m.affine, m.track_running_stats)


def _recurrent(m, nn):
    options = {"nonlinearity": m.nonlinearity} if type(m).__name__ == "RNN" else {}
    return getattr(nn, type(m).__name__)(m.input_size, m.hidden_size, m.num_layers, m.bias, m.batch_first, m.dropout,
                                         m.bidirectional, **options)


def _options(*names):
    return lambda m, nn: getattr(nn, type(m).__name__)(**{name: getattr(m, name) for name in names})


_KNOWN = {
    "Linear": _linear, "Identity": _options(), "Flatten": _options("start_dim", "end_dim"),
    **dict.fromkeys(["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"], _conv),
    **dict.fromkeys([f"{kind}{n}d" for kind in ("BatchNorm", "InstanceNorm") for n in (1, 2, 3)], _batch_norm),
    **dict.fromkeys(["RNN", "GRU", "LSTM"], _recurrent),
    "LayerNorm": lambda m, nn: nn.LayerNorm(m.normalized_shape, m.eps, m.elementwise_affine, m.bias is not None),
    "RMSNorm": lambda m, nn: nn.RMSNorm(m.normalized_shape, m.eps, m.elementwise_affine),
    "GroupNorm": lambda m, nn: nn.GroupNorm(m.num_groups, m.num_channels, m.eps, m.affine),
    "Embedding": lambda m, nn: nn.Embedding(m.num_embeddings, m.embedding_dim, m.padding_idx),
    "Dropout": _options("p"), "PReLU": lambda m, nn: nn.PReLU(m.num_parameters),
    **dict.fromkeys(["ReLU", "ReLU6", "SiLU", "Mish", "SELU", "Tanh", "Sigmoid", "LogSigmoid", "Softsign", "Hardswish",
                     "Hardsigmoid"], _options()),
    "GELU": _options("approximate"), "ELU": _options("alpha"), "CELU": _options("alpha"),
    "LeakyReLU": _options("negative_slope"), "Softplus": _options("beta", "threshold"),
    "Hardtanh": _options("min_val", "max_val"), "Softmax": _options("dim"), "LogSoftmax": _options("dim"), "GLU": _options("dim"),
    **dict.fromkeys([f"MaxPool{n}d" for n in (1, 2, 3)],
                    _options("kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode")),
    **dict.fromkeys([f"AvgPool{n}d" for n in (1, 2, 3)],
                    _options("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad")),
    **dict.fromkeys([f"AdaptiveAvgPool{n}d" for n in (1, 2, 3)], _options("output_size")),
}


def _converted(module, path):
    from .. import nn

    kind = type(module).__name__
    if kind == "Sequential":
        return nn.Sequential({name: _converted(child, f"{path}.{name}") for name, child in module.named_children()})
    if kind == "ModuleList":
        return nn.ModuleList([_converted(child, f"{path}.{name}") for name, child in module.named_children()])
    make = _KNOWN.get(kind)
    if make is None or not type(module).__module__.startswith("torch.nn"):
        raise hm.NotSupported(f"nn.from_torch: {kind} at '{path.lstrip('.')}' is no layer that Hammock knows; convert its parts "
                              "and write its forward")
    return make(module, nn)


def from_torch(module):
    """A Hammock module with the weights and mode of a PyTorch module of known layers, in Sequentials and lists."""
    made = _converted(module, "")
    made.load_state_dict(module.state_dict())
    for (_, ours), (_, theirs) in zip(made.named_modules(), module.named_modules()):
        object.__setattr__(ours, "training", theirs.training)
    return made
