"""Activations and dropout: modules of one op, made from a table of their options."""

from typing import TYPE_CHECKING, Any

import hammock as hm

from .module import Module, Parameter


class OpLayer(Module):
    """Calls an op with options that are given once. Options that are tensors are buffers."""

    _op = ""
    _options: dict[str, Any] = {}
    _fixed: dict[str, Any] = {}
    _training = False

    def __init__(self, *args, **kwargs):
        super().__init__()
        names = list(self._options)
        if len(args) > len(names):
            raise hm.TypeError(f"{type(self).__name__}: takes at most {len(names)} arguments: {', '.join(names)}")
        given = {**dict(zip(names, args)), **kwargs}
        given.pop("inplace", None)
        for name in given:
            if name not in self._options:
                raise hm.TypeError(f"{type(self).__name__}: there is no argument '{name}'; there are: {', '.join(names) or 'none'}")
        self.options = {**self._options, **given}
        for name in [name for name, value in self.options.items() if isinstance(value, hm.Tensor)]:
            self.register_buffer(name, self.options.pop(name))

    def __getattr__(self, name):
        options = self.__dict__.get("options", {})
        return options[name] if name in options else super().__getattr__(name)

    def forward(self, *inputs, **more):
        options = {**self._fixed, **self.options, **self._buffers, **more}
        options = {name: value for name, value in options.items() if value is not None}
        if self._training:
            options["training"] = self.training
        return getattr(hm, self._op)(*inputs, **options)

    def extra_repr(self):
        return ", ".join(f"{name}={value!r}" for name, value in self.options.items())


def make_layers(module, table, **attributes):
    """Adds a class for each line of the table: name, op, options with their defaults, and arguments that no user gives."""
    for name, op, options, *fixed in table:
        made = type(name, (OpLayer,), {"_op": op, "_options": options, "_fixed": fixed[0] if fixed else {},
                                       "__module__": module["__name__"], "__doc__": f"The op `{op}` as a module.", **attributes})
        module[name] = made
    return [name for name, *_ in table]


__all__ = ["PReLU"] + make_layers(globals(), [
    ("ReLU", "relu", {}), ("ReLU6", "relu6", {}), ("GELU", "gelu", {"approximate": "none"}), ("SiLU", "silu", {}),
    ("ELU", "elu", {"alpha": 1.0}), ("CELU", "celu", {"alpha": 1.0}), ("SELU", "selu", {}), ("Mish", "mish", {}),
    ("LeakyReLU", "leaky_relu", {"negative_slope": 0.01}), ("Softplus", "softplus", {"beta": 1, "threshold": 20}),
    ("Softsign", "softsign", {}), ("Tanh", "tanh", {}), ("Sigmoid", "sigmoid", {}), ("LogSigmoid", "logsigmoid", {}),
    ("Hardtanh", "hardtanh", {"min_val": -1.0, "max_val": 1.0}), ("Hardswish", "hardswish", {}),
    ("Hardsigmoid", "hardsigmoid", {}), ("Softmax", "softmax", {"dim": -1}), ("LogSoftmax", "log_softmax", {"dim": -1}),
    ("GLU", "glu", {"dim": -1}), ("Softmin", "softmin", {"dim": -1}), ("Softmax2d", "softmax", {}, {"dim": -3}),
    ("Hardshrink", "hardshrink", {"lambd": 0.5}), ("Softshrink", "softshrink", {"lambd": 0.5}), ("Tanhshrink", "tanhshrink", {}),
    ("Threshold", "threshold", {"threshold": None, "value": None}),
]) + make_layers(globals(), [
    *((f"Dropout{n}d", f"dropout{n}d", {"p": 0.5}) for n in (1, 2, 3)),
    ("Dropout", "dropout", {"p": 0.5}), ("AlphaDropout", "alpha_dropout", {"p": 0.5}),
    ("FeatureAlphaDropout", "feature_alpha_dropout", {"p": 0.5}), ("RReLU", "rrelu", {"lower": 1 / 8, "upper": 1 / 3}),
], _training=True)


class PReLU(Module):
    """`leaky_relu` whose slope is trained."""

    def __init__(self, num_parameters=1, init=0.25):
        super().__init__()
        self.weight = Parameter(hm.full([num_parameters], init))

    def forward(self, x):
        return hm.prelu(x, self.weight)


if TYPE_CHECKING:  # classes that are made from a table
    def __getattr__(name: str) -> Any: ...
