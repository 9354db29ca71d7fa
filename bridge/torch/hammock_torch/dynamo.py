"""torch.compile(model, backend="hammock"): graphs of AOTAutograd as programs of Hammock."""

import functools
import math
import operator

import torch
from sympy import Integer
from torch import fx
from torch._decomp import core_aten_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.utils._sympy.printers import PythonPrinter

from . import _C

__all__ = ["hammock"]

# Views of an input are made by PyTorch from the input itself, so that they share its memory.
_VIEWS = {
    "alias", "as_strided", "detach", "diagonal", "expand", "permute", "select", "slice", "split",
    "squeeze", "t", "transpose", "unsqueeze", "view", "_unsafe_view", "reshape",
}  # fmt: skip


def _decompositions():
    """PyTorch's, but for the ops that Hammock takes whole."""
    return {
        op: rule
        for op, rule in core_aten_decompositions().items()
        if not isinstance(op, torch._ops.OpOverload) or not _C.knows(_name(op))
    }


class _Builder:
    """Writes an FX graph into a program."""

    def __init__(self, gm, device):
        self.gm = gm
        self.program = _C.Program(device)
        self.registers = {}
        self.lists = {}  # registers of results that are lists or tuples
        self.attributes = {}  # of the module that are no tensors, such as graphs of branches

    def value(self, value):
        if isinstance(value, fx.Node):
            return self.registers[value]
        if isinstance(value, (list, tuple)):
            return self.program.list([self.value(item) for item in value])
        return self.program.constant(value)

    def call(self, node):
        if node.target is operator.getitem:
            self.take_item(node)
        elif isinstance(node.target, torch._ops.OpOverload):
            self.call_operator(node)
        else:
            self.call_python(node)

    def take_item(self, node):
        source, index = node.args
        found = self.lists[source]
        if isinstance(found, list):
            self.registers[node] = found[index]
        else:
            size = len(source.meta["val"])
            self.registers[node] = self.program.item(found, index, size)

    def call_operator(self, node):
        try:
            args = [self.value(value) for value in _arguments(node)]
        except RuntimeError:  # an argument is something that only PyTorch has
            return self.call_python(node)
        results = self.program.call(_name(node.target), args)
        if len(results) == 1:
            self.registers[node] = self.lists[node] = results[0]
        else:
            self.lists[node] = results

    def call_python(self, node):
        """What no operator says: arithmetic on sizes, control flow. It runs by PyTorch."""
        leaves = [leaf for leaf in node.all_input_nodes if leaf not in self.attributes]

        def run(*values):
            given = {**self.attributes, **dict(zip(leaves, values))}
            args, kwargs = fx.map_arg((node.args, node.kwargs), given.__getitem__)
            return node.target(*args, **kwargs)

        inputs = [self.registers.get(leaf, self.lists.get(leaf)) for leaf in leaves]
        inputs = [self.program.list(i) if isinstance(i, list) else i for i in inputs]
        result = self.program.call_python(_name(node.target), run, inputs)
        self.registers[node] = self.lists[node] = result

    def build(self, outputs):
        for node in self.gm.graph.nodes:
            if node.op == "placeholder":
                self.registers[node] = self.program.input()
            elif node.op == "get_attr":
                value = operator.attrgetter(node.target)(self.gm)
                if isinstance(value, torch.Tensor):
                    self.registers[node] = self.program.constant(value)
                else:
                    self.attributes[node] = value
            elif node.op == "call_function":
                self.call(node)
        self.program.outputs([self.value(output) for output in outputs])
        return self.program


def _name(target):
    """Of an operator or a function: "aten::add.Tensor", "torch::sym_max", "higher_order::cond"."""
    if isinstance(target, torch._ops.OpOverload):
        schema = target._schema
        return f"{schema.name}.{schema.overload_name}".removesuffix(".")
    return f"{getattr(target, 'namespace', target.__module__)}::{target.__name__}"


def _arguments(node):
    """One for each of the operator's schema."""
    for i, argument in enumerate(node.target._schema.arguments):
        if i < len(node.args):
            yield node.args[i]
        else:
            yield node.kwargs.get(argument.name, argument.default_value)


def _view_chain(node):
    """The nodes from an input to a view of it, or None."""
    chain = []
    while isinstance(node, fx.Node) and node.op == "call_function":
        target = node.target
        if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
            return None
        name = target._schema.name.split("::")[1]
        if name not in _VIEWS or not isinstance(node.args[0], fx.Node):
            return None
        if any(isinstance(a, fx.Node) for a in _flat(node.args[1:])):
            return None
        chain.append(node)
        node = node.args[0]
    return (node, chain[::-1]) if isinstance(node, fx.Node) and node.op == "placeholder" else None


def _flat(args):
    for arg in args:
        if isinstance(arg, (list, tuple)):
            yield from _flat(arg)
        else:
            yield arg


