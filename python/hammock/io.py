"""Files: tensors in the safetensors format, and checkpoints of whole runs."""

import json

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


class Checkpoint:
    """All that a run needs to go on, in one safetensors file: modules, optimisers, schedules, averages, scalers and whatever
    else has `state_dict` and `load_state_dict`, and the state of the default random generator. A resumed run computes the
    same bits as one that was never stopped.

    >>> import os, tempfile, hammock as hm
    >>> from hammock import io, nn, optim
    >>> net = nn.Linear(2, 1)
    >>> optimizer = optim.Adam(net.parameters(), lr=0.1)
    >>> run = io.Checkpoint(model=net, optimizer=optimizer)
    >>> path = os.path.join(tempfile.mkdtemp(), "run.safetensors")
    >>> run.save(path, step=7)
    >>> run.load(path)
    {'step': 7}
    """

    def __init__(self, **parts):
        for name, part in parts.items():
            if name in ("values", "rng") or "." in name:
                raise hm.ValueError(f"Checkpoint: a part cannot be called '{name}'; 'values', 'rng' and dots have a meaning in the file")
            if not hasattr(part, "state_dict") or not hasattr(part, "load_state_dict"):
                raise hm.TypeError(f"Checkpoint: '{name}' has no state_dict and load_state_dict, but is {type(part).__name__}; "
                                   "numbers and texts are given to save")
        self._parts = parts

    def save(self, path, **values):
        """Computes what is pending and writes the file, whole or not at all. `values` are numbers, texts, lists and dicts."""
        tensors, texts = {}, {"values": json.dumps(values)}
        for name, part in self._parts.items():
            others = {}
            for key, value in part.state_dict().items():
                if isinstance(value, hm.Tensor):
                    tensors[f"{name}.{key}"] = value
                else:
                    others[key] = value
            texts[name] = json.dumps(others)
        generator = hm.default_generator()
        texts["rng"] = json.dumps([generator.seed, generator.offset])
        save_safetensors(tensors, path, texts)

    def load(self, path):
        """Loads all parts and returns the values that were saved with them. If one fails, all are as they were."""
        tensors, texts = _hammock.read_safetensors(str(path), None)
        if "values" not in texts or "rng" not in texts:
            raise hm.ValueError(f"Checkpoint: {path} is no checkpoint of a run; load_safetensors reads its tensors")
        missing = [name for name in self._parts if name not in texts]
        if missing:
            raise hm.ValueError(f"Checkpoint: {path} has no {', '.join(missing)}")
        values, (seed, offset) = json.loads(texts["values"]), json.loads(texts["rng"])
        before = {name: _copied(part.state_dict()) for name, part in self._parts.items()}
        try:
            for name, part in self._parts.items():
                own = {key[len(name) + 1:]: value for key, value in tensors.items() if key.startswith(name + ".")}
                part.load_state_dict({**own, **json.loads(texts[name])})
        except Exception:
            for name, part in self._parts.items():
                part.load_state_dict(before[name])
            raise
        generator = hm.default_generator()
        generator.manual_seed(seed)
        generator.offset = offset
        return values


def _copied(state):
    return {key: value.clone() if isinstance(value, hm.Tensor) else value for key, value in state.items()}
