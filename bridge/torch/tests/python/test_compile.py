"""torch.compile(backend=hammock) against eager mode: values, gradients, strides, views, writes."""

import contextlib
import copy
import math
import re
import unittest

import hammock_torch
import torch
from hammock_torch.dynamo import _restrided, hammock
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm


class Through(nn.Module):
    """A function of an input and of parameters of these sizes."""

    def __init__(self, function, *sizes):
        super().__init__()
        self.function = function
        self.weights = nn.ParameterList(torch.randn(size) for size in sizes)

    def forward(self, x):
        return self.function(x, *self.weights)


def resized(x, weight):
    exact = F.interpolate(x * weight, (5, 9), mode="nearest-exact")
    smaller = [F.interpolate(x * weight, (3, 4), mode=m, antialias=True) for m in ("bilinear", "bicubic")]
    by_factor = F.interpolate(x * weight, scale_factor=0.6, mode="bilinear", antialias=True)
    return torch.cat([y.flatten() for y in (exact, *smaller, by_factor)])


def ctc(x, weight):
    targets = torch.tensor([[1, 2, 2], [3, 5, 0]])
    return F.ctc_loss((x * weight).log_softmax(-1), targets, (9, 8), (3, 2))


def models():
    yield "mlp", nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)), torch.randn(5, 8)
    yield "lenet", nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(),
        nn.AvgPool2d(2), nn.Flatten(), nn.Linear(400, 10), nn.LogSoftmax(1),
    ), torch.randn(3, 1, 28, 28)  # fmt: skip
    yield "batch norm", nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Dropout(0.5), nn.Linear(8, 2),
    ), torch.randn(4, 3, 9, 9)  # fmt: skip
    encoder = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0)
    yield "encoder", encoder, torch.randn(2, 7, 32)
    embedding = nn.Sequential(nn.Embedding(11, 6, padding_idx=2), nn.LayerNorm(6), nn.RMSNorm(6))
    yield "embedding", embedding, torch.randint(0, 11, (3, 4))
    normed = nn.Sequential(weight_norm(nn.Conv1d(3, 4, 3)), nn.Tanh(), weight_norm(nn.Linear(6, 5), dim=1))
    yield "weight norm", normed, torch.randn(2, 3, 8)
    yield "resizing", Through(resized, 1), torch.randn(1, 2, 7, 6)
    mask = torch.rand(4, 6) > 0.5
    yield "masked scatter", Through(lambda x, source: x.masked_scatter(mask, source), 24), torch.randn(4, 6)
    yield "distances", Through(torch.cdist, (5, 3)), torch.randn(4, 3)
    yield "ctc", Through(ctc, 6), torch.randn(9, 2, 6)
    last = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3))
    yield "channels last", last.to(memory_format=torch.channels_last), torch.randn(2, 3, 8, 8).to(
        memory_format=torch.channels_last
    )


@contextlib.contextmanager
def missing(test, *names):
    """The ops that run by PyTorch meanwhile are these."""
    hammock_torch.reset_fallbacks()
    hammock_torch.set_strict(False)
    try:
        yield
        test.assertEqual(set(hammock_torch.fallbacks()), set(names))
    finally:
        hammock_torch.set_strict(True)
        hammock_torch.reset_fallbacks()


def compiles():
    """The devices of the graphs that Hammock has compiled, one for each."""
    return re.findall(r"^compile \d+ on (\S+):", hammock_torch.lazy.report(), re.MULTILINE)


