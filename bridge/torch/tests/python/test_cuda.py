"""torch.compile(backend=hammock) of tensors on a GPU: they stay on the card, in the order of PyTorch's streams."""

import copy

import pytest
import torch
from torch import nn

import hammock_torch
from hammock_torch import _C
from hammock_torch.dynamo import hammock

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


@pytest.fixture(autouse=True)
def strict():
    assert _C.has_device("cuda:0"), "Hammock does not find the GPU: `hammock devices` says why"
    torch.manual_seed(0)
    torch._dynamo.reset()
    torch.backends.cuda.matmul.allow_tf32 = False
    hammock_torch.set_strict(True)
    yield
    hammock_torch.set_strict(False)


def mlp():
    return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 8)), torch.randn(32, 64)


def convnet():
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 4))
    return net, torch.randn(4, 3, 8, 8)


def encoder():
    return nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True), torch.randn(4, 16, 64)


@pytest.mark.parametrize("make", [mlp, convnet, encoder], ids=lambda make: make.__name__)
def test_trains_as_in_eager_mode(make):
    model, x = make()
    model, x = model.cuda(), x.cuda()
    other = copy.deepcopy(model)
    compiled = torch.compile(other, backend=hammock)
    for _ in range(5):
        expected, actual = model(x), compiled(x)
        expected.square().mean().backward()
        actual.square().mean().backward()
        assert actual.device == x.device
        torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4)
    for a, b in zip(other.parameters(), model.parameters()):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-3)


def test_nothing_goes_through_the_host():
    w = torch.randn(512, 512, device="cuda")
    compiled = torch.compile(lambda x: torch.relu(x @ w), backend=hammock)
    x = torch.randn(512, 512, device="cuda")
    for _ in range(3):
        compiled(x)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        compiled(x)
        torch.cuda.synchronize()
    copies = [e.name for e in profile.events() if "Memcpy HtoD" in e.name or "Memcpy DtoH" in e.name]
    assert copies == []


def test_work_is_ordered_by_streams():
    compiled = torch.compile(lambda x: x * 2 + 1, backend=hammock)
    x = torch.zeros(1 << 22, device="cuda")
    for _ in range(3):
        compiled(x)
    for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            for value in range(20):
                torch.cuda._sleep(1_000_000)  # the write below comes late
                x.fill_(value)
                result = compiled(x)
                x.fill_(-1)  # must come after the call has read
                again = result + 0
                result.fill_(-1)
                del result  # its memory goes back while `again` may still be pending
                assert again.unique().tolist() == [value * 2 + 1]
        stream.synchronize()


def test_copies_of_inputs_are_ordered_by_streams():
    compiled = torch.compile(lambda x, y: x + y, backend=hammock)
    x, y = torch.zeros(2048, 2048, device="cuda"), torch.zeros(2048, 2048, device="cuda")
    for value in range(20):
        torch.cuda._sleep(1_000_000)
        y.fill_(value)
        result = compiled(x, y.t())  # not row-major: copied by PyTorch, after `x` was borrowed
        assert result.unique().tolist() == [value]


def test_memory_goes_back_after_the_stream_that_made_it():
    compiled = torch.compile(lambda x: x * 2 + 1, backend=hammock)
    x, y = torch.zeros(1 << 22, device="cuda"), torch.zeros(1 << 22, device="cuda")
    for _ in range(3):
        compiled(x)
    stream = torch.cuda.Stream()
    for value in range(1, 20):
        with torch.cuda.stream(stream):
            x.fill_(value)
            result = compiled(x)
            torch.cuda._sleep(1_000_000)
            again = result + 0
        del result  # another stream is current, and `again` is still pending
        compiled(y)
        stream.synchronize()
        assert again.unique().tolist() == [value * 2 + 1]


def test_views_that_are_not_aligned():
    x = torch.arange(64.0, device="cuda")
    compiled = torch.compile(lambda x: x * 2, backend=hammock)
    for start in (1, 3, 3, 3):
        torch.testing.assert_close(compiled(x[start : start + 8]), x[start : start + 8] * 2)
