"""Modules and layers, with PyTorch's names, arguments, defaults and state dicts."""

from typing import TYPE_CHECKING, Any

from . import functional, init, utils
from .activation import *  # noqa: F403
from .containers import ModuleDict, ModuleList, ParameterList, Sequential
from .conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .convert import from_torch
from .linear import Bilinear, Embedding, Flatten, Identity, Linear, Unflatten
from .loss import *  # noqa: F403
from .module import Module, Parameter
from .norm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    GroupNorm,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    LayerNorm,
    RMSNorm,
)
from .pooling import *  # noqa: F403
from .recurrent import GRU, LSTM, RNN
from .stateless import functional_call, stack_module_state
from .transformer import MultiheadAttention, TransformerEncoder, TransformerEncoderLayer

if TYPE_CHECKING:  # classes that are made from a table
    def __getattr__(name: str) -> Any: ...
