"""Parametrisations: parameters of a module that are computed from others at each use."""

import hammock as hm

from ..module import Module, Parameter


class ParametrizationList(Module):
    """The originals of a parameter, and the modules that compute it from them, one after another."""

    def __init__(self, original, requires_grad=True):
        super().__init__()
        self._count = 0
        several = isinstance(original, (tuple, list))
        self._originals = [f"original{i}" for i in range(len(original))] if several else ["original"]
        for name, value in zip(self._originals, original if several else [original]):
            setattr(self, name, Parameter(value.detach(), requires_grad))

    def append(self, parametrization):
        self.register_module(str(self._count), parametrization)
        self._count += 1

    def forward(self):
        modules = list(self._modules.values())
        value = modules[0](*(getattr(self, name) for name in self._originals))
        for module in modules[1:]:
            value = module(value)
        return value


def is_parametrized(module, name=None):
    """Whether a parameter of the module, or any, is computed from others."""
    lists = module._modules.get("parametrizations")
    return lists is not None and (name is None or name in lists._modules)


def _computed(name):
    """The attribute `name`. Copies of a module share its class, and some of them may have it as a parameter of their own."""

    def value(self):
        return self.parametrizations._modules[name]() if is_parametrized(self, name) else Module.__getattr__(self, name)

    return property(value)


def register_parametrization(module, name, parametrization):
    """`module.name` is `parametrization(original)` from now on, whose original is trained in its stead. A `right_inverse` of the
    parametrisation gives the original, or several, for the present value."""
    if is_parametrized(module, name):
        module.parametrizations._modules[name].append(parametrization)
        return module
    value = module._parameters.get(name)
    if value is None:
        raise hm.ValueError(f"register_parametrization: {type(module).__name__} has no parameter '{name}'")
    inverse = getattr(parametrization, "right_inverse", lambda given: given)
    originals = ParametrizationList(inverse(value.detach()), value.requires_grad)
    originals.append(parametrization)
    if not is_parametrized(module):
        module.parametrizations = Module()
        module.__class__ = type("Parametrized" + type(module).__name__, (type(module),), {})
    del module._parameters[name]
    module.parametrizations.register_module(name, originals)
    setattr(type(module), name, _computed(name))
    return module


def remove_parametrizations(module, name):
    """Makes the present value a parameter of the module again."""
    if not is_parametrized(module, name):
        raise hm.ValueError(f"remove_parametrizations: '{name}' of {type(module).__name__} is not parametrised")
    value = getattr(module, name).detach()
    trained = any(parameter.requires_grad for parameter in module.parametrizations._modules[name].parameters(recurse=False))
    del module.parametrizations._modules[name]
    setattr(module, name, Parameter(value, trained))
    if not module.parametrizations._modules:
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module