class Compile(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        torch.manual_seed(0)

    def test_models_train_as_in_eager_mode(self):
        for name, model, x in models():
            with self.subTest(name):
                torch._dynamo.reset()
                other = copy.deepcopy(model)
                compiled = torch.compile(other, backend=hammock)
                for _ in range(3):
                    torch.manual_seed(3)
                    expected = model(x)
                    torch.manual_seed(3)
                    actual = compiled(x)
                    expected.square().mean().backward()
                    actual.square().mean().backward()
                torch.testing.assert_close(actual, expected)
                self.assertEqual(actual.stride(), expected.stride())
                for a, b in zip(other.parameters(), model.parameters()):
                    torch.testing.assert_close(a.grad, b.grad)
        self.assertEqual(hammock_torch.fallbacks(), {})

    def test_ops_of_other_libraries_are_theirs(self):
        library = torch.library.Library("hammock_doubling", "DEF")
        library.define("relu(Tensor self) -> Tensor")
        library.impl("relu", lambda x: x * 2, "CPU")
        library.impl("relu", lambda x: torch.empty_like(x), "Meta")
        relu = torch.ops.hammock_doubling.relu
        with missing(self, "hammock_doubling::relu"):
            result = torch.compile(lambda x: relu(x) + 1, backend=hammock)(torch.ones(3))
        self.assertEqual(result.tolist(), [3.0] * 3)

    def test_sizes_vary(self):
        def fn(x, w):
            return torch.softmax(x @ w, -1).sum(0) * x.shape[0]

        compiled = torch.compile(fn, backend=hammock, dynamic=True)
        w = torch.randn(4, 3)
        before = len(compiles())
        for n in range(2, 30):
            for _ in range(3):  # recorded, captured, called directly
                x = torch.randn(n, 4)
                torch.testing.assert_close(compiled(x, w), fn(x, w))
        self.assertLessEqual(len(compiles()) - before, 4)

    def test_sizes_are_computed_with(self):
        def fn(x):
            n = x.shape[0]
            half = torch.sym_max(n // 2, 1) + x.shape[1] % 3
            scale = n / 3 + math.sqrt(n) + n**2 - torch.sym_float(n)
            rows = x.repeat(2, 1)[:half] if n != 5 else x[: torch.sym_min(n, 2)]
            return rows * scale

        compiled = torch.compile(fn, backend=hammock, dynamic=True)
        for n in (3, 5, 8, 9):
            x = torch.randn(n, 4)
            torch.testing.assert_close(compiled(x), fn(x))
        self.assertEqual(hammock_torch.fallbacks(), {})

    def test_calls_of_no_operator_run_by_pytorch(self):
        def fn(x):
            y = torch.cond(x.sum() > 0, lambda x: (x + 1, x * 3), lambda x: (x - 1, x * 2), (x * 2,))
            return y[0] * y[1]

        compiled = torch.compile(fn, backend=hammock)
        for x in (torch.ones(3), -torch.ones(3), torch.ones(3)):
            with missing(self, "higher_order::cond"):
                torch.testing.assert_close(compiled(x), fn(x))
        with self.assertRaisesRegex(RuntimeError, "higher_order::cond"):
            compiled(torch.ones(3))

    def test_unsigned_integers(self):
        def fn(x):
            short, long = x.to(torch.uint16), x.to(torch.uint64)
            return short.to(torch.int32) + long.float(), short, x.to(torch.uint32), long

        compiled = torch.compile(fn, backend=hammock)
        x = torch.tensor([0.0, 7.5, 40000.0, 65535.0])
        for _ in range(3):
            for result, expected in zip(compiled(x), fn(x)):
                self.assertEqual(result.dtype, expected.dtype)
                self.assertEqual(result.tolist(), expected.tolist())

    def test_dtypes_that_the_bridge_lacks_cost_their_ops(self):
        def fn(x):
            small = (x * 2).to(torch.float8_e4m3fn)
            return small.float() + 1, small

        compiled = torch.compile(fn, backend=hammock)
        x = torch.rand(5)
        for _ in range(3):
            with missing(self, "aten::_to_copy"):
                result, small = compiled(x)
            torch.testing.assert_close(result, fn(x)[0])
            self.assertEqual(small.dtype, torch.float8_e4m3fn)

    def test_a_device_is_named(self):
        def fn(x, w):
            return torch.tanh(x @ w).t()

        x, w = torch.randn(3, 4), torch.randn(4, 2, requires_grad=True)
        for device in ("reference", "cpu"):
            compiled = torch.compile(fn, backend=hammock, options={"device": device})
            before = len(compiles())
            for _ in range(3):
                result = compiled(x, w)
                self.assertEqual(result.device, x.device)
                torch.testing.assert_close(result, fn(x, w))
                (grad,) = torch.autograd.grad(result.sum(), w)
                torch.testing.assert_close(grad, torch.autograd.grad(fn(x, w).sum(), w)[0])
            devices = {name.split(":")[0] for name in compiles()[before:]}
            self.assertEqual(devices, {device})

    def test_options_that_are_not_there(self):
        for options, message in (
            ({"device": "no such thing"}, "no such thing"),
            ({"depth": 3}, 'one option, "device", got .*depth'),
        ):
            torch._dynamo.reset()
            compiled = torch.compile(lambda x: x + 1, backend=hammock, options=options)
            with self.assertRaisesRegex(Exception, message):
                compiled(torch.ones(3))

    def test_inputs_are_written(self):
        def fn(x, y):
            x.add_(y)
            return x * 2

        x, y = torch.randn(3), torch.randn(3)
        other = x.clone()
        torch.testing.assert_close(torch.compile(fn, backend=hammock)(other, y), fn(x, y))
        torch.testing.assert_close(other, x)

    def test_views_share_memory(self):
        x = torch.randn(3, 4)
        for view in torch.compile(lambda x: (x.t(), x[1:], x.reshape(-1)), backend=hammock)(x):
            self.assertEqual(view.untyped_storage().data_ptr(), x.untyped_storage().data_ptr())

    def test_inputs_that_are_returned_are_themselves(self):
        compiled = torch.compile(lambda x, w: (w, x @ w), backend=hammock)
        for _ in range(4):
            x, w = torch.randn(3, 4), torch.randn(4, 2)
            same, product = compiled(x, w)
            self.assertEqual(same.data_ptr(), w.data_ptr())
            torch.testing.assert_close(product, x @ w)

    def test_results_have_any_strides(self):
        x = torch.randn(3, 1, 4)
        for expected in (x.expand(3, 5, 4), x.squeeze(1).t(), x[:1].expand(2, 1, 4)):
            result = _restrided(expected.contiguous(), expected.stride())
            self.assertEqual(result.stride(), expected.stride())
            torch.testing.assert_close(result, expected)

    def test_channels_last_with_sizes_that_vary(self):
        conv = nn.Conv2d(3, 4, 3, padding=1).to(memory_format=torch.channels_last)
        compiled = torch.compile(conv, backend=hammock, dynamic=True)
        for height, width in ((8, 9), (7, 5), (10, 12)):
            x = torch.randn(2, 3, height, width).to(memory_format=torch.channels_last)
            result, expected = compiled(x), conv(x)
            self.assertEqual(result.stride(), expected.stride())
            torch.testing.assert_close(result, expected)

    def test_weights_that_change_are_seen(self):
        model = nn.Linear(4, 2)
        compiled = torch.compile(model, backend=hammock)
        x = torch.randn(5, 4)
        for _ in range(3):
            for _ in range(4):  # recorded, captured, called directly with new and with kept data
                torch.testing.assert_close(compiled(x), model(x))
                with torch.no_grad():
                    torch.testing.assert_close(compiled(x), model(x))
            with torch.no_grad():
                model.weight.mul_(3)

    def test_writes_by_data_are_seen(self):
        model = nn.Linear(64, 32)
        compiled = torch.compile(model, backend=hammock)
        x = torch.randn(5, 64)
        with torch.no_grad():
            for i in range(8):
                torch.testing.assert_close(compiled(x), model(x))
                model.weight.data[i, 3] = 5.0
                torch.testing.assert_close(compiled(x), model(x))
                model.weight.numpy()[i, 7] = 5.0

    def test_results_are_nobody_elses(self):
        compiled = torch.compile(lambda x: (x + 0, x * 1), backend=hammock)
        x = torch.randn(4)
        before = x.clone()
        for result in compiled(x):
            result.zero_()
        torch.testing.assert_close(x, before)


if __name__ == "__main__":
    unittest.main()