def _strides_to_keep(node):
    """The strides that PyTorch traced for a computed output, where they are not row-major."""
    if not isinstance(node, fx.Node) or node.op == "placeholder":
        return None
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.is_contiguous():
        return None
    return value.stride()


def _sizes_by_inputs(sizes, placeholders):
    """A function of a graph's inputs that gives these sizes; None where inputs do not say them."""
    symbols = {}
    for i, placeholder in enumerate(placeholders):
        value = placeholder.meta.get("val")
        given = {f"args[{i}]": value}
        if isinstance(value, torch.Tensor):
            given = {f"args[{i}].shape[{dim}]": size for dim, size in enumerate(value.shape)}
        for source, size in given.items():
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                symbols.setdefault(size.node.expr, source)
    wanted = [size.node.expr if isinstance(size, torch.SymInt) else Integer(size) for size in sizes]
    if any(expression.free_symbols - symbols.keys() for expression in wanted):
        return None
    names = ", ".join(str(symbol) for symbol in symbols)
    values = ", ".join(PythonPrinter().doprint(expression) for expression in wanted)
    return eval(
        f"lambda args: (lambda {names}: ({values},))({', '.join(symbols.values())})", {"math": math}
    )


def _device_to_keep(node, device):
    """Where PyTorch traced a computed output, if a program of `device` gives it elsewhere: on its
    card, or on the CPU."""
    if not isinstance(node, fx.Node) or node.op == "placeholder":
        return None
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return None
    given = torch.device(device if device.startswith("cuda") else "cpu")
    return value.device if value.device != given else None


def _restrided(tensor, strides):
    """A copy that lies in memory as the strides say; dims of stride 0 are one element, expanded."""
    base = tensor
    for dim, stride in enumerate(strides):
        if stride == 0:
            base = base.narrow(dim, 0, 1)
    result = torch.empty_strided(base.shape, strides, dtype=base.dtype, device=base.device)
    return result.copy_(base).expand(tensor.shape)


def _device_of(gm):
    """The device of Hammock that computes the graph, where none is named: the card of its tensors,
    where Hammock has it, else the CPU."""
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.device.type == "cuda":
            name = f"cuda:{value.device.index or 0}"
            return name if _C.has_device(name) else "cpu"
    return "cpu"


def _compile(gm, example_inputs, device):
    """A boxed function that runs the graph on a device of Hammock; "" for that of its tensors."""
    device = device or _device_of(gm)
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    outputs = next(n for n in gm.graph.nodes if n.op == "output").args[0]
    views, restrided, moved = [], [], []  # made here, of inputs and of computed values
    computed = []
    for i, output in enumerate(outputs):
        if (chain := _view_chain(output)) is not None and chain[1]:
            calls = [(n.target, n.args[1:], n.kwargs) for n in chain[1]]
            views.append((i, placeholders.index(chain[0]), calls))
            output = None
        elif (strides := _strides_to_keep(output)) is not None:
            # Else it is row-major: only the run itself tells its sizes, as of `nonzero`.
            if (strides := _sizes_by_inputs(strides, placeholders)) is not None:
                restrided.append((i, strides))
        if (place := _device_to_keep(output, device)) is not None:
            moved.append((i, place))
        computed.append(output)
    program = _Builder(gm, device).build(computed)
    run = program.function()

    def call(args):
        return run(args)

    def call_and_finish(args):
        bases = [args[index] for _, index, _ in views]
        layouts = [(i, strides(args)) for i, strides in restrided]
        results = run(args)
        for i, place in moved:
            results[i] = results[i].to(place)
        for i, strides in layouts:
            results[i] = _restrided(results[i], strides)
        for base, (i, _, calls) in zip(bases, views):
            for target, rest, kwargs in calls:
                base = target(base, *rest, **kwargs)
            results[i] = base
        return results

    function = call_and_finish if views or restrided or moved else call
    function._boxed_call = True
    function.program = program
    return function


@functools.cache
def _backend(device):
    compiler = functools.partial(_compile, device=device)
    return aot_autograd(
        fw_compiler=compiler,
        bw_compiler=compiler,
        inference_compiler=compiler,
        decompositions=_decompositions(),
        partition_fn=min_cut_rematerialization_partition,
    )


def hammock(gm, example_inputs, *, mode=None, options=None):
    """The backend, found by name through the entry point torch_dynamo_backends.

    options={"device": "cuda:0"} says which device of Hammock computes, else HAMMOCK_DEVICE, else the
    tensors: the card where they lie, or the CPU. `mode` says nothing to Hammock.
    """
    options = dict(options or {})
    device = options.pop("device", None) or _C.configured_device()
    if options:
        raise ValueError(f'backend "hammock" has one option, "device", got {sorted(options)}')
    return _backend(device)(gm, example_inputs)
