"""Normalisation."""

import hammock as hm

from .activation import make_layers
from .module import Module, Parameter

make_layers(globals(), [("LocalResponseNorm", "local_response_norm", {"size": None, "alpha": 1e-4, "beta": 0.75, "k": 1.0})])


class _Running(Module):
    """Norms over a batch, with moving averages."""

    def __init__(self, num_features, eps, momentum, affine, track_running_stats):
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self.weight = Parameter(hm.ones([num_features])) if affine else None
        self.bias = Parameter(hm.zeros([num_features])) if affine else None
        self.register_buffer("running_mean", hm.zeros([num_features]) if track_running_stats else None)
        self.register_buffer("running_var", hm.ones([num_features]) if track_running_stats else None)
        self.register_buffer("num_batches_tracked",
                             hm.zeros([], dtype=hm.int64) if track_running_stats else None)

    def _check(self, x):
        if x.ndim not in self._ranks:
            raise hm.ValueError(f"{type(self).__name__}: takes tensors of {self._ranks} dims, not of {x.ndim}")

    def extra_repr(self):
        return (f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
                f"track_running_stats={self.track_running_stats}")


class _BatchNorm(_Running):
    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True):
        super().__init__(num_features, eps, momentum, affine, track_running_stats)

    def forward(self, x):
        self._check(x)
        batch = self.training or self.running_mean is None
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.num_batches_tracked is not None:
            with hm.no_grad():
                self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the plain average of all batches
                momentum = 1.0 / self.num_batches_tracked.item()
        return hm.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, batch, momentum, self.eps)


class BatchNorm1d(_BatchNorm):
    _ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    _ranks = (4,)


class BatchNorm3d(_BatchNorm):
    _ranks = (5,)


class _InstanceNorm(_Running):
    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False):
        super().__init__(num_features, eps, momentum, affine, track_running_stats)

    def forward(self, x):
        self._check(x)
        own = self.training or not self.track_running_stats
        return hm.instance_norm(x, self.running_mean, self.running_var, self.weight, self.bias, own, self.momentum, self.eps)


class InstanceNorm1d(_InstanceNorm):
    _ranks = (3,)


class InstanceNorm2d(_InstanceNorm):
    _ranks = (4,)


class InstanceNorm3d(_InstanceNorm):
    _ranks = (5,)


class LayerNorm(Module):
    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True):
        super().__init__()
        self.normalized_shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
        self.eps = eps
        self.weight = Parameter(hm.ones(self.normalized_shape)) if elementwise_affine else None
        self.bias = Parameter(hm.zeros(self.normalized_shape)) if elementwise_affine and bias else None

    def forward(self, x):
        return hm.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return f"{tuple(self.normalized_shape)}, eps={self.eps}, elementwise_affine={self.weight is not None}"


class RMSNorm(Module):
    def __init__(self, normalized_shape, eps=None, elementwise_affine=True):
        super().__init__()
        self.normalized_shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
        self.eps = eps
        self.weight = Parameter(hm.ones(self.normalized_shape)) if elementwise_affine else None

    def forward(self, x):
        return hm.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self):
        return f"{tuple(self.normalized_shape)}, eps={self.eps}, elementwise_affine={self.weight is not None}"


class GroupNorm(Module):
    def __init__(self, num_groups, num_channels, eps=1e-5, affine=True):
        super().__init__()
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = Parameter(hm.ones([num_channels])) if affine else None
        self.bias = Parameter(hm.zeros([num_channels])) if affine else None

    def forward(self, x):
        return hm.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}"
