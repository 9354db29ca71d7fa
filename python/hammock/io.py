"""Files of tensors, in the safetensors format."""

import hammock as hm

from . import _hammock


def save_safetensors(tensors, path, metadata=None):
    """Writes named tensors to a file, whole or not at all."""
    named = []
    for name, value in tensors.items():
        if not isinstance(value, hm.Tensor):
            raise hm.TypeError(f"save_safetensors: '{name}' is no Tensor, but {type(value).__name__}")
        named.append((str(name), value.detach()))
    _hammock.write_safetensors(str(path), named, {str(k): str(v) for k, v in (metadata or {}).items()})


def load_safetensors(path, device=None):
    """The tensors of a file by name."""
    return _hammock.read_safetensors(str(path), device)[0]


def load_metadata(path):
    """The texts of a file by name."""
    return _hammock.read_safetensors(str(path), None)[1]
