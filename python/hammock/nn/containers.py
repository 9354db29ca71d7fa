"""Modules that hold others."""

import hammock as hm

from .module import Module, Parameter


class Sequential(Module):
    """Calls its modules one after another."""

    def __init__(self, *modules):
        super().__init__()
        named = modules[0].items() if len(modules) == 1 and isinstance(modules[0], dict) else enumerate(modules)
        for name, module in named:
            self.register_module(str(name), module)

    def forward(self, x):
        for module in self._modules.values():
            x = module(x)
        return x

    def append(self, module):
        self.register_module(str(len(self)), module)
        return self

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __getitem__(self, index):
        modules = list(self._modules.values())
        return Sequential(*modules[index]) if isinstance(index, slice) else modules[index]


class ModuleList(Module):
    """A list of modules."""

    def __init__(self, modules=()):
        super().__init__()
        self.extend(modules)

    def append(self, module):
        self.register_module(str(len(self)), module)
        return self

    def extend(self, modules):
        for module in modules:
            self.append(module)
        return self

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __getitem__(self, index):
        modules = list(self._modules.values())
        return ModuleList(modules[index]) if isinstance(index, slice) else modules[index]

    def __setitem__(self, index, module):
        self._replace_module(str(range(len(self))[index]), module)


class ModuleDict(Module):
    """Modules by name."""

    def __init__(self, modules=None):
        super().__init__()
        for name, module in (modules or {}).items():
            self.register_module(name, module)

    def __getitem__(self, name):
        return self._modules[name]

    def __setitem__(self, name, module):
        self._replace_module(name, module)

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, name):
        return name in self._modules

    def keys(self):
        return self._modules.keys()

    def values(self):
        return self._modules.values()

    def items(self):
        return self._modules.items()


class ParameterList(Module):
    """A list of parameters."""

    def __init__(self, parameters=()):
        super().__init__()
        for parameter in parameters:
            self.append(parameter)

    def append(self, parameter):
        value = parameter if isinstance(parameter, Parameter) else Parameter(hm.asarray(parameter))
        self.register_parameter(str(len(self)), value)
        return self

    def __len__(self):
        return len(self._parameters)

    def __iter__(self):
        return iter(self._parameters.values())

    def __getitem__(self, index):
        return list(self._parameters.values())[index]


class ParameterDict(Module):
    """Parameters by name."""

    def __init__(self, parameters=None):
        super().__init__()
        for name, parameter in dict(parameters or {}).items():
            self[name] = parameter

    def __getitem__(self, name):
        return self._parameters[name]

    def __setitem__(self, name, parameter):
        self._parameters[name] = parameter if isinstance(parameter, Parameter) else Parameter(hm.asarray(parameter))

    def __delitem__(self, name):
        del self._parameters[name]

    def __len__(self):
        return len(self._parameters)

    def __iter__(self):
        return iter(self._parameters)

    def __contains__(self, name):
        return name in self._parameters

    def keys(self):
        return self._parameters.keys()

    def values(self):
        return self._parameters.values()

    def items(self):
        return self._parameters.items()
