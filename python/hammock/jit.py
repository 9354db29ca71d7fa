"""Traced programs, and delegates that run their methods.

>>> class Interpreter:
...     def preprocess(program, method_compile_spec):  # of the class: what `compile` gets, and what archives keep
...         return {method: program.graph_text(method) for method in method_compile_spec}
...     def compile(self, processed, method_compile_spec):  # a handle for each method
...         return {method: len(text.splitlines()) for method, text in processed.items()}
...     def execute(self, handle, inputs):  # the arguments, then the results
...         return [inputs[0] + handle]
>>> hm.jit.register_backend("lines", Interpreter)
>>> program = hm.jit.trace(lambda x: x * 2, hm.tensor([1.0]))
>>> lowered = hm.jit.to_backend("lines", program)
>>> lowered(hm.tensor([0.5]))
tensor([4.5000])
"""

from . import _hammock
from ._hammock import Program

__all__ = ["Program", "interpret", "load", "register_backend", "to_backend", "trace"]


def trace(function, *examples, free_dims=()):
    """A program of a function or module: the graph of what it does with arguments like `examples`.

    Values that are not tensors are fixed, and so are sizes, but for those of `free_dims`: (argument, dim) pairs, or
    (argument, dim, name), where dims of one name have equal sizes. Parameters and buffers of a module keep their names.
    """
    from .nn import Module

    tensors = []
    if isinstance(function, Module):
        tensors = [(name, value, True) for name, value in function.named_parameters()]
        tensors += [(name, value, False) for name, value in function.named_buffers()]
    names = [f"x{i}" for i in range(len(examples))]
    schema = f"forward({', '.join('Any ' + name for name in names)}) -> Any"
    free = [(names[each[0]], each[1], each[2] if len(each) > 2 else f"n{i}") for i, each in enumerate(free_dims)]
    kind = type(function).__name__ if isinstance(function, Module) else getattr(function, "__name__", "function")
    return _hammock.trace_program(function, "".join(c if c.isalnum() else "_" for c in kind), tensors, schema, examples, free)


def load(path):
    """A program that `Program.save`, or C++, wrote."""
    return _hammock.load_program(str(path))


def register_backend(name, backend):
    """Registers a class as a delegate.

    It has `preprocess(program, method_compile_spec)`, called on the class, whose result is kept in archives if it is made
    of strings, numbers, tensors, lists and dicts; `compile(self, processed, method_compile_spec)`, which returns a dict
    with a handle of any kind for each method; `execute(self, handle, inputs)`, called from any thread, which returns the
    results; and, if it is not always there, `is_available(self)`. One object serves one lowered program.
    """
    missing = [part for part in ("preprocess", "compile", "execute") if not callable(getattr(backend, part, None))]
    if missing:
        raise _hammock.TypeError(f"register_backend: '{name}' has no {missing[0]}")
    _hammock.register_backend(name, backend)


def to_backend(name, program, method_compile_spec=None):
    """A program whose methods the delegate `name` runs; what else it has stays."""
    if not isinstance(program, Program):
        raise _hammock.TypeError(f"to_backend: takes a program, as hm.jit.trace makes it, not {type(program).__name__}")
    spec = {"forward": {}} if method_compile_spec is None else method_compile_spec
    return _hammock.to_backend(name, program, spec)


def interpret(program, arguments, run, method="forward"):
    """Runs a graph node by node: `run(op, operands, attributes)` returns the results of a node as a list."""
    state = program.state_dict()
    given = iter(state[each] if isinstance(each, str) else arguments[each] if isinstance(each, int) else each
                 for each in program.inputs(method))
    values = []
    for op, operands, attributes, _, _ in program.nodes(method):
        if op == "input":
            values.append([next(given)])
        else:
            values.append(run(op, [None if each is None else values[each[0]][each[1]] for each in operands], attributes))
    return [values[node][result] for node, result in program.outputs(method)]

