"""torch.compile(model, backend="hammock"): graphs of AOTAutograd as programs of Hammock."""

import operator

import torch
from torch import fx
from torch._decomp import core_aten_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition

from . import _C

__all__ = ["hammock"]

# Arithmetic on sizes that are known when the program runs.
_ON_SIZES = {
    operator.add: "aten::add",
    operator.sub: "aten::sub",
    operator.mul: "aten::mul",
    operator.floordiv: "aten::floordiv",
    operator.mod: "aten::remainder",
    operator.neg: "aten::neg",
    operator.eq: "aten::eq",
    operator.ne: "aten::ne",
    operator.lt: "aten::lt",
    operator.le: "aten::le",
    operator.gt: "aten::gt",
    operator.ge: "aten::ge",
}

# Views of an input are made by PyTorch from the input itself, so that they share its memory.
_VIEWS = {
    "alias", "as_strided", "detach", "diagonal", "expand", "permute", "select", "slice", "split",
    "squeeze", "t", "transpose", "unsqueeze", "view", "_unsafe_view", "reshape",
}  # fmt: skip


def _decompositions():
    """PyTorch's, but for the ops that Hammock takes whole."""

    def overload(op):
        name = op._schema.name
        return f"{name}.{op._schema.overload_name}" if op._schema.overload_name else name

    return {
        op: rule
        for op, rule in core_aten_decompositions().items()
        if not isinstance(op, torch._ops.OpOverload) or not _C.knows(overload(op))
    }


def _constant(value):
    """As a program takes it: dtypes as PyTorch numbers them, no devices or layouts."""
    if isinstance(value, torch.dtype):
        return _NUMBERS[value]
    if isinstance(value, (torch.device, torch.layout, torch.memory_format, torch.Generator)):
        return None
    return value


_NUMBERS = {
    torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4,
    torch.float16: 5, torch.float32: 6, torch.float64: 7, torch.complex64: 9,
    torch.complex128: 10, torch.bool: 11, torch.bfloat16: 15,
}  # fmt: skip


class _Builder:
    """Writes an FX graph into a program."""

    def __init__(self, gm, device):
        self.gm = gm
        self.program = _C.Program(device)
        self.registers = {}
        self.lists = {}  # registers of results that are lists or tuples

    def value(self, value):
        if isinstance(value, fx.Node):
            return self.registers[value]
        if isinstance(value, (list, tuple)):
            return self.program.list([self.value(item) for item in value])
        return self.program.constant(_constant(value))

    def call(self, node):
        target = node.target
        if target is operator.getitem:
            source, index = node.args
            found = self.lists[source]
            if isinstance(found, list):
                self.registers[node] = found[index]
            else:
                size = len(source.meta["val"])
                self.registers[node] = self.program.item(found, index, size)
            return
        if target in _ON_SIZES:
            integers = all(not isinstance(a, float) for a in node.args)
            overload = _ON_SIZES[target] + (".int" if integers else ".float")
            self.registers[node] = self.program.call(overload, [self.value(a) for a in node.args])[0]
            return
        if not isinstance(target, torch._ops.OpOverload):
            raise NotImplementedError(f"a call of {target}")
        schema = target._schema
        args = []
        for i, argument in enumerate(schema.arguments):
            if i < len(node.args):
                value = node.args[i]
            elif argument.name in node.kwargs:
                value = node.kwargs[argument.name]
            else:
                value = argument.default_value
            args.append(self.value(value))
        name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        results = self.program.call(name, args)
        if len(schema.returns) == 1:
            self.registers[node] = results[0]
            self.lists[node] = results[0]
        else:
            self.lists[node] = results

    def build(self, outputs):
        for node in self.gm.graph.nodes:
            if node.op == "placeholder":
                self.registers[node] = self.program.input()
            elif node.op == "get_attr":
                self.registers[node] = self.program.constant(getattr(self.gm, node.target))
            elif node.op == "call_function":
                self.call(node)
        self.program.outputs([self.value(output) for output in outputs])
        return self.program


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
    strides = value.stride()
    return strides if all(isinstance(s, int) for s in strides) else None


def _device_to_keep(node, device):
    """Where PyTorch traced a computed output, if a program of `device` gives it elsewhere."""
    if not isinstance(node, fx.Node) or node.op == "placeholder":
        return None
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return None
    return value.device if value.device != torch.device(device) else None


def _restrided(tensor, strides):
    """A copy that lies in memory as the strides say; dims of stride 0 are one element, expanded."""
    base = tensor
    for dim, stride in enumerate(strides):
        if stride == 0:
            base = base.narrow(dim, 0, 1)
    result = torch.empty_strided(base.shape, strides, dtype=base.dtype, device=base.device)
    return result.copy_(base).expand(tensor.shape)


def _device_of(gm):
    """The device of Hammock that computes the graph: the card of its tensors, where Hammock has it."""
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.device.type == "cuda":
            name = f"cuda:{value.device.index or 0}"
            return name if _C.has_device(name) else "cpu"
    return "cpu"


def _compile(gm, example_inputs):
    """A boxed function that runs the graph on Hammock."""
    device = _device_of(gm)
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
        results = run(args)
        for i, place in moved:
            results[i] = results[i].to(place)
        for i, strides in restrided:
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


_backend = None


def hammock(gm, example_inputs, **options):
    """The backend, found by name through the entry point torch_dynamo_backends."""
    global _backend
    if options.get("options"):
        raise ValueError(f'backend "hammock" has no options, got {options["options"]}')
    if _backend is None:
        _backend = aot_autograd(
            fw_compiler=_compile,
            bw_compiler=_compile,
            inference_compiler=_compile,
            decompositions=_decompositions(),
            partition_fn=min_cut_rematerialization_partition,
        )
    return _backend(gm, example_inputs)
