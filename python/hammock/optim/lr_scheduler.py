"""Schedules: rates that change as training goes on. Names, defaults and curves are PyTorch's."""

import bisect
import math

import hammock as hm

__all__ = ["CosineAnnealingLR", "CosineAnnealingWarmRestarts", "ExponentialLR", "LambdaLR", "LinearLR", "LRScheduler", "MultiStepLR",
           "OneCycleLR", "ReduceLROnPlateau", "SequentialLR", "StepLR"]


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
        self._set_others()

    def _set_others(self):
        """What changes besides the rates."""

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


def _cosine(start, end, part):
    """Half a cosine from one number to another."""
    return end + (start - end) * (1 + math.cos(math.pi * part)) / 2


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the base rate down to `eta_min` in `T_max` steps, and up again."""

    def __init__(self, optimizer, T_max, eta_min=0.0):
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer)

    def get_lr(self, base):
        return _cosine(base, self.eta_min, self.last_epoch / self.T_max)


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half cosines one after another, each `T_mult` times as long as the one before."""

    def __init__(self, optimizer, T_0, T_mult=1, eta_min=0.0):
        if T_0 < 1 or T_mult < 1:
            raise hm.ValueError(f"CosineAnnealingWarmRestarts: T_0 is {T_0} and T_mult {T_mult}, both must be at least 1")
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        super().__init__(optimizer)

    def get_lr(self, base):
        step, length = self.last_epoch, self.T_0
        while step >= length:
            step -= length
            length *= self.T_mult
        return _cosine(base, self.eta_min, step / length)


class OneCycleLR(LRScheduler):
    """Up to `max_lr` and down again, with the momentum the other way round. `total_steps` counts all calls of step."""

    def __init__(self, optimizer, max_lr, total_steps=None, epochs=None, steps_per_epoch=None, pct_start=0.3, anneal_strategy="cos",
                 cycle_momentum=True, base_momentum=0.85, max_momentum=0.95, div_factor=25.0, final_div_factor=1e4,
                 three_phase=False):
        if total_steps is None:
            if not epochs or not steps_per_epoch:
                raise hm.ValueError("OneCycleLR: needs total_steps, or epochs and steps_per_epoch")
            total_steps = epochs * steps_per_epoch
        if anneal_strategy not in ("cos", "linear") or not 0 <= pct_start <= 1:
            raise hm.ValueError(f"OneCycleLR: anneal_strategy is 'cos' or 'linear', not {anneal_strategy!r}; pct_start is 0 to 1, "
                                f"not {pct_start}")
        self.total_steps, self.anneal_strategy, self.cycle_momentum = total_steps, anneal_strategy, cycle_momentum
        first, last = max_lr / div_factor, max_lr / div_factor / final_div_factor
        risen = pct_start * total_steps - 1
        up, down = (first, max_lr, max_momentum, base_momentum), (max_lr, last, base_momentum, max_momentum)
        self._phases = [(risen, *up), (total_steps - 1, *down)]  # the end; rates and momentums from and to
        if three_phase:
            self._phases = [(risen, *up), (2 * risen, max_lr, first, base_momentum, max_momentum),
                            (total_steps - 1, first, last, max_momentum, max_momentum)]
        super().__init__(optimizer)

    def _at(self, column):
        if self.last_epoch > self.total_steps:
            raise hm.ValueError(f"OneCycleLR: step {self.last_epoch} of {self.total_steps} asked for")
        start = 0
        for phase in self._phases:
            if self.last_epoch <= phase[0] or phase is self._phases[-1]:
                part = (self.last_epoch - start) / (phase[0] - start) if phase[0] != start else 1.0
                low, high = phase[column:column + 2]
                return low + (high - low) * part if self.anneal_strategy == "linear" else _cosine(low, high, part)
            start = phase[0]

    def get_lr(self, base):
        return self._at(1)

    def _set_others(self):
        for group in self.optimizer.param_groups:
            if self.cycle_momentum and group["momentum"] != 0:
                group["momentum"] = self._at(3)


class SequentialLR(LRScheduler):
    """One schedule after another: number i + 1 begins, at its own step 0, at milestone i."""

    def __init__(self, optimizer, schedulers, milestones):
        if len(schedulers) != len(milestones) + 1 or list(milestones) != sorted(milestones):
            raise hm.ValueError(f"SequentialLR: {len(schedulers)} schedules and {len(milestones)} milestones; expected one schedule "
                                "more than milestones, which ascend")
        self._schedulers, self.milestones = list(schedulers), list(milestones)
        # What the schedules did to the rates when they were made was not yet their turn.
        self.optimizer, self.base_lrs, self.last_epoch = optimizer, self._schedulers[0].base_lrs, 0
        self._set()

    def _set(self):
        number = bisect.bisect_right(self.milestones, self.last_epoch)
        schedule = self._schedulers[number]
        schedule.base_lrs = self.base_lrs
        schedule.last_epoch = self.last_epoch - (self.milestones[number - 1] if number else 0)
        schedule._set()


class ReduceLROnPlateau:
    """Lowers the rate when a metric has not become better for more than `patience` steps."""

    def __init__(self, optimizer, mode="min", factor=0.1, patience=10, threshold=1e-4, threshold_mode="rel", cooldown=0, min_lr=0.0,
                 eps=1e-8):
        if factor >= 1 or mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise hm.ValueError(f"ReduceLROnPlateau: factor is below 1, not {factor}; mode is 'min' or 'max', not {mode!r}; "
                                f"threshold_mode is 'rel' or 'abs', not {threshold_mode!r}")
        self.optimizer, self.mode, self.factor, self.patience = optimizer, mode, factor, patience
        self.threshold, self.threshold_mode, self.cooldown, self.min_lr, self.eps = threshold, threshold_mode, cooldown, min_lr, eps
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = 0

    def _is_better(self, metric):
        sign = -1 if self.mode == "min" else 1
        margin = abs(self.best) * self.threshold if self.threshold_mode == "rel" and math.isfinite(self.best) else self.threshold
        return sign * metric > sign * self.best + margin

    def step(self, metrics):
        """Takes the metric of an epoch: a number, or a tensor that is read."""
        metric = float(metrics)
        if self._is_better(metric):
            self.best, self.num_bad_epochs = metric, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs <= self.patience:
            return
        for group in self.optimizer.param_groups:
            lower = max(group["lr"] * self.factor, self.min_lr)
            if group["lr"] - lower > self.eps:
                group["lr"] = lower
        self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0

    def get_last_lr(self):
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self):
        return {"best": self.best, "num_bad_epochs": self.num_bad_epochs, "cooldown_counter": self.cooldown_counter}

    def load_state_dict(self, state):
        self.best, self.num_bad_epochs, self.cooldown_counter = (state[name] for name in
                                                                 ("best", "num_bad_epochs", "cooldown_counter"))
