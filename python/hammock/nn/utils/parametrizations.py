"""Norms of weights as parametrisations."""

import hammock as hm

from ..module import Module
from .parametrize import register_parametrization


class _WeightNorm(Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, length, direction):
        return direction * (length / hm.norm_except_dim(direction, 2, self.dim))

    def right_inverse(self, weight):
        return hm.norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module, name="weight", dim=0):
    """A weight as lengths, one for each index of `dim`, times directions."""
    return register_parametrization(module, name, _WeightNorm(dim))


class _SpectralNorm(Module):
    def __init__(self, weight, n_power_iterations, dim, eps):
        super().__init__()
        if n_power_iterations < 1:
            raise hm.ValueError(f"spectral_norm: n_power_iterations is {n_power_iterations}, expected at least 1")
        self.n_power_iterations, self.dim, self.eps = n_power_iterations, dim, eps
        if weight.ndim < 2:
            return
        matrix = self._matrix(weight.detach())
        for name, size in zip(("_u", "_v"), matrix.shape):
            self.register_buffer(name, hm.normalize(hm.randn(size, dtype=matrix.dtype, device=matrix.device), 2.0, 0, eps))
        self._iterate(matrix, 15)

    def _matrix(self, weight):
        return (weight if self.dim == 0 else weight.movedim(self.dim, 0)).flatten(1)

    @hm.no_grad()
    def _iterate(self, matrix, times):
        for _ in range(times):
            self._u.copy_(hm.normalize(matrix @ self._v, 2.0, 0, self.eps))
            self._v.copy_(hm.normalize(matrix.mT @ self._u, 2.0, 0, self.eps))

    def forward(self, weight):
        if weight.ndim < 2:
            return hm.normalize(weight, 2.0, 0, self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix.detach(), self.n_power_iterations)
        return weight / (self._u.clone() * (matrix @ self._v.clone())).sum()


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """A weight divided by its largest singular value, which each use in training follows by iterations of the power method."""
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    return register_parametrization(module, name, _SpectralNorm(getattr(module, name), n_power_iterations, dim, eps))
