"""Optimisers and schedules against PyTorch's values, which tests/optim/pytorch.py has written; averages and checkpoints."""

import json
import pathlib

import numpy as np
import pytest

import hammock as hm
from hammock import io, nn, optim

PYTORCH = json.loads((pathlib.Path(__file__).resolve().parents[1] / "optim" / "pytorch.json").read_text())


def values(shape, scale, shift):
    count = int(np.prod(shape))
    return hm.tensor([((i * 2654435761 % 2**32) / 2**32 - shift) * scale for i in range(count)], dtype=hm.float64).reshape(shape)


def in_pytorchs_words(options):
    options = dict(options)
    if "beta1" in options:
        options["betas"] = (options.pop("beta1"), options.pop("beta2"))
    if options.pop("line_search", False):
        options["line_search_fn"] = "strong_wolfe"
    return options


@pytest.mark.parametrize("case", PYTORCH["optimizers"], ids=lambda case: f"{case['name']} {case['options']}")
def test_optimisers_walk_as_pytorchs(case):
    w, b = values([3, 4], 2.0, 0.4).requires_grad_(), values([4], 1.0, 0.5).requires_grad_()
    x, y = values([5, 3], 3.0, 0.5), values([5, 4], 1.0, 0.3)
    optimizer = getattr(optim, case["name"])([w, b], **in_pytorchs_words(case["options"]))
    losses = []

    def closure():
        optimizer.zero_grad()
        loss = (hm.tanh(x @ w + b) - y).square().mean()
        loss.backward()
        return loss

    for step in range(12):
        if case["name"] == "LBFGS":
            losses.append(optimizer.step(closure).item())
            continue
        losses.append(closure().item())
        if step == 3:
            b.grad = None
        optimizer.step()
    np.testing.assert_allclose(losses, case["losses"], rtol=1e-9)
    np.testing.assert_allclose(w.detach().numpy().reshape(-1), case["w"], rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(b.detach().numpy(), case["b"], rtol=1e-7, atol=1e-12)


OPTIONS = {  # PyTorch's names and defaults, without those that choose an implementation
    "SGD": {"lr": 1e-3, "momentum": 0, "dampening": 0, "weight_decay": 0, "nesterov": False, "maximize": False},
    "Adam": {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0, "amsgrad": False, "maximize": False},
    "AdamW": {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 1e-2, "amsgrad": False, "maximize": False},
    "SparseAdam": {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "maximize": False},
    "Adamax": {"lr": 2e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0, "maximize": False},
    "NAdam": {"lr": 2e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0, "momentum_decay": 4e-3},
    "RAdam": {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0},
    "RMSprop": {"lr": 1e-2, "alpha": 0.99, "eps": 1e-8, "weight_decay": 0, "momentum": 0, "centered": False, "maximize": False},
    "Adagrad": {"lr": 1e-2, "lr_decay": 0, "weight_decay": 0, "initial_accumulator_value": 0, "eps": 1e-10, "maximize": False},
    "Adadelta": {"lr": 1.0, "rho": 0.9, "eps": 1e-6, "weight_decay": 0, "maximize": False},
    "Lion": {"lr": 1e-4, "betas": (0.9, 0.99), "weight_decay": 0},
    "LBFGS": {"lr": 1, "max_iter": 20, "max_eval": 25, "tolerance_grad": 1e-7, "tolerance_change": 1e-9, "history_size": 100,
              "line_search_fn": None},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_groups_have_every_option(name):
    w = nn.Parameter(hm.zeros(1))
    group = getattr(optim, name)([w]).param_groups[0]
    assert {key: value for key, value in group.items() if key != "params"} == OPTIONS[name]
    assert group["params"][0] is w and len(group) == len(OPTIONS[name]) + 1 and "lr" in group and "gamma" not in group
    assert group.get("gamma") is None
    for call in (lambda: group["gamma"], lambda: group.__setitem__("gamma", 1)):
        with pytest.raises(KeyError):
            call()


def test_options_of_groups_are_those_given_and_some_may_be_set():
    groups = [{"params": [nn.Parameter(hm.zeros(1))], "weight_decay": 0.5, "amsgrad": True}, {"params": [nn.Parameter(hm.zeros(1))]}]
    decayed, other = optim.Adam(groups, betas=(0.8, 0.99)).param_groups
    assert decayed["weight_decay"] == 0.5 and decayed["amsgrad"] is True and other["weight_decay"] == 0
    decayed["lr"], decayed["betas"] = 0.25, (0.5, 0.99)
    assert decayed["lr"] == 0.25 and decayed["betas"] == (0.5, 0.99) and other["betas"] == (0.8, 0.99)
    for name, value in (("weight_decay", 0.1), ("betas", (0.5, 0.9)), ("params", [])):
        with pytest.raises(NotImplementedError, match=f"'{name}' cannot change"):
            decayed[name] = value
    with pytest.raises(KeyError):
        optim.SGD([nn.Parameter(hm.zeros(1))]).param_groups[0]["betas"] = (0.9, 0.99)


def test_an_error_in_a_closure_leaves_lbfgs_as_it_was():
    w = nn.Parameter(hm.ones(2))
    optimizer = optim.LBFGS([w])
    with pytest.raises(ZeroDivisionError):
        optimizer.step(lambda: 1 / 0)
    with pytest.raises(TypeError):
        optimizer.step(lambda: 3)
    assert w.tolist() == [1, 1]
    with pytest.raises(ValueError, match="strong_wolfe"):
        optim.LBFGS([w], line_search_fn="armijo")


@pytest.mark.parametrize("case", PYTORCH["schedulers"], ids=lambda case: f"{case['name']} {case['options']}")
def test_schedules_are_pytorchs(case):
    optimizer = optim.SGD([nn.Parameter(hm.zeros(1))], lr=0.2, momentum=0.9)
    schedule = getattr(optim.lr_scheduler, case["name"])(optimizer, **case["options"])
    group, rates, momenta = optimizer.param_groups[0], [], []
    for _ in range(16):
        rates.append(group["lr"])
        momenta.append(group["momentum"])
        schedule.step()
    np.testing.assert_allclose(rates, case["lrs"], rtol=1e-9)
    np.testing.assert_allclose(momenta, case["momenta"], rtol=1e-9)


def test_a_plateau_lowers_the_rate():
    optimizer = optim.SGD([nn.Parameter(hm.zeros(1))], lr=1.0)
    schedule = optim.ReduceLROnPlateau(optimizer, patience=1, factor=0.5, cooldown=1)
    rates = []
    for metric in PYTORCH["plateau"]["metrics"]:
        schedule.step(hm.tensor(metric))
        rates.append(optimizer.param_groups[0]["lr"])
        again = optim.ReduceLROnPlateau(optimizer, patience=1, factor=0.5, cooldown=1)
        again.load_state_dict(schedule.state_dict())
        schedule = again
    assert rates == PYTORCH["plateau"]["lrs"]


def test_one_schedule_after_another():
    optimizer = optim.SGD([nn.Parameter(hm.zeros(1))], lr=0.8)
    warm, cool = optim.LinearLR(optimizer, 0.25, 1.0, 3), optim.ExponentialLR(optimizer, 0.5)
    schedule = optim.SequentialLR(optimizer, [warm, cool], [3])
    rates = []
    for _ in range(6):
        rates.append(schedule.get_last_lr()[0])
        schedule.step()
    np.testing.assert_allclose(rates, [0.2, 0.4, 0.6, 0.8, 0.4, 0.2])
    for bad in (lambda: optim.SequentialLR(optimizer, [warm, cool], [3, 1]), lambda: optim.OneCycleLR(optimizer, 1.0),
                lambda: optim.CosineAnnealingWarmRestarts(optimizer, 0), lambda: optim.ReduceLROnPlateau(optimizer, factor=1)):
        with pytest.raises(ValueError):
            bad()


def test_a_cycle_may_rise_in_one_step():
    optimizer = optim.SGD([nn.Parameter(hm.zeros(1))], lr=0.8)
    schedule = optim.OneCycleLR(optimizer, 1.0, total_steps=10, pct_start=0.1)
    rates = schedule.get_last_lr()
    for _ in range(9):
        schedule.step()
        rates += schedule.get_last_lr()
    assert rates[0] == 1 and rates == sorted(rates, reverse=True) and rates[-1] == pytest.approx(4e-6)


def test_averages_of_parameters():
    w = nn.Parameter(hm.zeros(2))
    average = optim.EMA([w], 0.5)
    with hm.no_grad():
        w += 4
    average.update()
    assert average.averages()[0].tolist() == [2, 2]
    average.swap()
    assert w.tolist() == [2, 2] and average.averages()[0].tolist() == [4, 4]
    other = optim.EMA([nn.Parameter(hm.zeros(2))], 0.5)
    other.load_state_dict(average.state_dict())
    assert other.averages()[0].tolist() == [4, 4]


class Run:
    """A run of training with everything that has a state."""

    def __init__(self):
        self.net = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.BatchNorm1d(8), nn.Linear(8, 1))
        self.optimizer = optim.AdamW(self.net.parameters(), lr=0.1)
        self.schedule = optim.CosineAnnealingLR(self.optimizer, 10)
        self.average = optim.EMA(self.net.parameters(), 0.9)
        self.checkpoint = io.Checkpoint(model=self.net, optimizer=self.optimizer, schedule=self.schedule, average=self.average)

    def train(self, steps):
        for _ in range(steps):
            self.optimizer.zero_grad()
            self.net(hm.randn(4, 3)).square().mean().backward()
            self.optimizer.step()
            self.schedule.step()
            self.average.update()

    def weights(self):
        return [value.tolist() for value in [*self.net.state_dict().values(), *self.average.averages()]]


def test_a_resumed_run_computes_the_same_bits(tmp_path):
    path = tmp_path / "run.safetensors"
    first = Run()
    first.train(3)
    first.checkpoint.save(path, step=3, note="half way")
    first.train(3)
    second = Run()
    assert second.checkpoint.load(path) == {"step": 3, "note": "half way"}
    second.train(3)
    assert second.weights() == first.weights() and second.schedule.last_epoch == 6
    assert io.load_safetensors(path)["model.0.weight"].shape == (8, 3)


def test_a_checkpoint_is_loaded_whole_or_not_at_all(tmp_path):
    path, run = tmp_path / "run.safetensors", Run()
    run.checkpoint.save(path)
    before = run.weights()
    other = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="unexpected"):
        io.Checkpoint(model=run.net, optimizer=run.optimizer, schedule=run.schedule, average=other).load(path)
    assert run.weights() == before
    with pytest.raises(ValueError, match="has no scaler"):
        io.Checkpoint(scaler=optim.GradScaler()).load(path)
    with pytest.raises(TypeError, match="numbers and texts are given to save"):
        io.Checkpoint(step=3)
    for name in ("values", "rng", "a.b"):  # names that the file uses itself
        with pytest.raises(ValueError, match=f"cannot be called '{name}'"):
            io.Checkpoint(**{name: run.net})
    _, texts = hm._hammock.read_safetensors(str(path), None)
    damaged = tmp_path / "damaged.safetensors"
    io.save_safetensors(io.load_safetensors(path), damaged, {**texts, "rng": "[7]"})
    run.train(1)
    trained = run.weights()
    with pytest.raises(ValueError):
        run.checkpoint.load(damaged)
    assert run.weights() == trained
    io.save_safetensors({"x": hm.ones(1)}, tmp_path / "plain.safetensors")
    with pytest.raises(ValueError, match="no checkpoint of a run"):
        run.checkpoint.load(tmp_path / "plain.safetensors")
