"""Probability distributions, by the names and arguments of torch.distributions.

>>> import hammock as hm
>>> policy = hm.distributions.Normal(hm.tensor([0.0, 1.0]), 2.0)
>>> policy.log_prob(hm.tensor([0.0, 1.0]))
tensor([-1.6121, -1.6121])
>>> hm.distributions.kl_divergence(policy, hm.distributions.Normal(0.0, 2.0))
tensor([0.0000, 0.1250])

Parameters are tensors or numbers and broadcast. A number outside of its domain is refused at once, a tensor where its value
is used; `validate_args` is taken and changes nothing. Drawing is by the default generator (`hm.manual_seed`).
"""

from . import _hammock

_distributions = _hammock.distributions

__all__ = [name for name in vars(_distributions) if not name.startswith("_")]

for _name in __all__:
    globals()[_name] = getattr(_distributions, _name)
    if isinstance(globals()[_name], type):
        globals()[_name].__module__ = __name__
