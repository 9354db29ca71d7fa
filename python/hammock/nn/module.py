"""Module: a tree of parameters, buffers and submodules, registered by assigning them to attributes."""

from typing import TYPE_CHECKING, Any

import hammock as hm

from .. import _hammock


class Parameter(hm.Tensor):
    """A tensor that a module trains: it is registered when it is assigned to an attribute."""

    def __new__(cls, data, requires_grad=True):
        leaf = data.detach() if data.requires_grad or not data.is_leaf else data
        parameter = super().__new__(cls, leaf)
        if requires_grad:
            parameter.requires_grad_()
        return parameter


class Module:
    """Base of layers and models. Subclasses define `forward`.

    >>> import hammock as hm
    >>> class Net(hm.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.fc = hm.nn.Linear(2, 1)
    ...     def forward(self, x):
    ...         return self.fc(x).relu()
    >>> Net()
    Net(
      (fc): Linear(in_features=2, out_features=1, bias=True)
    )
    """

    training = True
    _hooks = None  # or a _Hooks

    def __init__(self):
        for name in ("_parameters", "_buffers", "_modules"):
            object.__setattr__(self, name, {})
        object.__setattr__(self, "_transient", set())  # buffers that are no part of the state
        object.__setattr__(self, "training", True)

    # ---- Attributes

    def __setattr__(self, name, value):
        tables = self.__dict__.get("_parameters"), self.__dict__.get("_buffers"), self.__dict__.get("_modules")
        if tables[0] is None:
            if isinstance(value, (Parameter, Module)):
                raise AttributeError(f"{type(self).__name__}: call super().__init__() before assigning '{name}'")
            object.__setattr__(self, name, value)
            return
        parameters, buffers, modules = tables
        if isinstance(value, Parameter):
            self._forget(name)
            parameters[name] = value
        elif isinstance(value, Module):
            self._forget(name)
            modules[name] = value
            _hammock.module_tree_changed()
        elif name in parameters:
            if value is not None:
                raise hm.TypeError(f"'{name}' is a parameter: assign a Parameter or None, not {type(value).__name__}")
            parameters[name] = None
        elif name in modules:
            if value is not None:
                raise hm.TypeError(f"'{name}' is a submodule: assign a Module or None, not {type(value).__name__}")
            modules[name] = None
        elif name in buffers and (value is None or isinstance(value, hm.Tensor)):
            buffers[name] = value
        else:
            object.__setattr__(self, name, value)

    def _forget(self, name):
        self.__dict__.pop(name, None)
        for table in (self._parameters, self._buffers, self._modules):
            table.pop(name, None)

    def __getattr__(self, name):
        for table in ("_parameters", "_buffers", "_modules"):
            values = self.__dict__.get(table)
            if values is not None and name in values:
                return values[name]
        raise AttributeError(f"'{type(self).__name__}' has no attribute '{name}'")

    def __delattr__(self, name):
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                del table[name]
                _hammock.module_tree_changed()
                return
        object.__delattr__(self, name)

    def __dir__(self):
        return sorted({*super().__dir__(), *self._parameters, *self._buffers, *self._modules})

    def register_parameter(self, name, parameter):
        self._check_name(name)
        self._parameters[name] = None
        if parameter is not None:
            setattr(self, name, parameter)

    def register_buffer(self, name, tensor, persistent=True):
        """A tensor that moves and is saved with the module, but is not trained."""
        self._check_name(name)
        self._buffers[name] = tensor
        if not persistent:
            self._transient.add(name)

    def register_module(self, name, module):
        self._check_name(name)
        self._replace_module(name, module)

    def _replace_module(self, name, module):
        self._modules[name] = module
        _hammock.module_tree_changed()

    add_module = register_module

    def _check_name(self, name):
        if "_modules" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__}: call super().__init__() first")
        if not isinstance(name, str) or not name or "." in name:
            raise hm.ValueError(f"a name is a text without a dot, not {name!r}")
        if name in self.__dict__ or hasattr(type(self), name):
            raise hm.ValueError(f"'{type(self).__name__}' has an attribute '{name}' already")

    # ---- Calls

    def forward(self, *args, **kwargs):
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    if TYPE_CHECKING:  # below, in C: ops and errors know the path of the module

        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def _call_hooked(self, *args, **kwargs):
        for hook in list(self._hooks.before.values()):
            replaced = hook(self, args)
            if replaced is not None:
                args = replaced if isinstance(replaced, tuple) else (replaced,)
        result = self.forward(*args, **kwargs)
        for hook in list(self._hooks.after.values()):
            replaced = hook(self, args, result)
            result = result if replaced is None else replaced
        return result

    def register_forward_hook(self, hook):
        """Calls `hook(module, args, result)` after each call; what it returns, if anything, replaces the result."""
        return self._register_hook("after", hook)

    def register_forward_pre_hook(self, hook):
        """Calls `hook(module, args)` before each call; what it returns, if anything, replaces the arguments."""
        return self._register_hook("before", hook)

    def _register_hook(self, when, hook):
        from .._tensor import RemovableHandle

        if self._hooks is None:
            object.__setattr__(self, "_hooks", _Hooks())
        table, key = getattr(self._hooks, when), object()
        table[key] = hook
        return RemovableHandle(lambda: table.pop(key, None))

    # ---- The tree

    def named_children(self):
        for name, module in self._modules.items():
            if module is not None:
                yield name, module

    def children(self):
        for _, module in self.named_children():
            yield module

    def named_modules(self, prefix="", _seen=None):
        seen = set() if _seen is None else _seen
        if id(self) in seen:
            return
        seen.add(id(self))
        yield prefix, self
        for name, module in self.named_children():
            yield from module.named_modules(f"{prefix}.{name}" if prefix else name, seen)

    def modules(self):
        for _, module in self.named_modules():
            yield module

    def _named(self, table, recurse):
        seen = set()
        for prefix, module in self.named_modules() if recurse else [("", self)]:
            for name, value in getattr(module, table).items():
                if value is not None and id(value) not in seen:
                    seen.add(id(value))
                    yield (f"{prefix}.{name}" if prefix else name), value

    def named_parameters(self, recurse=True):
        return self._named("_parameters", recurse)

    def parameters(self, recurse=True):
        for _, parameter in self.named_parameters(recurse):
            yield parameter

    def named_buffers(self, recurse=True):
        return self._named("_buffers", recurse)

    def buffers(self, recurse=True):
        for _, buffer in self.named_buffers(recurse):
            yield buffer

    def get_submodule(self, path):
        module = self
        for name in path.split(".") if path else ():
            module = module._modules[name]
        return module

    def apply(self, function):
        """Calls `function` with every module, children first."""
        for module in self.children():
            module.apply(function)
        function(self)
        return self

    # ---- State

    def _state_tensors(self):
        """What `compile` needs to know."""
        return [*self.parameters(), *self.buffers()]

    def state_dict(self):
        """Parameters and buffers by their paths, as the module's own tensors without history."""
        state = {}
        for prefix, module in self.named_modules():
            start = f"{prefix}." if prefix else ""
            for name, value in module._parameters.items():
                if value is not None:
                    state[start + name] = value.detach()
            for name, value in module._buffers.items():
                if value is not None and name not in module._transient:
                    state[start + name] = value
        return state

    def load_state_dict(self, state, strict=True):
        """Copies values of the same names, also from NumPy arrays and PyTorch tensors. What is missing or unexpected,
        and shapes that differ, are listed in one ValueError; then nothing has been loaded."""
        own = self.state_dict()
        values = {name: _as_tensor(value) for name, value in state.items()}
        problems = [f"{name} is missing" for name in own if name not in values] if strict else []
        problems += [f"{name} is unexpected" for name in values if name not in own] if strict else []
        for name in own:
            if name in values and values[name].shape != own[name].shape:
                problems.append(f"{name} has the shape {values[name].shape}, needs {own[name].shape}")
        if problems:
            raise hm.ValueError(f"{type(self).__name__}.load_state_dict: " + "; ".join(problems))
        with hm.no_grad():
            for name, tensor in own.items():
                if name in values:
                    tensor.copy_(values[name].to(tensor.device).to(tensor.dtype))
        return self

    def train(self, mode=True):
        for module in self.modules():
            object.__setattr__(module, "training", bool(mode))
        return self

    def eval(self):
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self):
        for parameter in self.parameters():
            parameter.grad = None

    def to(self, *args, **kwargs):
        """Moves and casts parameters and buffers; integer tensors keep their dtypes."""
        done = {}

        def moved(tensor):
            if id(tensor) not in done:
                result = tensor.detach().to(*args, **kwargs)
                if not tensor.dtype.is_floating_point and result.dtype is not tensor.dtype:
                    result = tensor.detach().to(result.device)
                done[id(tensor)] = tensor if result.is_same(tensor) else result
            return done[id(tensor)]

        for module in self.modules():
            for name, value in module._parameters.items():
                if value is not None:
                    result = moved(value)
                    if result is not value:
                        module._parameters[name] = Parameter(result, value.requires_grad)
            for name, value in module._buffers.items():
                if value is not None:
                    module._buffers[name] = moved(value)
        return self

    def float(self):
        return self.to(hm.float32)

    def half(self):
        return self.to(hm.float16)

    def bfloat16(self):
        return self.to(hm.bfloat16)

    def cpu(self):
        return self.to("cpu")

    def cuda(self, index=0):
        return self.to(f"cuda:{index}")

    # ---- Text

    def extra_repr(self):
        return ""

    def __repr__(self):
        lines = [f"({name}): " + repr(module).replace("\n", "\n  ") for name, module in self._modules.items()]
        extra = self.extra_repr()
        if not lines:
            return f"{type(self).__name__}({extra})"
        return f"{type(self).__name__}({extra}\n  " + "\n  ".join(lines) + "\n)"


_hammock.set_module_call(Module)


class _Hooks:
    """Functions that are called before and after `forward`, in the order of their registration."""

    def __init__(self):
        self.before, self.after = {}, {}


def _as_tensor(value):
    if isinstance(value, hm.Tensor):
        return value.detach()
    return hm.from_torch(value) if type(value).__module__.startswith("torch") else _hammock.tensor(value)
