"""Type stubs, from the records: `python -m hammock._stubs > python/hammock/__init__.pyi`."""

import keyword
import re

import hammock as hm

from . import _hammock
from ._signatures import annotation, default_text, parse

_HEAD = '''# Made from the records by `python -m hammock._stubs`.
# mypy: disable-error-code="overload-cannot-match"
import builtins
from typing import Any, Iterator, Sequence, overload

from . import array_api as array_api, data as data, distributed as distributed, distributions as distributions, fft as fft, io as io
from . import jit as jit, linalg as linalg, nn as nn, onnx as onnx, optim as optim, profile as profile, signal as signal
from . import sparse as sparse, special as special
from .sparse import sparse_coo_tensor as sparse_coo_tensor, sparse_csr_tensor as sparse_csr_tensor
from ._autograd import Function as Function, autocast as autocast, checkpoint as checkpoint
from ._autograd import enable_grad as enable_grad, grad as grad, inference_mode as inference_mode, jvp as jvp
from ._autograd import set_grad_enabled as set_grad_enabled
from ._autograd import value_and_grad as value_and_grad, vjp as vjp
from ._compile import compile as compile
from ._control import cond as cond, loop as loop, while_loop as while_loop
from ._custom import CustomOp as CustomOp
from ._execution import Activity as Activity, eager as eager, expect_no_recompile as expect_no_recompile, explain as explain
from ._execution import no_execution as no_execution, step as step
from ._numbers import finfo as finfo, iinfo as iinfo
from ._vmap import hessian as hessian, jacfwd as jacfwd, jacrev as jacrev, vmap as vmap

_int = builtins.int
_float = builtins.float
_bool = builtins.bool
_DType = dtype | str | type
_Device = device | str
_dtype = dtype
_device = device

class HammockError(Exception):
    code: str
    message: str
    where: str

class dtype:
    name: str
    short_name: str
    itemsize: _int
    is_floating_point: _bool
    is_signed: _bool
    min: _float
    max: _float
    eps: _float

class device:
    type: str
    index: _int
    def __init__(self, name: str | device) -> None: ...

class Generator:
    seed: _int
    offset: _int
    def __init__(self, seed: _int = 0) -> None: ...
    def manual_seed(self, seed: _int) -> None: ...

class no_grad:
    def __init__(self, function: Any = None) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *exception: Any) -> None: ...
    def __call__(self, function: Any) -> Any: ...

class Op:
    schemas: tuple[str, ...]
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

config: Any
metrics: Any
e: _float
pi: _float
inf: _float
nan: _float
newaxis: None
__version__: str

def tensor(data: Any, *, dtype: _DType | None = None, device: _Device | None = None, requires_grad: _bool = False) -> Tensor: ...
def asarray(data: Any, *, dtype: _DType | None = None, device: _Device | None = None, copy: _bool | None = None) -> Tensor: ...
def from_numpy(array: Any, *, copy: _bool | None = None) -> Tensor: ...
def from_dlpack(source: Any, *, device: _Device | None = None, copy: _bool | None = None) -> Tensor: ...
def from_torch(tensor: Any, *, dtype: Any = None, device: _Device | None = None, copy: _bool | None = None) -> Tensor: ...
def to_torch(tensor: Tensor, *, dtype: Any = None, device: Any = None, copy: _bool = True) -> Any: ...
def manual_seed(seed: _int) -> None: ...
def default_generator() -> Generator: ...
def default_device() -> device: ...
def set_default_device(device: _Device) -> None: ...
def devices() -> list[device]: ...
def mark_step(device: _Device | None = None, wait: _bool = False) -> None: ...
def sync(tensors: Sequence[Tensor], wait: _bool = True) -> None: ...
def wait_device_ops(device: _Device | None = None) -> None: ...
def is_grad_enabled() -> _bool: ...
def set_printoptions(precision: _int | None = None, threshold: _int | None = None, edgeitems: _int | None = None, linewidth: _int | None = None, sci_mode: _bool | None = None) -> None: ...
def compile_misses() -> list[str]: ...
def cache_stats() -> dict[str, _int]: ...
def graph_text(tensors: Sequence[Tensor], format: str = "text") -> str: ...
def save_repro(path: str, tensors: Sequence[Tensor]) -> None: ...
def run_repro(path: str, device: _Device | None = None) -> list[Tensor]: ...
'''

_ERRORS = {"ValueError": "ValueError", "TypeError": "TypeError", "IndexError": "IndexError",
           "NotSupported": "NotImplementedError", "CompileError": "RuntimeError", "OutOfMemory": "MemoryError",
           "DeviceError": "RuntimeError", "InternalError": "RuntimeError"}

_DTYPES = ["bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "bfloat16",
           "float32", "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2", "int4", "uint4", "int2", "uint2", "half", "float", "double", "short", "int", "long"]

