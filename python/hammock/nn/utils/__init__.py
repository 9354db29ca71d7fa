"""Limits on gradients, and parameters as one vector."""

import hammock as hm

from ... import _hammock
from . import parametrizations as parametrizations, parametrize as parametrize, rnn as rnn


def _listed(parameters):
    return [parameters] if isinstance(parameters, hm.Tensor) else list(parameters)


def clip_grad_norm_(parameters, max_norm, norm_type=2.0):
    """Scales all gradients together so that their norm is at most `max_norm`; returns the norm they had."""
    return _hammock.optim.clip_grad_norm_(_listed(parameters), max_norm, norm_type)


def clip_grad_value_(parameters, clip_value):
    """Limits every element of the gradients."""
    _hammock.optim.clip_grad_value_(_listed(parameters), clip_value)


def parameters_to_vector(parameters):
    return hm.cat([parameter.reshape([-1]) for parameter in parameters])


def vector_to_parameters(vector, parameters):
    start = 0
    with hm.no_grad():
        for parameter in parameters:
            parameter.copy_(vector[start:start + parameter.numel()].view(list(parameter.shape)))
            start += parameter.numel()
