"""Prints what PyTorch's optimisers and schedulers do, as pytorch.json has it.

    python3 pytorch.py > pytorch.json

By PyTorch 2. Version 1.13 counts the momentum of NAdam's step twice in what it divides the average by.
"""
import json
import torch

torch.set_default_dtype(torch.float64)


def values(count, scale, shift):
    return [((i * 2654435761 % 2**32) / 2**32 - shift) * scale for i in range(count)]


def problem():
    w = torch.tensor(values(12, 2.0, 0.4)).reshape(3, 4).requires_grad_()
    b = torch.tensor(values(4, 1.0, 0.5)).requires_grad_()
    x = torch.tensor(values(15, 3.0, 0.5)).reshape(5, 3)
    y = torch.tensor(values(20, 1.0, 0.3)).reshape(5, 4)
    return w, b, lambda: torch.tanh(x @ w + b).sub(y).square().mean()


OPTIMIZERS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("SGD", {"lr": 0.01, "maximize": True}),
    ("Adam", {"lr": 0.01}),
    ("Adam", {"lr": 0.01, "beta1": 0.8, "beta2": 0.9, "weight_decay": 0.1, "amsgrad": True}),
    ("AdamW", {"lr": 0.01}),
    ("AdamW", {"lr": 0.01, "weight_decay": 0.2, "amsgrad": True}),
    ("Adamax", {"lr": 0.01, "weight_decay": 0.1}),
    ("NAdam", {"lr": 0.01, "weight_decay": 0.1}),
    ("RAdam", {"lr": 0.01, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 0.01}),
    ("RMSprop", {"lr": 0.01, "momentum": 0.9, "centered": True, "weight_decay": 0.1}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.01, "weight_decay": 0.1, "initial_accumulator_value": 0.1}),
    ("Adadelta", {"lr": 0.5, "weight_decay": 0.1}),
    ("LBFGS", {"lr": 0.5, "max_iter": 4}),
    ("LBFGS", {"lr": 1.0, "max_iter": 4, "history_size": 2, "line_search": True}),
]


def run(name, options):
    kwargs = dict(options)
    if "beta1" in kwargs:
        kwargs["betas"] = (kwargs.pop("beta1"), kwargs.pop("beta2"))
    if kwargs.pop("line_search", False):
        kwargs["line_search_fn"] = "strong_wolfe"
    w, b, loss_of = problem()
    optimizer = getattr(torch.optim, name)([w, b], **kwargs)
    losses = []
    for step in range(12):
        def closure():
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of()
            loss.backward()
            return loss
        if name == "LBFGS":
            losses.append(optimizer.step(closure).item())
        else:
            losses.append(closure().item())
            if step == 3:
                b.grad = None
            optimizer.step()
    return {"name": name, "options": options, "losses": losses, "w": w.flatten().tolist(), "b": b.tolist()}


SCHEDULERS = [
    ("StepLR", {"step_size": 3, "gamma": 0.5}),
    ("MultiStepLR", {"milestones": [2, 5, 6], "gamma": 0.5}),
    ("ExponentialLR", {"gamma": 0.9}),
    ("LinearLR", {"start_factor": 0.25, "total_iters": 4}),
    ("CosineAnnealingLR", {"T_max": 8, "eta_min": 0.01}),
    ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2, "eta_min": 0.01}),
    ("OneCycleLR", {"max_lr": 1.0, "total_steps": 16}),
    ("OneCycleLR", {"max_lr": 1.0, "total_steps": 16, "three_phase": True, "anneal_strategy": "linear"}),
]


def schedule(name, options):
    w = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.2, momentum=0.9)
    scheduler = getattr(torch.optim.lr_scheduler, name)(optimizer, **options)
    lrs, momenta = [], []
    for _ in range(16):
        lrs.append(optimizer.param_groups[0]["lr"])
        momenta.append(optimizer.param_groups[0]["momentum"])
        optimizer.step()
        if len(lrs) < 16:
            scheduler.step()
    return {"name": name, "options": options, "lrs": lrs, "momenta": momenta}


def plateau():
    w = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=1.0)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1, factor=0.5, cooldown=1)
    metrics = [1.0, 0.9, 0.95, 0.96, 0.97, 0.98, 0.99, 0.5, 0.6, 0.7, 0.8, 0.8, 0.8, 0.8]
    lrs = []
    for metric in metrics:
        scheduler.step(metric)
        lrs.append(optimizer.param_groups[0]["lr"])
    return {"metrics": metrics, "lrs": lrs}


print(json.dumps({
    "optimizers": [run(*each) for each in OPTIMIZERS],
    "schedulers": [schedule(*each) for each in SCHEDULERS],
    "plateau": plateau(),
}, indent=1))