_TENSOR = '''class Tensor:
    @property
    def dtype(self) -> _dtype: ...
    @property
    def device(self) -> _device: ...
    grad: Tensor | None
    requires_grad: _bool
    data: Tensor
    @property
    def shape(self) -> tuple[_int, ...]: ...
    @property
    def ndim(self) -> _int: ...
    @property
    def itemsize(self) -> _int: ...
    @property
    def nbytes(self) -> _int: ...
    @property
    def T(self) -> Tensor: ...
    @property
    def mT(self) -> Tensor: ...
    @property
    def H(self) -> Tensor: ...
    @property
    def mH(self) -> Tensor: ...
    @property
    def real(self) -> Tensor: ...
    @property
    def imag(self) -> Tensor: ...
    @property
    def is_leaf(self) -> _bool: ...
    @property
    def is_pending(self) -> _bool: ...
    def __new__(cls, source: Tensor) -> Tensor: ...
    def __getitem__(self, key: Any) -> Tensor: ...
    def __setitem__(self, key: Any, value: Any) -> None: ...
    def __len__(self) -> _int: ...
    def __iter__(self) -> Iterator[Tensor]: ...
    def __bool__(self) -> _bool: ...
    def __int__(self) -> _int: ...
    def __float__(self) -> _float: ...
    def __index__(self) -> _int: ...
    def __eq__(self, other: Any) -> Tensor: ...  # type: ignore[override]
    def __ne__(self, other: Any) -> Tensor: ...  # type: ignore[override]
    def item(self) -> Any: ...
    def tolist(self) -> Any: ...
    @overload
    def size(self) -> tuple[_int, ...]: ...
    @overload
    def size(self, dim: _int) -> _int: ...
    def dim(self) -> _int: ...
    def numel(self) -> _int: ...
    def stride(self, dim: _int | None = None) -> Any: ...
    def element_size(self) -> _int: ...
    def summary(self) -> str: ...
    def is_same(self, other: Tensor) -> _bool: ...
    def to_sparse(self, max_nnz: _int | None = None) -> Any: ...
    def to_sparse_csr(self, max_nnz: _int | None = None) -> Any: ...
    def is_alias_of(self, other: Tensor) -> _bool: ...
    def cpu(self) -> Tensor: ...
    def cuda(self, index: _int = 0) -> Tensor: ...
    def to_device(self, device: _Device, /, *, stream: Any = None) -> Tensor: ...
    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any: ...
    def backward(self, gradient: Tensor | None = None, retain_graph: _bool | None = None, create_graph: _bool = False, inputs: Any = ()) -> None: ...
    def requires_grad_(self, requires_grad: _bool = True) -> Tensor: ...
    def retain_grad(self) -> None: ...
    def register_hook(self, hook: Any) -> Any: ...
    def numpy(self) -> Any: ...
    def __array__(self, dtype: Any = None, copy: Any = None) -> Any: ...
    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None) -> Any: ...
    def __dlpack_device__(self) -> tuple[_int, _int]: ...
'''

_OPERATORS = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift"]


def _qualified(text):
    """Names of types as the stubs write them: `float` and others are dtypes there."""
    text = re.sub(r"\b(int|float|bool)\b", r"_\1", text)
    return re.sub(r"\b(dtype|device)\b", lambda found: "_DType" if found[1] == "dtype" else "_Device", text).replace(
        "_DType | str", "_DType").replace("_Device | str", "_Device")


def _parameters(schema, method):
    _, parameters, result = parse(schema)
    parts, star, default_seen = [], False, False
    for number, (kind, name, default, keyword_only) in enumerate(parameters):
        if method and number == 0:
            parts.append("self")
            continue
        if keyword.iskeyword(name):  # such as `from`: by position only
            name = "_" + name
        if keyword_only and not star:
            star, default_seen = True, False
            parts.append("*")
        text = f"{name}: {_qualified(annotation(kind))}"
        if default is not None or default_seen:
            text += " = ..." if default is None else " = " + default_text(kind, default)
            default_seen = default_seen or not star
        parts.append(text)
    sizes = 1 if method else 0
    varargs = (len(parameters) > sizes and parameters[sizes][0] in ("int[]", "SymInt[]") and
               all(p[3] for p in parameters[sizes + 1:]))
    return parts, _qualified(annotation(result, False)), varargs


def _functions(name, schemas, method, indent):
    lines, seen = [], set()
    for schema in schemas:
        parts, result, varargs = _parameters(schema, method)
        forms = [parts]
        if varargs:
            rest = [part for part in parts[2 if method else 1:] if part == "*" or "=" in part]
            rest = [part for part in rest if part != "*"]
            forms.append([*(["self"] if method else []), "*sizes: _int", *rest])
        for form in forms:
            text = f"def {name}({', '.join(form)}) -> {result}: ..."
            if text not in seen:
                seen.add(text)
                lines.append(text)
    if len(lines) > 1:
        lines = [part for line in lines for part in ("@overload", line)]
    return [indent + line for line in lines]


def stubs():
    """The text of `__init__.pyi`."""
    lines = [_HEAD]
    for name, builtin in _ERRORS.items():
        lines.append(f"class {name}(HammockError, builtins.{builtin}): ...")
    lines.append("")
    lines += [f"{name}: dtype" for name in _DTYPES]
    lines += ["", _TENSOR.rstrip()]
    written = set(_TENSOR.replace("(", " ").split())
    for name in _OPERATORS:
        for prefix in ("", "r", "i"):
            lines.append(f"    def __{prefix}{name}__(self, other: Tensor | _float) -> Tensor: ...")
    for name in ("lt", "le", "gt", "ge"):
        lines.append(f"    def __{name}__(self, other: Tensor | _float) -> Tensor: ...")
    for name in ("neg", "pos", "abs", "invert"):
        lines.append(f"    def __{name}__(self) -> Tensor: ...")
    dunder = set("__and__ __or__ __xor__ __lshift__ __rshift__ __iand__ __ior__ __ixor__ __ilshift__ __irshift__".split())
    for name, op in sorted(_hammock.ops.items()):
        own = vars(hm.Tensor).get(name)
        if own is op and name not in written and name not in dunder and not keyword.iskeyword(name):
            lines += _functions(name, op.schemas, True, "    ")
    lines.append("")
    defined = {line.split("(")[0].split()[1] for line in _HEAD.splitlines() if line.startswith("def ")}
    for name, op in sorted(_hammock.ops.items()):
        if getattr(hm, name) is op and name not in defined and name not in dunder and not keyword.iskeyword(name):
            lines += _functions(name, op.schemas, False, "")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(stubs(), end="")
