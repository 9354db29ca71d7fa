"""hm.cond, hm.while_loop, hm.loop: functions as branches and bodies."""

import numpy as np
import pytest

import hammock as hm
from hammock import nn


def test_cond_chooses_when_the_step_runs():
    @hm.compile
    def call(x):
        return hm.cond(x.sum() > 0, lambda x: x * 2, lambda x: -x, (x,))

    assert call(hm.tensor([1.0, 2.0])).tolist() == [2, 4]
    assert call(hm.tensor([1.0, -2.0])).tolist() == [-1, 2] and call.traces == 1
    x = hm.tensor([3.0])
    with hm.no_execution("choosing"):
        y = hm.cond((x > 0), lambda x: x + 1, lambda x: x - 1, [x])
    assert y.tolist() == [4]
    assert hm.cond(True, lambda x: x + 1, lambda x: x.nothing, (x,)).tolist() == [4]
    assert hm.cond(x.sum() < 0, lambda: hm.zeros(2), lambda: hm.ones(2)).tolist() == [1, 1]


def test_only_one_branch_runs():
    x, index = hm.tensor([1.0, 2.0]), hm.tensor([5])
    assert hm.cond(x.sum() > 0, lambda x, i: x[:1], lambda x, i: x[i], (x, index)).tolist() == [1]
    with pytest.raises(IndexError, match="test_control.py"):
        hm.cond(x.sum() < 0, lambda x, i: x[:1], lambda x, i: x[i], (x, index)).tolist()


def test_nested_arguments_and_results():
    p = {"a": hm.tensor([1.0]), "b": (hm.tensor([2.0]), 3)}

    def true(p, k):
        return {"sum": p["a"] + p["b"][0] * p["b"][1], "k": [p["a"] * k]}

    def false(p, k):
        return {"sum": p["a"] * 0, "k": [p["a"]]}

    result = hm.cond(p["a"] > 0, true, false, (p, 5.0))
    assert result["sum"].tolist() == [7] and result["k"][0].tolist() == [5]


def test_gradients_reach_operands_and_what_functions_refer_to():
    for sign in (1.0, -1.0):
        x, w = hm.tensor([sign, 2 * sign], requires_grad=True), hm.tensor([3.0, 4.0], requires_grad=True)
        net = nn.Linear(2, 2)
        y = hm.cond(x.sum() > 0, lambda x: net(x * w), lambda x: x ** 2, (x,))
        y.sum().backward()
        if sign > 0:
            np.testing.assert_allclose(w.grad.tolist(), (net.weight.detach().sum(0) * x.detach()).tolist(), rtol=1e-6)
            assert net.bias.grad.tolist() == [1, 1]
            np.testing.assert_allclose(x.grad.tolist(), (net.weight.detach().sum(0) * w.detach()).tolist(), rtol=1e-6)
        else:
            assert x.grad.tolist() == [-2, -4] and w.grad.tolist() == [0, 0] and net.weight.grad.abs().sum().item() == 0
    hidden = [hm.tensor(2.0, requires_grad=True) * 3]  # no leaf, in a list
    x = hm.tensor(1.0)
    with pytest.raises(ValueError, match="make it an operand"):
        hm.cond(x > 0, lambda x: x * getattr(Holder, "value"), lambda x: x, (x,))
    hm.cond(x > 0, lambda x: x * hidden[0], lambda x: x, (x,)).backward()


class Holder:
    value = hm.tensor(2.0, requires_grad=True)


def test_values_from_around_are_read_at_the_call():
    offset = hm.tensor([10.0])
    y = hm.cond(hm.tensor(True), lambda: offset + 1, lambda: offset)
    offset += 5
    assert y.tolist() == [11]
    values, indices = hm.tensor([[3.0, 1.0, 2.0]]).sort(1)  # several results of one op
    assert hm.cond(hm.tensor(True), lambda: values * 2, lambda: values + indices).tolist() == [[2, 4, 6]]
    assert hm.cond(hm.tensor(False), lambda: values * 2, lambda: values + indices).tolist() == [[2, 4, 3]]


def test_branches_in_branches_and_loops():
    def sign(x):
        return hm.cond(x > 0, lambda x: x * 0 + 1, lambda x: hm.cond(x < 0, lambda x: x * 0 - 1, lambda x: x * 0, (x,)), (x,))

    assert [sign(hm.tensor(v)).item() for v in (2.0, -3.0, 0.0)] == [1, -1, 0]

    def steps(n):  # of the Collatz sequence
        def body(n, count):
            return hm.cond(n % 2 == 0, lambda n: n // 2, lambda n: 3 * n + 1, (n,)), count + 1

        return hm.while_loop(lambda n, count: n != 1, body, (hm.tensor(n), hm.tensor(0)))[1].item()

    assert [steps(n) for n in (1, 6, 27)] == [0, 8, 111]
    doubled = hm.cond(hm.tensor(True), lambda x: (lambda y: hm.cond(hm.tensor(True), lambda: y + 1, lambda: y))(x * 2), lambda x: x, (hm.tensor(4.0),))
    assert doubled.item() == 9


def test_while_loop_uses_values_from_around():
    step, net = hm.tensor(2.0), nn.Linear(2, 2)

    @hm.compile
    def root(x):
        return hm.while_loop(lambda s: (s["x"] * s["x"] - 2).abs() > 1e-5, lambda s: [{"x": (s["x"] + 2 / s["x"]) / step}], [{"x": x}])[0]["x"]

    assert abs(root(hm.tensor(1.0)).item() - 2 ** 0.5) < 1e-5 and abs(root(hm.tensor(9.0)).item() - 2 ** 0.5) < 1e-5
    assert root.traces == 1
    x = hm.ones(1, 2)
    with hm.no_grad():
        i, y = hm.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, net(y).tanh()), (hm.tensor(0), x))
        expected = net(net(net(x).tanh()).tanh()).tanh()
    assert i.item() == 3 and hm.allclose(y, expected)


