"""Hammock: lazy tensors. Ops are recorded, compiled once, cached, and run on any backend.

>>> import hammock as hm
>>> x = hm.tensor([[1.0, 2.0], [3.0, 4.0]])
>>> (x @ x).sum()
tensor(54.)
"""

import os as _os

from . import _hammock
from ._hammock import (
    CompileError,
    DeviceError,
    Generator,
    HammockError,
    IndexError,
    InternalError,
    NotSupported,
    Op,
    OutOfMemory,
    Tensor,
    TypeError,
    ValueError,
    asarray,
    bfloat16,
    bool as bool,
    cache_stats,
    compile_misses,
    complex64,
    complex128,
    config,
    default_device,
    default_generator,
    device,
    devices,
    dtype,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    from_dlpack,
    from_numpy,
    graph_text,
    int2,
    int4,
    int8,
    int16,
    int32,
    int64,
    is_grad_enabled,
    manual_seed,
    mark_step,
    metrics,
    run_repro,
    save_repro,
    set_default_device,
    set_printoptions,
    sync,
    tensor,
    uint2,
    uint4,
    uint8,
    uint16,
    uint32,
    uint64,
    wait_device_ops,
)

_hammock.set_package_directory(_os.path.dirname(_os.path.abspath(__file__)) + _os.sep)

_submodules = ("array_api", "data", "distributed", "distributions", "fft", "io", "jit", "linalg", "nn", "onnx", "optim", "profile",
               "signal", "sparse", "special")
# Names whose modules are imported at their first use.
_late = {"compile": "_compile", "CustomOp": "_custom", **dict.fromkeys(("cond", "loop", "while_loop"), "_control"),
         **dict.fromkeys(("from_torch", "to_torch"), "_exchange"), **dict.fromkeys(("finfo", "iinfo"), "_numbers"),
         **dict.fromkeys(("hessian", "jacfwd", "jacrev", "vmap"), "_vmap")}

# Every op of the registry is a function here; names above and below go before them.
globals().update({_name: _op for _name, _op in _hammock.ops.items() if _name not in globals() and _name not in _late})

from . import _tensor  # noqa: E402: methods of Tensor
from ._autograd import (  # noqa: E402
    Function,
    autocast,
    checkpoint,
    enable_grad,
    grad,
    inference_mode,
    jvp,
    no_grad,
    set_grad_enabled,
    value_and_grad,
    vjp,
)
from ._execution import Activity, eager, expect_no_recompile, explain, no_execution, step  # noqa: E402

half, float, double = float16, float32, float64
short, int, long = int16, int32, int64
newaxis = None
e = 2.718281828459045
pi = 3.141592653589793
inf = 1e400
nan = inf - inf

__version__ = "0.1.0"


def _module(name):
    import importlib

    return importlib.import_module("hammock." + name)


def __getattr__(name):
    """Submodules at their first use, and ops that a library has registered since."""
    if name in _submodules:
        return _module(name)
    if name in _late:
        globals()[name] = getattr(_module(_late[name]), name)
        return globals()[name]
    if name in ("sparse_coo_tensor", "sparse_csr_tensor"):
        from . import sparse

        return getattr(sparse, name)
    op = None if name.startswith("__") else _hammock.find_op(name)
    if op is not None:
        globals()[name] = op
        return op
    import difflib

    nearest = difflib.get_close_matches(name, globals(), 1)
    hint = f"; did you mean '{nearest[0]}'?" if nearest else ""
    raise AttributeError(f"module 'hammock' has no attribute '{name}'{hint}")


def __dir__():
    return sorted({*globals(), *_submodules, *_late})
