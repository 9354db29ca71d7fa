"""Activations and dropout: modules of one op, made from a table of their options."""

from typing import TYPE_CHECKING, Any

import hammock as hm

from .module import Module, Parameter


class _OpLayer(Module):
    """Calls an op with options that are given once."""

    _op = ""
    _options: dict[str, Any] = {}
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

    def __getattr__(self, name):
        options = self.__dict__.get("options", {})
        return options[name] if name in options else super().__getattr__(name)

    def forward(self, *inputs):
        options = {name: value for name, value in self.options.items() if value is not None}
        if self._training:
            options["training"] = self.training
        return getattr(hm, self._op)(*inputs, **options)

    def extra_repr(self):
        return ", ".join(f"{name}={value!r}" for name, value in self.options.items())


def make_layers(module, table, **attributes):
    """Adds a class for each line of the table: name, op, options."""
    for name, op, options in table:
        made = type(name, (_OpLayer,), {"_op": op, "_options": options, "__module__": module["__name__"],
                                        "__doc__": f"The op `{op}` as a module.", **attributes})
        module[name] = made
    return [name for name, _, _ in table]


__all__ = ["PReLU"] + make_layers(globals(), [
    ("ReLU", "relu", {}), ("ReLU6", "relu6", {}), ("GELU", "gelu", {"approximate": "none"}), ("SiLU", "silu", {}),
    ("ELU", "elu", {"alpha": 1.0}), ("CELU", "celu", {"alpha": 1.0}), ("SELU", "selu", {}), ("Mish", "mish", {}),
    ("LeakyReLU", "leaky_relu", {"negative_slope": 0.01}), ("Softplus", "softplus", {"beta": 1, "threshold": 20}),
    ("Softsign", "softsign", {}), ("Tanh", "tanh", {}), ("Sigmoid", "sigmoid", {}), ("LogSigmoid", "logsigmoid", {}),
    ("Hardtanh", "hardtanh", {"min_val": -1.0, "max_val": 1.0}), ("Hardswish", "hardswish", {}),
    ("Hardsigmoid", "hardsigmoid", {}), ("Softmax", "softmax", {"dim": -1}), ("LogSoftmax", "log_softmax", {"dim": -1}),
    ("GLU", "glu", {"dim": -1}),
]) + make_layers(globals(), [("Dropout", "dropout", {"p": 0.5})], _training=True)


class PReLU(Module):
    """`leaky_relu` whose slope is trained."""

    def __init__(self, num_parameters=1, init=0.25):
        super().__init__()
        self.weight = Parameter(hm.full([num_parameters], init))

    def forward(self, x):
        return hm.prelu(x, self.weight)

if TYPE_CHECKING:  # classes that are made from a table
    def __getattr__(name: str) -> Any: ...
