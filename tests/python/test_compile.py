"""Steps, compiled functions and guards."""

import functools
import gc
import threading
import time
import weakref

import numpy as np
import pytest

import hammock as hm
from hammock import nn, optim
from memory import resident_bytes


def test_a_step_runs_at_its_end():
    x = hm.ones(4)
    with hm.step():
        x += 1
        y = x * 2
    hm.wait_device_ops()
    with hm.no_execution("the step has run"):
        assert not y.is_pending
    assert y.tolist() == [4] * 4
    with pytest.raises(KeyError):
        with hm.step():
            raise KeyError
    assert (x + 1).tolist() == [3] * 4


def test_no_execution_names_the_trigger():
    with pytest.raises(hm.HammockError, match="test_compile.py"):
        with hm.no_execution("nothing runs here"):
            (hm.ones(2) + 1).tolist()


def test_expect_no_recompile():
    x = hm.tensor([1.0] * 5)
    (x * 2).tolist()
    with hm.expect_no_recompile():
        (x * 3).tolist()
        with pytest.raises(hm.HammockError):
            (x * 3 - x.exp()).sin().tolist()
    assert "test_compile.py" in hm.explain() and repr(hm.explain()) == str(hm.explain())
    assert hm.explain()._repr_html_().startswith("<pre>")


def test_compile_traces_once_a_signature():
    runs = []

    @hm.compile
    def f(x, scale, *, parts=()):
        """doc"""
        runs.append(1)
        return {"sum": x.sum() * scale, "parts": [part + 1 for part in parts]}

    assert f.__doc__ == "doc" and f.__name__ == "f"
    for scale in (1.0, 2.0, 3.0):
        assert f(hm.ones(3), scale)["sum"].item() == 3 * scale
    assert len(runs) == f.traces == 1
    assert f(hm.ones(3), 2, parts=(hm.zeros(1), hm.ones(2)))["parts"][1].tolist() == [2, 2]
    f(hm.ones(4), 2.0)
    assert f.traces == len(runs) > 2


def test_static_arguments_choose_the_trace():
    @hm.compile(static_argnames="power")
    def f(x, mode, power=2):
        return x**power if mode == "pow" else x

    x = hm.tensor([3.0])
    assert f(x, "pow", power=2).item() == 9 and f(x, "pow", power=3).item() == 27 and f(x, "no").item() == 3
    with pytest.raises(TypeError, match="hashable"):
        f(x, {1})
    with pytest.raises(TypeError, match="must return tensors"):
        hm.compile(lambda x: "text")(x)


@pytest.mark.parametrize("constants", [(2, 2.0, True), ((2, 3), (2.0, 3), [2, 3]), ({"to": 1}, {"to": 1.0}), (0.0, -0.0)])
def test_constants_that_are_equal_but_of_other_types_have_traces_of_their_own(constants):
    given = []

    @hm.compile(static_argnames="constant")
    def f(x, *, constant):
        given.append(constant)
        return x + 1

    for _ in range(2):
        for constant in constants:
            f(hm.ones(1), constant=constant)
    assert list(map(repr, given)) == list(map(repr, constants)) and f.traces == len(constants)


def test_the_type_of_a_constant_is_the_dtype_of_the_result():
    scaled = hm.compile(lambda x, *, by: x * by, static_argnames="by")
    x = hm.arange(3)
    assert [scaled(x, by=by).dtype for by in (2, 2.0, 2)] == [hm.int64, hm.float32, hm.int64]
    flagged = hm.compile(lambda x, flag: x * (2.0 if flag is True else 3))
    assert [flagged(x, flag).dtype for flag in (True, np.True_)] == [hm.float32, hm.int64]


def test_training_step_finds_its_state():
    net, x, y = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.ReLU(), nn.Linear(8, 3)), hm.randn(16, 4), hm.arange(16) % 3
    optimizer = optim.Adam(net.parameters(), lr=0.02)

    @hm.compile
    def train(x, y):
        optimizer.zero_grad()
        loss = hm.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    losses = [train(x, y).item() for _ in range(60)]
    assert losses[-1] < losses[0] * 0.8 and train.traces == 1
    optimizer.param_groups[0]["lr"] = 0.0
    before = net[0].weight.tolist()
    train(x, y)
    assert net[0].weight.tolist() == before and train.traces == 1
    net.eval()
    train(x, y)
    assert train.traces == 2


