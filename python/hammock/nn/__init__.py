"""Modules and layers, with PyTorch's names, arguments, defaults and state dicts."""

# `X as X` is how type checkers know that a name is public.
from typing import TYPE_CHECKING, Any

from . import functional as functional, init as init, utils as utils
from .activation import *  # noqa: F403
from .containers import (
    ModuleDict as ModuleDict,
    ModuleList as ModuleList,
    ParameterDict as ParameterDict,
    ParameterList as ParameterList,
    Sequential as Sequential,
)
from .conv import (
    Conv1d as Conv1d,
    Conv2d as Conv2d,
    Conv3d as Conv3d,
    ConvTranspose1d as ConvTranspose1d,
    ConvTranspose2d as ConvTranspose2d,
    ConvTranspose3d as ConvTranspose3d,
)
from .convert import from_torch as from_torch
from .linear import (
    Bilinear as Bilinear,
    Embedding as Embedding,
    EmbeddingBag as EmbeddingBag,
    Flatten as Flatten,
    Identity as Identity,
    Linear as Linear,
    Unflatten as Unflatten,
)
from .loss import *  # noqa: F403
from .module import Module as Module, Parameter as Parameter
from .norm import (
    BatchNorm1d as BatchNorm1d,
    BatchNorm2d as BatchNorm2d,
    BatchNorm3d as BatchNorm3d,
    GroupNorm as GroupNorm,
    InstanceNorm1d as InstanceNorm1d,
    InstanceNorm2d as InstanceNorm2d,
    InstanceNorm3d as InstanceNorm3d,
    LayerNorm as LayerNorm,
    LocalResponseNorm as LocalResponseNorm,
    RMSNorm as RMSNorm,
)
from .pooling import *  # noqa: F403
from .quantize import (
    ByteConv as ByteConv,
    ByteLinear as ByteLinear,
    Calibration as Calibration,
    MinMaxObserver as MinMaxObserver,
    QuantizedLinear as QuantizedLinear,
    quantize_ as quantize_,
)
from .recurrent import (
    GRU as GRU,
    GRUCell as GRUCell,
    LSTM as LSTM,
    LSTMCell as LSTMCell,
    RNN as RNN,
    RNNCell as RNNCell,
)
from .stateless import functional_call as functional_call, stack_module_state as stack_module_state
from .transformer import (
    MultiheadAttention as MultiheadAttention,
    Transformer as Transformer,
    TransformerDecoder as TransformerDecoder,
    TransformerDecoderLayer as TransformerDecoderLayer,
    TransformerEncoder as TransformerEncoder,
    TransformerEncoderLayer as TransformerEncoderLayer,
)

if TYPE_CHECKING:  # classes that are made from a table
    def __getattr__(name: str) -> Any: ...
