"""Optimisers and schedules. The updates are those of C++, recorded as ops; names and defaults are PyTorch's."""

import math

import hammock as hm

from . import _hammock

_rules = _hammock.optim
clip_grad_norm_, clip_grad_value_ = _rules.clip_grad_norm_, _rules.clip_grad_value_


def _split_options(options):
    options = dict(options)
    if "betas" in options:
        options["beta1"], options["beta2"] = options.pop("betas")
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
        self.param_groups = [_Group(self._optimizer, number, tensors) for number, (tensors, _) in enumerate(made)]

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


class _Group:
    """A group of parameters: `group["lr"]` reads and sets the rate of the next step."""

    def __init__(self, optimizer, number, params):
        self._optimizer, self._number, self._params = optimizer, number, params

    def __getitem__(self, name):
        if name == "params":
            return self._params
        if name == "lr":
            return self._optimizer.lr(self._number)
        if name == "momentum":
            return self._optimizer.momentum(self._number)
        raise KeyError(name)

    def __setitem__(self, name, value):
        if name == "lr":
            self._optimizer.set_lr(self._number, float(value))
        elif name == "momentum":
            self._optimizer.set_momentum(self._number, float(value))
        else:
            raise KeyError(name)

    def keys(self):
        return ["params", "lr", "momentum"]


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


class GradScaler(_rules.GradScaler):
    """Keeps the gradients of half precision from vanishing: scale, unscale_, step, update."""

    def unscale_(self, optimizer):
        self._unscale(optimizer._optimizer)

    def step(self, optimizer):
        """Makes the step, unless a gradient is not finite."""
        self._step(optimizer._optimizer)

    def _state_tensors(self):
        return list(self.state_dict().values())


class LRScheduler:
    """Sets the rates of an optimiser: a function of the number of steps and of the rates at the start."""

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.base_lrs = [group["lr"] for group in optimizer.param_groups]
        self.last_epoch = 0
        self._set()

    def get_lr(self, base):
        raise NotImplementedError("get_lr")

    def _set(self):
        for group, base in zip(self.optimizer.param_groups, self.base_lrs):
            group["lr"] = self.get_lr(base)

    def step(self):
        self.last_epoch += 1
        self._set()

    def get_last_lr(self):
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self):
        return {"last_epoch": self.last_epoch, "base_lrs": list(self.base_lrs)}

    def load_state_dict(self, state):
        self.last_epoch, self.base_lrs = state["last_epoch"], list(state["base_lrs"])
        self._set()


class LambdaLR(LRScheduler):
    """The base rate times `lr_lambda(step)`."""

    def __init__(self, optimizer, lr_lambda):
        self._factor = lr_lambda
        super().__init__(optimizer)

    def get_lr(self, base):
        return base * self._factor(self.last_epoch)


class StepLR(LRScheduler):
    """Times `gamma` every `step_size` steps."""

    def __init__(self, optimizer, step_size, gamma=0.1):
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer)

    def get_lr(self, base):
        return base * self.gamma ** (self.last_epoch // self.step_size)


class MultiStepLR(LRScheduler):
    """Times `gamma` at each of the milestones."""

    def __init__(self, optimizer, milestones, gamma=0.1):
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer)

    def get_lr(self, base):
        return base * self.gamma ** sum(milestone <= self.last_epoch for milestone in self.milestones)


class ExponentialLR(LRScheduler):
    """Times `gamma` at every step."""

    def __init__(self, optimizer, gamma):
        self.gamma = gamma
        super().__init__(optimizer)

    def get_lr(self, base):
        return base * self.gamma**self.last_epoch


class LinearLR(LRScheduler):
    """From one factor to another in equal parts: a warm-up."""

    def __init__(self, optimizer, start_factor=1 / 3, end_factor=1.0, total_iters=5):
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer)

    def get_lr(self, base):
        part = min(self.last_epoch, self.total_iters) / self.total_iters
        return base * (self.start_factor + (self.end_factor - self.start_factor) * part)


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the base rate down to `eta_min` in `T_max` steps, and up again."""

    def __init__(self, optimizer, T_max, eta_min=0.0):
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer)

    def get_lr(self, base):
        return self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2


class lr_scheduler:
    """The schedules under PyTorch's name."""

    LRScheduler, LambdaLR, StepLR, MultiStepLR = LRScheduler, LambdaLR, StepLR, MultiStepLR
    ExponentialLR, LinearLR, CosineAnnealingLR = ExponentialLR, LinearLR, CosineAnnealingLR
