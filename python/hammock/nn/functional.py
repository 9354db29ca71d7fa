"""The ops of layers, under PyTorch's `functional` name: `F.relu` is `hammock.relu`."""

from .. import _hammock


def __getattr__(name):
    op = _hammock.find_op(name)
    if op is None:
        raise AttributeError(f"there is no op '{name}'")
    return op


def __dir__():
    return sorted(_hammock.ops)