def test_loop_stacks_and_has_gradients():
    w = hm.tensor(0.5, requires_grad=True)
    x = hm.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], requires_grad=True)

    def body(i, h, row):
        h = h * w + row * i
        return h, {"h": h, "i": i}

    last, rows = hm.loop(3, body, hm.zeros(2), x)
    reference, h = [], hm.zeros(2)
    for i in range(3):
        h = h * w + x[i] * i
        reference.append(h)
    assert hm.allclose(last, h) and hm.allclose(rows["h"], hm.stack(reference)) and rows["i"].tolist() == [0, 1, 2]
    rows["h"].sum().backward()
    grads = w.grad.item(), x.grad.tolist()
    w.grad = x.grad = None
    hm.stack(reference).sum().backward()
    assert abs(grads[0] - w.grad.item()) < 1e-5
    np.testing.assert_allclose(grads[1], x.grad.tolist(), rtol=1e-6)
    assert hm.loop(4, lambda i, x, _: (x + i, None), hm.tensor(0))[0].item() == 6


def test_other_transforms():
    def clipped(x):
        return hm.cond(x > 1, lambda x: x * x, lambda x: 3 * x, (x,))

    assert hm.grad(clipped)(hm.tensor(4.0)).item() == 8 and hm.grad(clipped)(hm.tensor(0.5)).item() == 3
    program = hm.jit.trace(clipped, hm.tensor(0.0))
    assert [program(hm.tensor(v)).item() for v in (2.0, 1.0)] == [4, 3] and "cond" in program.graph_text()
    assert hm.vmap(clipped)(hm.tensor([2.0, 1.0, 5.0])).tolist() == [4, 3, 25]
    net = nn.Sequential(nn.Linear(2, 2))

    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, x):
            return hm.cond(x.sum() > 0, lambda x: self.net(x), lambda x: x, (x,))

    gate, optimizer = Gate(), hm.optim.SGD(net.parameters(), lr=0.1)
    before = net[0].bias.tolist()

    @hm.compile
    def train(x):
        optimizer.zero_grad()
        loss = gate(x).sum()
        loss.backward()
        optimizer.step()
        return loss

    train(hm.ones(1, 2)).item()
    np.testing.assert_allclose(net[0].bias.tolist(), np.array(before) - 0.1, rtol=1e-5)
    train(-hm.ones(1, 2)).item()
    np.testing.assert_allclose(net[0].bias.tolist(), np.array(before) - 0.1, rtol=1e-5)


def test_wrong_arguments():
    x, t = hm.tensor([1.0, 2.0]), hm.tensor(True)
    same = lambda x: x  # noqa: E731
    for wrong, error, text in (
            (lambda: hm.cond(1, same, same, (x,)), TypeError, "pred must be a bool"),
            (lambda: hm.cond(x, same, same, (x,)), Exception, "predicate"),
            (lambda: hm.cond(t, same, lambda x: 3, (x,)), TypeError, "must return tensors"),
            (lambda: hm.cond(t, same, lambda x: [x], (x,)), ValueError, "nested alike"),
            (lambda: hm.cond(t, same, lambda x: x[:1], (x,)), ValueError, "otherwise"),
            (lambda: hm.cond(t, same, lambda x: x * x.sum().item(), (x,)), ValueError, "symbolic"),
            (lambda: hm.cond(t, same, lambda x: 1 / 0, (x,)), ZeroDivisionError, "division"),
            (lambda: hm.while_loop(same, same, 3), TypeError, "carried must be"),
            (lambda: hm.while_loop(lambda x: x.sum() > 0, lambda x: (x, x), (x,)), ValueError, "nested"),
            (lambda: hm.while_loop(lambda x: x > 0, lambda x: [x], [x]), Exception, "condition"),
            (lambda: hm.while_loop(lambda x: x.sum() > 0, lambda x: [x.to(hm.int64)], [x]), ValueError, "body"),
            (lambda: hm.while_loop(lambda x: x.sum() > 0, lambda x: [x + hm.rand(2)], [x]), hm.NotSupported, "random"),
            (lambda: hm.while_loop(lambda x: x.sum() > 0, lambda x: [x], [hm.ones(2).requires_grad_()]), hm.NotSupported, "gradients"),
            (lambda: hm.loop(3, lambda i, x, _: x, x), TypeError, "pair"),
            (lambda: hm.loop(3, lambda i, c, row: (c, row), x, x), ValueError, "first size"),
            (lambda: hm.loop(2, lambda i, c, row: ([c], row), x, x), ValueError, "nested")):
        with pytest.raises(error, match=text):
            wrong()
    assert (x + 1).tolist() == [2, 3]  # nothing is left behind
