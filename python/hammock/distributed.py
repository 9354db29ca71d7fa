"""Programs of several processes (ranks), which `hammock launch -n 2 python train.py` starts; docs/distributed.md says more.

>>> import hammock as hm
>>> world = hm.distributed.init()
>>> hm.distributed.all_reduce(hm.ones(2), "mean").tolist()
[1.0, 1.0]
>>> hm.distributed.shutdown()

Collectives are ops: they are recorded, and run when their step runs. Every rank of a group records the same ones in the same order.
"""

from . import _hammock
from ._autograd import _Mode, no_grad

Group = _hammock.distributed.Group
init, shutdown, is_initialized = (getattr(_hammock.distributed, name) for name in ("init", "shutdown", "is_initialized"))
world, rank, size, local_rank = (getattr(_hammock.distributed, name) for name in ("world", "rank", "size", "local_rank"))
all_reduce, all_gather, reduce_scatter = (
    getattr(_hammock.distributed, name) for name in ("all_reduce", "all_gather", "reduce_scatter"))
broadcast, all_to_all, permute = (getattr(_hammock.distributed, name) for name in ("broadcast", "all_to_all", "permute"))

__all__ = ["DataParallel", "Group", "RandomPart", "all_gather", "all_reduce", "all_to_all", "broadcast", "init", "is_initialized",
           "local_rank", "permute", "rank", "reduce_scatter", "shutdown", "size", "world"]


class RandomPart(_Mode):
    """In this scope a tensor that a random op draws is this rank's part, along `dim`, of what one rank would draw for all."""

    def __init__(self, group=None, dim=0):
        self._arguments = (group, dim)
        self._scopes = []

    def __enter__(self):
        scope = _hammock.distributed.RandomPart(*self._arguments)
        scope.enter()
        self._scopes.append(scope)

    def __exit__(self, *exception):
        self._scopes.pop().exit()


class DataParallel:
    """Data parallel training: every rank has the whole model and a part of each batch. Gives the module the parameters and buffers
    that it has on rank 0."""

    def __init__(self, module, group=None):
        self.module, self.group = module, group
        with no_grad():
            for tensor in [*module.parameters(), *module.buffers()]:
                tensor.copy_(broadcast(tensor, 0, group))

    def __call__(self, *args, **kwargs):
        """The module on this rank's part of the batch, with the random numbers of that part."""
        with RandomPart(self.group):
            return self.module(*args, **kwargs)

    def reduce_gradients(self):
        """Replaces the gradients of the parameters by their mean over all ranks, in few messages."""
        # The last parameters have their gradients first.
        owners = [parameter for parameter in reversed(list(self.module.parameters())) if parameter.grad is not None]
        with no_grad():
            means = all_reduce([parameter.grad for parameter in owners], "mean", self.group)
            for parameter, mean in zip(owners, means):
                parameter.grad = mean
