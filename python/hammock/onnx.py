"""ONNX files as programs, and programs as ONNX files.

A program is called with the inputs of the file in order. Its parameters are the floats of the file under their names, so
that it can be trained:

    program = hm.onnx.load("model.onnx")
    y = program(x)
    hm.onnx.inputs(program)                          # [("x", "float", ("batch", 3))]
    optimizer = hm.optim.Adam(list(program.named_parameters().values()))
"""

from . import _hammock

__all__ = ["inputs", "load", "operators", "outputs", "save", "trace"]


def load(model, *, fixed=None, folder="", device=None):
    """A program of a file, given by its path or its bytes.

    `fixed` has values of inputs, by name, that are the same in every call: they are no arguments any more. `folder` has
    the files with tensors that a model in bytes names. Values that are no tensors: a sequence is a list, an absent optional
    is None, a string tensor is a list of strings (in lists where it has several dims), a map is a dict.
    """
    values = {name: _hammock.asarray(value) for name, value in (fixed or {}).items()}
    if isinstance(model, (bytes, bytearray)):
        return _hammock.onnx_load_bytes(bytes(model), values, folder, device)
    return _hammock.onnx_load(str(model), values, device)


def inputs(program):
    """(name, element type, sizes) of each input, as the file declares them; a size is a number, a name or None."""
    return _hammock.onnx_inputs(program)


def outputs(program):
    """The same of the outputs."""
    return _hammock.onnx_outputs(program)


def trace(program, dims=None, *, free=True):
    """Makes a program of a file a graph, as `save` and delegates need it. Sizes that the file names stay free, unless
    `free` is false; `dims` has sizes by name for the inputs with which it is traced."""
    _hammock.onnx_trace(program, dims or {}, free)


def save(program, path, opset=17):
    """Writes a program whose `forward` is a graph as an ONNX file."""
    _hammock.onnx_save(program, str(path), opset)


def operators():
    """(domain, name, first opset, last opset) of all operators that `load` knows."""
    return _hammock.onnx_operators()