def test_unknown_state_is_refused_with_its_line():
    holder = {"w": [hm.ones(2)]}

    class Hidden:
        def __init__(self):
            self.w = hm.ones(2)

    hidden = Hidden()
    assert hm.compile(lambda x: x + holder["w"][0])(hm.ones(2)).tolist() == [2, 2]
    with pytest.raises(ValueError, match="neither an argument nor in the list of its state"):
        hm.compile(lambda x: x + hidden.w)(hm.ones(2))
    assert hm.compile(lambda x: x + hidden.w, state=[hidden.w])(hm.ones(2)).tolist() == [2, 2]


def test_methods_compile_for_each_object_and_are_freed():
    class Net(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.fc = nn.Linear(n, 1)

        @hm.compile
        def forward(self, x):
            return self.fc(x)

    for n in (2, 3):
        net = Net(n)
        assert net(hm.ones(4, n)).shape == (4, 1) and net.forward.traces == 1
    gone = weakref.ref(net)
    del net
    gc.collect()
    (hm.ones(1) + 1).tolist()
    assert gone() is None


def test_errors_of_the_function_come_through():
    @hm.compile
    def f(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        f(hm.ones(1))

    @hm.compile
    def g(x):
        return hm.ones(1) * x.item()

    with pytest.raises(hm.HammockError):
        g(hm.ones(1))
    assert (hm.ones(1) + 1).item() == 2


def test_eager_mode_and_settings():
    with hm.eager():
        assert not (hm.ones(2) + 1).is_pending
    assert hm.config.get("eager") == "false" and "eager" in hm.config.names()
    with pytest.raises(ValueError, match="did you mean"):
        hm.config.set("eagre", True)
    with pytest.raises(TypeError):
        hm.config.set("trim_graph_size", "many")
    assert hm.cache_stats()["entries"] > 0 and hm.metrics.counter("no such counter") is None and hm.metrics.report()
    x = hm.ones(2) + 1
    assert "add" in hm.graph_text([x])


def test_state_is_found_behind_decorators_and_helpers():
    net = nn.Linear(2, 1)
    scale = hm.tensor(2.0)

    def helper(x):
        return net(x) * scale

    @hm.compile
    @hm.no_grad()
    def infer(x):
        return helper(x)

    partial = hm.compile(functools.partial(lambda layer, x: layer(x), net))
    x = hm.ones(1, 2)
    for _ in range(2):
        assert hm.allclose(infer(x), net(x) * 2) and hm.allclose(partial(x), net(x))
        with hm.no_grad():
            net.weight += 1
    assert infer.traces == 1


class Stepping(nn.Module):
    """Holds a compiled function of itself."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(1000, 1000)
        self.step = hm.compile(self.run)

    def run(self, x):
        return self.fc(x)


def of_a_closure():
    net = nn.Linear(1000, 1000)
    return net, hm.compile(lambda x: net(x))


def of_its_own_method():
    net = Stepping()
    return net, net.step


@pytest.mark.parametrize("make", [of_a_closure, of_its_own_method])
def test_dropped_functions_and_their_state_are_freed(make):
    x, dead = hm.ones(1, 1000), []
    for turn in range(50):
        net, function = make()
        function(x).sum().item()
        dead += [weakref.ref(net), weakref.ref(function)]
        del net, function
        gc.collect()
        if turn == 4:
            before = resident_bytes()
    assert [each() for each in dead] == [None] * 100
    assert resident_bytes() - before < 20 << 20


def run_threads(work, count=8):
    failures = []

    def run(number):
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize("functions", [1, 2])
def test_threads_trace_and_call_as_one_would(functions):
    def train(threads):
        hm.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
        optimizer = optim.SGD(net.parameters(), lr=0.1)
        inputs = {size: hm.arange(4 * size).reshape(size, 4) / 10 for size in (2, 4)}

        def update(x):
            optimizer.zero_grad()
            time.sleep(0.002)  # another thread gets its turn
            loss = net(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            return loss

        compiled = [hm.compile(lambda x: update(x)) for _ in range(functions)]

        def work(number):
            for _ in range(5):
                compiled[number % functions](inputs[4])

        if threads:
            run_threads(work)
        else:
            for number in range(8):
                work(number)
        assert [function.traces for function in compiled] == [1] * functions
        return [parameter.tolist() for parameter in net.parameters()]

    assert train(threads=True) == train(threads=False)
