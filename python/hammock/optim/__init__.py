"""Optimisers and schedules. The updates are those of C++, recorded as ops; names and defaults are PyTorch's."""

import collections.abc

import hammock as hm

from .. import _hammock
from . import lr_scheduler as lr_scheduler
from .lr_scheduler import *  # noqa: F403

_rules = _hammock.optim
clip_grad_norm_, clip_grad_value_ = _rules.clip_grad_norm_, _rules.clip_grad_value_


def _split_options(options):
    options = dict(options)
    if "betas" in options:
        options["beta1"], options["beta2"] = options.pop("betas")
    return options


def _joined_options(options):
    if "beta1" in options:
        options["betas"] = (options.pop("beta1"), options.pop("beta2"))
    return options


class Optimizer:
    """Base of the optimisers: takes parameters, or groups of them as dicts with "params" and options."""

    _rule = None

    def __init__(self, params, **options):
        params = [params] if isinstance(params, hm.Tensor) else list(params)
        if not params:
            raise hm.ValueError(f"{type(self).__name__}: there are no parameters")
        groups = params if isinstance(params[0], dict) else [{"params": params}]
        made = []
        for group in groups:
            own = {**options, **{name: value for name, value in group.items() if name != "params"}}
            tensors = [group["params"]] if isinstance(group["params"], hm.Tensor) else list(group["params"])
            made.append((tensors, _split_options(own)))
        self._optimizer = self._rule(made)
        self.param_groups = [_Group(self._optimizer, number, tensors, _joined_options(self._optimizer.options(number)))
                             for number, (tensors, _) in enumerate(made)]

    def step(self, closure=None):
        """Updates every parameter that has a gradient. Recorded, not run."""
        loss = None
        if closure is not None:
            with hm.enable_grad():
                loss = closure()
        self._optimizer.step()
        return loss

    def zero_grad(self, set_to_none=True):
        """Forgets all gradients."""
        self._optimizer.zero_grad()

    def state_dict(self):
        """All that a resumed run needs, by names such as "0.exp_avg"."""
        return self._optimizer.state_dict()

    def load_state_dict(self, state):
        self._optimizer.load_state_dict(state)

    def _state_tensors(self):
        """What `compile` needs to know."""
        return [*self._optimizer.tensors(), *self._optimizer.state_dict().values()]

    def __repr__(self):
        rates = ", ".join(str(group["lr"]) for group in self.param_groups)
        return f"{type(self).__name__}(lr={rates})"


class _Group(collections.abc.Mapping):
    """The parameters of a group and its options by PyTorch's names. "lr", "momentum" and the first of "betas" may be set: they
    are those of the next step."""

    def __init__(self, optimizer, number, params, options):
        self._optimizer, self._number = optimizer, number
        self._given = {"params": params, **options}

    def __getitem__(self, name):
        if name == "lr":
            return self._optimizer.lr(self._number)
        if name == "momentum":  # of Adam the first of "betas", as schedules use it
            return self._optimizer.momentum(self._number)
        if name == "betas" and name in self._given:
            return self["momentum"], self._given["betas"][1]
        return self._given[name]

    def __setitem__(self, name, value):
        if name == "lr":
            self._optimizer.set_lr(self._number, float(value))
        elif name == "momentum":
            self._optimizer.set_momentum(self._number, float(value))
        elif name == "betas" and value[1:] == self["betas"][1:]:
            self["momentum"] = value[0]
        elif name in self._given:
            raise hm.NotSupported(f"optimizer: '{name}' cannot change from {self[name]!r} to {value!r}; make a new optimizer")
        else:
            raise KeyError(name)

    def __iter__(self):
        return iter(self._given)

    def __len__(self):
        return len(self._given)

    def __contains__(self, name):
        return name in self._given

    def __repr__(self):
        return repr(dict(self))


def _make(name, doc):
    return type(name, (Optimizer,), {"_rule": getattr(_rules, name), "__doc__": doc, "__module__": __name__})


SGD = _make("SGD", "Gradient descent: lr, momentum, dampening, weight_decay, nesterov, maximize.")
Adam = _make("Adam", "Adam: lr, betas, eps, weight_decay, amsgrad, maximize.")
AdamW = _make("AdamW", "Adam with decoupled weight decay.")
SparseAdam = _make("SparseAdam", "Adam of the rows that sparse gradients have: lr, betas, eps, maximize.")
Adamax = _make("Adamax", "Adam by the infinity norm.")
NAdam = _make("NAdam", "Adam with Nesterov's momentum.")
RAdam = _make("RAdam", "Rectified Adam.")
RMSprop = _make("RMSprop", "RMSprop: lr, alpha, eps, weight_decay, momentum, centered, maximize.")
Adagrad = _make("Adagrad", "Adagrad: lr, lr_decay, weight_decay, initial_accumulator_value, eps, maximize.")
Adadelta = _make("Adadelta", "Adadelta: lr, rho, eps, weight_decay, maximize.")
Lion = _make("Lion", "Lion: lr, betas, weight_decay.")


class LBFGS(Optimizer):
    """A quasi-Newton method for problems without noise: lr, max_iter, max_eval, tolerance_grad, tolerance_change,
    history_size, line_search_fn (None or "strong_wolfe"). A step calls the closure several times and computes at once."""

    def __init__(self, params, lr=1, max_iter=20, max_eval=None, tolerance_grad=1e-7, tolerance_change=1e-9, history_size=100,
                 line_search_fn=None):
        if line_search_fn not in (None, "strong_wolfe"):
            raise hm.ValueError(f"LBFGS: line_search_fn is None or 'strong_wolfe', not {line_search_fn!r}")
        tensors = [params] if isinstance(params, hm.Tensor) else list(params)
        self._optimizer = _rules.LBFGS(tensors, lr, max_iter, max_eval, tolerance_grad, tolerance_change, history_size,
                                       line_search_fn is not None)
        options = {"lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
                   "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
                   "line_search_fn": line_search_fn}
        self.param_groups = [_Group(self._optimizer, 0, tensors, options)]

    def step(self, closure):
        """Up to `max_iter` iterations; the closure zeroes the gradients, calls `backward` and returns the loss. Returns the
        loss before the step."""
        with hm.enable_grad():
            return self._optimizer.step(closure)


class EMA(_rules.EMA):
    """Exponential moving averages of parameters: `update` after each step; `swap` exchanges both."""

    def __init__(self, params, decay):
        super().__init__(list(params), decay)

    def _state_tensors(self):
        return [*self.averages()]


class GradScaler(_rules.GradScaler):
    """Keeps the gradients of half precision from vanishing: scale, unscale_, step, update."""

    def unscale_(self, optimizer):
        self._unscale(optimizer._optimizer)

    def step(self, optimizer):
        """Makes the step, unless a gradient is not finite."""
        self._step(optimizer._optimizer)

    def _state_tensors(self):
        return list(self.state_dict().values())
