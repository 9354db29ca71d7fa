"""hm.compile: functions that are traced once for each signature."""

import _thread
import functools
import types
import weakref

from . import _hammock
from ._hammock import Tensor
from ._tree import flatten, key_of, unflatten


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _identity(constant):
    """Equal for constants that a trace may share: 2, 2.0 and True make different graphs, and so do 0.0 and -0.0."""
    return type(constant), repr(constant) if isinstance(constant, (float, complex)) else constant


class _State:
    """What a function uses besides its arguments: tensors, modules, optimisers."""

    def __init__(self, holders):
        self.tensors, self.modules = [], []
        self._seen = set()
        for holder in holders:
            self.add(holder)

    def add(self, holder):
        if id(holder) in self._seen:
            return
        self._seen.add(id(holder))
        if isinstance(holder, Tensor):
            self.tensors.append(holder)
        elif isinstance(holder, (list, tuple)):
            for item in holder:
                self.add(item)
        elif isinstance(holder, dict):
            for item in holder.values():
                self.add(item)
        elif hasattr(type(holder), "_state_tensors"):
            self.tensors.extend(holder._state_tensors())
            if hasattr(holder, "modules") and hasattr(holder, "training"):
                self.modules.extend(holder.modules())
        elif callable(getattr(holder, "state_dict", None)):
            self.tensors.extend(value for value in holder.state_dict().values() if isinstance(value, Tensor))

    def unique_tensors(self):
        unique, seen = [], set()
        for tensor in self.tensors:
            if hash(tensor) not in seen:
                seen.add(hash(tensor))
                unique.append(tensor)
        return unique

    def training(self):
        """A function that returns the modules' training flags, without keeping the modules."""
        references = [weakref.ref(module) for module in self.modules]
        return lambda: [bool(reference().training) for reference in references if reference() is not None]


def _names_of(code):
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names_of(constant)
    return names


def _holders_in(function, seen=None):
    """Modules, optimisers and tensors that a function refers to: by its closure, its globals, its object, and by other
    functions that it refers to, decorated ones too."""
    seen = set() if seen is None else seen
    if isinstance(function, types.MethodType):
        yield function.__self__
        function = function.__func__
    if isinstance(function, functools.partial):
        yield from (*function.args, *function.keywords.values())
        yield from _holders_in(function.func, seen)
        return
    if not isinstance(function, types.FunctionType):
        yield function
        return
    if function in seen:
        return
    seen.add(function)
    values = []
    for cell in function.__closure__ or ():
        try:
            values.append(cell.cell_contents)
        except ValueError:  # not yet assigned
            pass
    values += [function.__globals__[name] for name in _names_of(function.__code__) if name in function.__globals__]
    for value in values:
        if not isinstance(value, (types.FunctionType, types.MethodType, functools.partial)):
            yield value
        elif not (getattr(value, "__module__", None) or "").startswith("hammock."):
            yield from _holders_in(value, seen)


def _holds_state(value):
    if isinstance(value, Tensor) or hasattr(type(value), "_state_tensors"):
        return True
    return isinstance(value, (list, tuple)) and any(map(_holds_state, value)) or isinstance(value, dict) and any(
        map(_holds_state, list(value.values())))


# Held during calls: while one traces, tensors of its state have values that no other call may read, and calls that write
# the same state come one after another. A wait for it lets other Python threads run.
_calling = _thread.RLock()


class CompiledFunction:
    """What `compile` returns."""

    def __init__(self, function, state, static_argnames, owner=None):
        functools.update_wrapper(self, function, updated=())
        self._function = function
        self._owner = owner and weakref.ref(owner)  # of a method
        self._given = list(state)
        self._static = frozenset(static_argnames)
        self._traced = {}
        self._bound = weakref.WeakKeyDictionary()

    def __get__(self, instance, owner=None):
        """A method of a module: compiled for each object."""
        if instance is None:
            return self
        bound = self._bound.get(instance)
        if bound is None:
            bound = CompiledFunction(self._function, self._given, self._static, instance)
            self._bound[instance] = bound
        return bound

    @property
    def traces(self):
        """How many times the function was traced."""
        return sum(compiled.traces for compiled, _ in list(self._traced.values()))

    def __call__(self, *args, **kwargs):
        statics = {name: kwargs.pop(name) for name in self._static if name in kwargs}
        leaves, structure = flatten([list(args), kwargs])
        dynamic = [isinstance(leaf, Tensor) or _is_number(leaf) for leaf in leaves]
        constants = [None if moves else leaf for leaf, moves in zip(leaves, dynamic)]
        static_leaves, static_structure = flatten(statics)
        try:
            key = (key_of(structure), tuple(dynamic), key_of(static_structure), *map(_identity, constants), *map(_identity, static_leaves))
            hash(key)
        except TypeError as error:
            raise _hammock.TypeError(f"compile: an argument that is no tensor or number must be hashable: {error}") from None
        with _calling:
            entry = self._traced.get(key)
            if entry is None:
                entry = self._traced[key] = self._prepare(structure, constants, dynamic, statics)
            compiled, results = entry
            outputs = compiled([leaf for leaf, moves in zip(leaves, dynamic) if moves])
            return unflatten(results[0], outputs)

    def _prepare(self, structure, constants, dynamic, statics):
        holders = [holder for holder in _holders_in(self._function) if _holds_state(holder)]
        function, owner_of = self._function, self._owner
        owner = [owner_of()] if owner_of else []
        state = _State([*self._given, *owner, *holders])
        results = []

        def flat(tensors):  # does not refer to `self`, which has it
            given = iter(tensors)
            values = [next(given) if moves else constant for constant, moves in zip(constants, dynamic)]
            args, kwargs = unflatten(structure, values)
            owner = [owner_of()] if owner_of else []
            outputs, out_structure = flatten(function(*owner, *args, **kwargs, **statics))
            for output in outputs:
                if not isinstance(output, Tensor):
                    raise _hammock.TypeError(
                        f"compile: the function must return tensors, nested or not, not {type(output).__name__}")
            results[:] = [out_structure]
            return outputs

        return _hammock.CompiledFunction(flat, state.unique_tensors(), state.training()), results


def compile(function=None, *, state=(), static_argnames=()):
    """A function that is traced once for each signature and replayed from then on, without running its Python code.

    Arguments are tensors and numbers, nested in lists, tuples and dicts; other leaves, and those named in
    `static_argnames`, choose the trace. Modules, optimisers and tensors that the function refers to are found by
    themselves; those that it reaches in other ways are named in `state`. Works as a decorator, of methods too.

    >>> import hammock as hm
    >>> @hm.compile
    ... def double(x):
    ...     return x * 2
    >>> double(hm.tensor([1.0, 2.0]))
    tensor([2., 4.])
    """
    if function is None:
        return lambda decorated: compile(decorated, state=state, static_argnames=static_argnames)
    if isinstance(static_argnames, str):
        static_argnames = (static_argnames,)
    state = list(state) if isinstance(state, (list, tuple)) else [state]
    return CompiledFunction(function, state, static_argnames)
