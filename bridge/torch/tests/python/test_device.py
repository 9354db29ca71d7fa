"""Device "hammock" against PyTorch's CPU kernels. Every result is also compared with `meta`."""

import copy
import gc
import inspect
import io
import threading
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import hammock_torch
import hammock_torch.device  # noqa: F401: registers the device


@pytest.fixture(autouse=True)
def checked():
    torch.manual_seed(0)
    hammock_torch.reset_fallbacks()
    torch.ops.hammock.device_check_meta(True)
    yield
    torch.ops.hammock.device_check_meta(False)


def same(ours, theirs, tolerance=1e-5):
    if isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs):
            same(a, b, tolerance)
        return
    if not isinstance(theirs, torch.Tensor):
        assert ours == theirs
        return
    assert ours.device.type == "hammock"
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    assert ours.stride() == theirs.stride() or theirs.numel() <= 1
    torch.testing.assert_close(
        ours.cpu(), theirs.detach(), rtol=tolerance, atol=tolerance, equal_nan=True
    )


def both(fn, *args, tolerance=1e-5):
    """Calls fn on copies of the arguments on both devices; compares results and the arguments."""
    cpu = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
    ours = [a.to("hammock") if isinstance(a, torch.Tensor) else a for a in args]
    theirs = fn(*cpu)
    same(fn(*ours), theirs, tolerance)
    for a, b in zip(ours, cpu):
        if isinstance(a, torch.Tensor):
            same(a, b, tolerance)


x = torch.linspace(-2, 3, 24).reshape(2, 3, 4)
y = torch.linspace(0.5, 2, 24).reshape(2, 3, 4)
m = torch.linspace(-1, 1, 12).reshape(3, 4)
ints = torch.arange(12).reshape(3, 4)
mask = x > 0

library = torch.library.Library("mylib", "DEF")  # means something else by a name of PyTorch's
library.define("relu(Tensor self) -> Tensor")
library.impl("relu", lambda x: x * 2, "CPU")
library.impl("relu", lambda x: torch.empty_like(x), "Meta")
doubling = torch.ops.mylib

OPS = {
    "add": lambda a, b: a + b,
    "add_alpha": lambda a, b: torch.add(a, b, alpha=2.5),
    "add_number": lambda a, b: a + 1,
    "radd": lambda a, b: 1 - a,
    "int_and_float": lambda a, b: a.int() + 0.5,
    "int_and_cpu_scalar": lambda a, b: a + torch.tensor(2.0),
    "mul_div": lambda a, b: a * b / (b + 1),
    "floor_divide": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
    "pow": lambda a, b: b**2 + b**0.5 + 2**a,
    "unary": lambda a, b: a.exp() + b.log() + a.sin() + b.rsqrt() + a.abs().sqrt() + a.erf(),
    "round": lambda a, b: (a.floor(), a.ceil(), a.round(), a.trunc(), a.sign()),
    "activations": lambda a, b: (
        a.relu(), a.sigmoid(), a.tanh(), F.gelu(a), F.silu(a), F.elu(a), F.leaky_relu(a),
        F.softplus(a), F.hardtanh(a), F.hardswish(a), F.mish(a),
    ),
    "compare": lambda a, b: (a < b, a >= 1, a == b, torch.isfinite(a), (a > 0) & (b > 1)),
    "where": lambda a, b: torch.where(a > 0, a, b),
    "clamp": lambda a, b: (a.clamp(-1, 1), a.clamp(min=0), torch.maximum(a, b)),
    "sum": lambda a, b: (a.sum(), a.sum(1), a.sum((0, 2), keepdim=True), a.mean(-1), a.prod(0)),
    "max": lambda a, b: (a.max(), a.max(1), a.min(0), a.argmax(-1), a.amax((0, 1))),
    "var": lambda a, b: (a.var(), a.std(1), torch.var_mean(a, 1), a.norm(), a.norm(dim=1)),
    "cumsum": lambda a, b: (a.cumsum(1), a.flip(0), a.roll(1, 2), a.sort(1), a.topk(2)),
    "softmax": lambda a, b: (a.softmax(-1), a.log_softmax(1), a.logsumexp(1)),
    "matmul": lambda a, b: (a @ b.transpose(1, 2), a[0] @ b[0].t(), a[0] @ b[0, 0], a[0, 0] @ b[0, 0]),
    "addmm": lambda a, b: torch.addmm(a[0, :, :3], a[0], b[0].t(), beta=0.5),
    "einsum": lambda a, b: torch.einsum("bij,bkj->bik", a, b),
    "cat": lambda a, b: (torch.cat([a, b], 1), torch.stack([a, b], -1)),
    "index": lambda a, b: (a[0], a[:, 1:], a[..., ::2], a[:, [0, 2]], a[mask.to(a.device).logical_not().logical_not()].sum()),
    "gather": lambda a, b: (a.index_select(1, torch.tensor([2, 0], device=a.device)),
                            a.gather(2, torch.zeros(2, 3, 1, dtype=torch.long, device=a.device))),
    "masked_fill": lambda a, b: a.masked_fill(a > 1, -1.0),
    "triu": lambda a, b: (a.triu(), a.tril(-1)),
    "dtype": lambda a, b: (a.half(), a.double(), a.int(), a.bool(), a.bfloat16().float()),
    "create": lambda a, b: (
        torch.zeros(2, 3, device=a.device), torch.ones_like(a), torch.full((2,), 7, device=a.device),
        torch.arange(2, 9, 3, device=a.device), torch.eye(3, device=a.device), a.new_zeros(3),
        torch.linspace(0, 1, 5, device=a.device), torch.empty_like(a).fill_(3),
    ),
    "tensor": lambda a, b: torch.tensor([[1.0, 2.0]], device=a.device),
    "random": lambda a, b: (
        torch.manual_seed(3) and torch.rand(4, device=a.device),
        torch.randn(2, 2, device=a.device), torch.randint(0, 9, (4,), device=a.device),
        torch.randperm(5, device=a.device), torch.empty(3, device=a.device).uniform_(2, 3),
        F.dropout(b, 0.5),
    ),
    "repeat": lambda a, b: (a.repeat(1, 2, 1), a[0].repeat_interleave(2, 0), a[:, :1].expand(2, 3, 4)),
    "pad": lambda a, b: (F.pad(a, (1, 2)), F.pad(a, (1, 1), mode="reflect")),
    "contiguous": lambda a, b: (a.permute(2, 0, 1).contiguous(), a.permute(2, 0, 1).clone()),
    "layer_norm": lambda a, b: F.layer_norm(a, (4,), b[0, 0], b[0, 1]),
    "losses": lambda a, b: (F.mse_loss(a, b), F.l1_loss(a, b), F.smooth_l1_loss(a, b),
                            F.binary_cross_entropy_with_logits(a, b.sigmoid()),
                            F.cross_entropy(a[0], torch.tensor([0, 1, 2], device=a.device))),
    "lerp": lambda a, b: (a.lerp(b, 0.3), torch.addcmul(a, a, b, value=2), torch.addcdiv(a, a, b)),
    "fft": lambda a, b: (
        torch.fft.rfft(a, norm="ortho"), torch.fft.fft(a), torch.fft.ifft2(torch.complex(a, b)),
        torch.fft.fftn(torch.complex(a, b), norm="forward"), torch.fft.irfft(torch.complex(a, b), 7),
    ),
    "attention": lambda a, b: F.scaled_dot_product_attention(a, b, a),
}

RANDOM = {
    "randint_like": lambda a: (torch.randint_like(a, 9), torch.randint_like(a, 3, 9)),
    "randint_of": lambda a, **g: torch.randint(3, 9, (7,), device=a.device, **g),
    "rand_like": lambda a: (torch.rand_like(a), torch.randn_like(a)),
    "exponential_": lambda a, **g: torch.empty_like(a).exponential_(2, **g),
    "cauchy_": lambda a, **g: torch.empty_like(a).cauchy_(1, 2, **g),
    "geometric_": lambda a, **g: torch.empty_like(a).geometric_(0.3, **g),
    "log_normal_": lambda a, **g: torch.empty_like(a).log_normal_(0.5, 0.2, **g),
    "normal_of_means": lambda a, **g: torch.normal(a, 2.0, **g),
    "normal_of_deviations": lambda a, **g: torch.normal(1.0, a, **g),
    "normal_of_both": lambda a, **g: torch.normal(a[:1], a[0], **g),
    "normal_of_sizes": lambda a, **g: torch.normal(1.0, 2.0, (5,), device=a.device, **g),
    "bernoulli": lambda a, **g: torch.bernoulli(a / 2, **g),
    "dropout": lambda a: (F.dropout(a), F.alpha_dropout(a), F.feature_alpha_dropout(a), F.rrelu(a)),
}

# Their numbers depend on values, so that PyTorch computes them whole.
RANDOM_BY_PYTORCH = {
    "multinomial": lambda a, **g: torch.multinomial(a[0], 3, **g),
    "poisson": lambda a, **g: torch.poisson(a, **g),
    "binomial": lambda a: torch.binomial(a.round(), a / 2),
    "gamma": lambda a: torch._standard_gamma(a),
    "rrelu": lambda a: F.rrelu(a - 1, training=True),
}

VIEWS = {
    "t": lambda a: a[0].t(),
    "permute": lambda a: a.permute(2, 0, 1),
    "view": lambda a: a.view(6, 4),
    "reshape": lambda a: a.reshape(2, 12),
    "select": lambda a: a[1, 2],
    "slice": lambda a: a[:, 1:, ::2],
    "narrow": lambda a: a.narrow(2, 1, 2),
    "squeeze": lambda a: a[:1].squeeze(0),
    "squeeze_dims": lambda a: a[:1, :1].squeeze((0, 1)),
    "unsqueeze": lambda a: a.unsqueeze(1),
    "diagonal": lambda a: a[0].diagonal(),
    "as_strided": lambda a: a.as_strided((3, 2), (4, 1), 5),
    "unfold": lambda a: a.unfold(2, 2, 2),
    "unbind": lambda a: a.unbind(1)[1],
    "split": lambda a: a.split(2, 1)[1],
    "chunk": lambda a: a.chunk(2, 2)[1],
    "detach": lambda a: a.detach(),
    "movedim": lambda a: a.movedim(0, 2),
    "flatten": lambda a: a.flatten(1),
    "chain": lambda a: a.permute(1, 0, 2)[1:].select(2, 3),
    "bits": lambda a: a.view(torch.int32),
    "unsafe": lambda a: a.tensor_split(2, 0)[0],
}

IN_PLACE = {
    "add_": lambda a, b: a.add_(b, alpha=2),
    "mul_": lambda a, b: a.mul_(3),
    "iadd": lambda a, b: a.__iadd__(b),
    "zero_": lambda a, b: a.zero_(),
    "fill_": lambda a, b: a.fill_(4),
    "copy_": lambda a, b: a.copy_(b[0]),
    "relu_": lambda a, b: a.relu_(),
    "clamp_": lambda a, b: a.clamp_(0, 1),
    "addcmul_": lambda a, b: a.addcmul_(a, b, value=0.5),
    "addcdiv_": lambda a, b: a.addcdiv_(a, b),
    "lerp_": lambda a, b: a.lerp_(b, 0.25),
    "masked_fill_": lambda a, b: a.masked_fill_(b > 1, 9),
    "index_put_": lambda a, b: a.index_put_((torch.tensor([0, 1], device=a.device),), b[0]),
    "setitem": lambda a, b: a.__setitem__((slice(None), 1), 5.0),
    "setitem_tensor": lambda a, b: a.__setitem__((0, slice(1, 3)), b[0, :2]),
    "scatter_": lambda a, b: a.scatter_(2, torch.zeros(2, 3, 1, dtype=torch.long, device=a.device), b),
    "index_add_": lambda a, b: a.index_add_(0, torch.tensor([1], device=a.device), b[:1]),
    "transpose_": lambda a, b: a.transpose_(0, 2),
    "unsqueeze_": lambda a, b: a.unsqueeze_(0),
    "squeeze_": lambda a, b: a.squeeze_(),
    "swap": lambda a, b: a.t_() if a.dim() == 2 else a.swapaxes_(0, 1),
    "resize_": lambda a, b: a.resize_(2, 2),
    "normal_": lambda a, b: torch.manual_seed(4) and a.normal_(),
    "bernoulli_": lambda a, b: torch.manual_seed(4) and a.bernoulli_(0.5),
    "foreach": lambda a, b: torch._foreach_add_([a, b], [b, a], alpha=2),
    "foreach_mul": lambda a, b: torch._foreach_mul_([a, b], 2.0),
    "foreach_addcdiv": lambda a, b: torch._foreach_addcdiv_([a], [a], [b], [0.5]),
    "foreach_sqrt": lambda a, b: torch._foreach_sqrt_([b]),
    "foreach_lerp": lambda a, b: torch._foreach_lerp_([a], [b], 0.5),
    "foreach_new": lambda a, b: torch._foreach_norm([a, b]) and None,
}

OUT = {
    "add": lambda a, b, out: torch.add(a, b, out=out),
    "matmul": lambda a, b, out: torch.bmm(a, b.transpose(1, 2), out=out),
    "sum": lambda a, b, out: torch.sum(a, 1, out=out),
    "exp": lambda a, b, out: torch.exp(a, out=out),
    "cat": lambda a, b, out: torch.cat([a, b], out=out),
    "where": lambda a, b, out: torch.where(a > 0, a, b, out=out),
    "clamp": lambda a, b, out: torch.clamp(a, 0, 1, out=out),
    "cumsum": lambda a, b, out: torch.cumsum(a, 1, out=out),
}


@pytest.mark.parametrize("name", OPS)
def test_op(name):
    both(OPS[name], x, y)


@pytest.mark.parametrize("name", OPS)
def test_op_of_transposed(name):
    if name in ("floor_divide", "fft", "random"):
        pytest.skip("floor_divide, complex: meta differs from the CPU; random: drawn once, above")
    a, b = x.permute(0, 2, 1).contiguous().permute(0, 2, 1), y
    both(OPS[name], a, b)


@pytest.mark.parametrize("name", VIEWS)
def test_view_shares_its_base(name):
    view = VIEWS[name]
    cpu, ours = x.clone(), x.to("hammock")
    theirs, mine = view(cpu), view(ours)
    same(mine, theirs)
    assert mine.untyped_storage()._cdata == ours.untyped_storage()._cdata
    assert mine.storage_offset() == theirs.storage_offset()
    for a, b in ((cpu, theirs), (ours, mine)):
        b.add_(1) if b.is_floating_point() else b.bitwise_xor_(1)
        a.mul_(2)
    same(mine, theirs)
    same(ours, cpu)
    assert ours._version == cpu._version == mine._version


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name):
    def run(a, b):
        before = a._version
        IN_PLACE[name](a, b)
        return a._version - before

    both(run, x, y)


@pytest.mark.parametrize("name", ["add_", "mul_", "zero_", "copy_", "relu_", "masked_fill_"])
def test_in_place_through_a_view(name):
    both(lambda a, b: IN_PLACE[name](a[:, 1:], b[:, :2]) is None, x, y)


@pytest.mark.parametrize("name", OUT)
@pytest.mark.parametrize("fits", [True, False])
def test_out(name, fits):
    def run(a, b):
        shape = OUT[name](a, b, None).shape
        out = torch.zeros(shape if fits else 0, device=a.device)
        result = OUT[name](a, b, out)
        assert result is out
        return out

    both(run, x, y)


def test_out_of_several_results():
    def run(a, b):
        values = torch.zeros_like(a)
        indices = torch.zeros(a.shape, dtype=torch.long, device=a.device)
        torch.sort(a, 1, out=(values, indices))
        return values, indices

    both(run, x, y)
    assert hammock_torch.fallbacks() == {}


FOREACH = ["add.List", "add_.Scalar", "mul_.ScalarList", "sqrt", "zero_", "addcmul_.Scalar",
           "addcdiv_.ScalarList", "lerp_.Scalar", "maximum.List", "neg", "pow.Scalar"]  # fmt: skip


@pytest.mark.parametrize("name", FOREACH)
def test_foreach_is_recorded_in_one_call(name):
    assert torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::_foreach_{name}", "PrivateUse1")


def test_foreach_of_lists_that_differ_in_length():
    a = x.to("hammock")
    with pytest.raises(RuntimeError, match="same number"):
        torch._foreach_add([a, a], [a])


def test_attention_in_inference():
    torch.ops.hammock.device_check_meta(False)  # which returns weights that were not asked for
    layer = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    ours = copy.deepcopy(layer).to("hammock")
    theirs, mine = torch.ones(2, 3, 8), torch.ones(2, 3, 8, device="hammock")
    with torch.no_grad():
        result, weights = ours(mine, mine, mine, need_weights=False)
        same(result, layer(theirs, theirs, theirs, need_weights=False)[0])
    assert weights is None and hammock_torch.fallbacks() == {}


def test_encoder_layer_in_inference():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    ours = copy.deepcopy(layer).to("hammock")
    with torch.no_grad():
        same(ours(torch.ones(2, 3, 8, device="hammock")), layer(torch.ones(2, 3, 8)))
    assert hammock_torch.fallbacks() == {}


LAYERS = {
    "lstm": (lambda: nn.LSTM(4, 5, num_layers=2, bidirectional=True), (3, 2, 4)),
    "gru": (lambda: nn.GRU(4, 5, num_layers=2, batch_first=True), (2, 3, 4)),
    "lstm cell": (lambda: nn.LSTMCell(4, 5, bias=False), (2, 4)),
    "gru cell": (lambda: nn.GRUCell(4, 5, bias=False), (2, 4)),
    "weight norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Conv1d(3, 4, 3)), (2, 3, 8)),
    "fractional pooling": (lambda: nn.FractionalMaxPool2d(2, output_size=3), (2, 3, 7, 6)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_with_ops_of_devices(name):
    make, sizes = LAYERS[name]
    layer, inputs = make(), torch.randn(sizes)
    results = []
    for device in ("cpu", "hammock"):
        torch.manual_seed(3)
        mine, given = copy.deepcopy(layer).to(device), inputs.clone().to(device).requires_grad_()
        result = mine(given)
        result = result[0] if isinstance(result, tuple) else result
        result.square().sum().backward()
        results.append([result, given.grad, *(p.grad for p in mine.parameters())])
    for ours, theirs in zip(results[1], results[0]):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-4, atol=1e-5)
    assert hammock_torch.fallbacks() == {}


def test_no_fallbacks_in_the_ops_above():
    for op in OPS.values():
        op(x.to("hammock"), y.to("hammock"))
    assert hammock_torch.fallbacks() == {}


def test_ops_of_other_libraries_are_theirs():
    ours = doubling.relu(torch.ones(3, device="hammock"))
    assert ours.tolist() == [2.0] * 3
    assert hammock_torch.fallbacks() == {"mylib::relu": 1}


def test_errors_are_those_of_pytorch():
    a = x.to("hammock")
    with pytest.raises(RuntimeError, match="must match the size|broadcast"):
        a + torch.zeros(5, device="hammock")
    with pytest.raises(RuntimeError, match="same device"):
        a + x
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        a.permute(2, 0, 1).view(-1)
    with pytest.raises(IndexError):
        a.sum(7)


def test_a_matrix_without_a_factor_is_an_error_of_its_reader():
    torch.ops.hammock.device_check_meta(False)
    for factor in (torch.linalg.cholesky, torch.linalg.inv):
        result = factor(torch.zeros(2, 2, device="hammock"))
        with pytest.raises(RuntimeError, match="not positive-definite|singular"):
            result.cpu()


def test_conjugates():
    def run(a, b):
        z = torch.complex(a, b)
        return z.conj() + 0, z.conj().imag, z.conj()[0] @ z[0].t(), torch.fft.hfft(z, norm="ortho")

    both(run, x, y)


def test_gradients_of_transforms():
    def run(a, b):
        a = a.detach().requires_grad_()
        torch.fft.rfft(a).abs().square().sum().backward()
        again = torch.fft.irfft(torch.complex(a, b))
        again.mul(again.detach()).sum().backward()
        return a.grad

    both(run, x, y, tolerance=1e-4)
    assert hammock_torch.fallbacks() == {}


def test_unsigned_integers():
    torch.ops.hammock.device_check_meta(False)
    for dtype in (torch.uint16, torch.uint32, torch.uint64):
        same(ints.to("hammock").to(dtype), ints.to(dtype))
    assert hammock_torch.fallbacks() == {}


def test_laziness_ends_where_a_value_is_needed():
    torch.ops.hammock.device_check_meta(False)
    a = x.to("hammock")
    b = a * 2
    before = torch.ops.hammock.device_recorded_ops()
    c = (b + 1).sum()
    assert torch.ops.hammock.device_recorded_ops() == before + 2
    assert "pending" in torch.ops.hammock.device_summary(c)
    assert c.item() == pytest.approx((x * 2 + 1).sum().item())
    assert "pending" not in torch.ops.hammock.device_summary(c)


def test_an_address_is_of_computed_values():
    torch.ops.hammock.device_check_meta(False)
    a = x.to("hammock") * 2
    assert torch.ops.hammock.device_is_pending(a)
    address = a.data_ptr()
    assert not torch.ops.hammock.device_is_pending(a)
    assert a.data_ptr() == address == a.untyped_storage().data_ptr()


def test_late_errors_name_the_python_line():
    a = x.to("hammock")
    torch.ops.hammock.device_check_meta(False)
    wrong = a.index_select(0, torch.tensor([7], device="hammock"))
    line = inspect.currentframe().f_lineno - 1
    with pytest.raises(RuntimeError, match=f"out of bounds.*test_device.py:{line}"):
        (wrong * 2).sum().item()
    same(a + 1, x + 1)


def test_threads_record_their_own_backward():
    grads = []

    def run():
        a = torch.ones(3, device="hammock", requires_grad=True)
        (a * 2).sum().backward()
        grads.append(a.grad.tolist())

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert grads == [[2.0, 2.0, 2.0]] * 4


def net(kind):
    torch.manual_seed(1)
    if kind == "mlp":
        return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 3))
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3),
    )


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, weight_decay=1e-3),
    "sgd_fused": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, fused=True),
    "adam": lambda p: torch.optim.Adam(p, 1e-2),
    "adam_loop": lambda p: torch.optim.Adam(p, 1e-2, foreach=False),
    "adam_fused": lambda p: torch.optim.Adam(p, 1e-2, fused=True, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, 1e-2),
    "adamw_fused": lambda p: torch.optim.AdamW(p, 1e-2, fused=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, 1e-2),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 1e-2),
}


def train(device, kind, optimizer, steps=6, amp=None):
    model = net(kind).to(device)
    shape = (64, 8) if kind == "mlp" else (64, 1, 8, 8)
    torch.manual_seed(2)
    data = torch.utils.data.TensorDataset(torch.randn(shape), torch.randint(0, 3, (64,)))
    loader = torch.utils.data.DataLoader(data, batch_size=16)
    opt = OPTIMIZERS[optimizer](model.parameters())
    losses = []
    while len(losses) < steps:
        for batch, labels in loader:
            opt.zero_grad()
            with torch.autocast(device, dtype=amp, enabled=amp is not None):
                loss = F.cross_entropy(model(batch.to(device)), labels.to(device))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            losses.append(loss.item())
    return model, opt, losses


@pytest.mark.parametrize("kind", ["mlp", "conv"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_is_that_of_the_cpu(kind, optimizer):
    if kind == "conv" and optimizer not in ("sgd", "adam"):
        pytest.skip("once is enough")
    torch.ops.hammock.device_check_meta(False)
    ours, _, losses = train("hammock", kind, optimizer)
    theirs, _, expected = train("cpu", kind, optimizer)
    assert losses == pytest.approx(expected, rel=1e-4)
    for a, b in zip(ours.parameters(), theirs.parameters()):
        torch.testing.assert_close(a.detach().cpu(), b.detach(), rtol=1e-3, atol=1e-4)
    assert hammock_torch.fallbacks() == {}


def test_autocast():
    torch.ops.hammock.device_check_meta(False)
    _, _, losses = train("hammock", "mlp", "sgd", amp=torch.bfloat16)
    _, _, expected = train("cpu", "mlp", "sgd", amp=torch.bfloat16)
    assert losses == pytest.approx(expected, rel=2e-2)
    with torch.autocast("hammock", dtype=torch.bfloat16):
        assert (m.to("hammock") @ m.t().to("hammock")).dtype == torch.bfloat16


def test_grad_scaler():
    torch.ops.hammock.device_check_meta(False)
    model = nn.Linear(4, 1).to("hammock")
    opt = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("hammock", init_scale=8.0, growth_interval=1)
    for value, scale in ((1.0, 16.0), (float("inf"), 8.0), (1.0, 16.0)):
        before = model.weight.detach().cpu().clone()
        opt.zero_grad()
        scaler.scale(model(torch.full((2, 4), value, device="hammock")).sum()).backward()
        scaler.step(opt)
        scaler.update()
        assert scaler.get_scale() == scale
        changed = not torch.equal(before, model.weight.detach().cpu())
        assert changed == (value == 1.0)


def test_checkpoint():
    torch.ops.hammock.device_check_meta(False)
    model, opt, _ = train("hammock", "mlp", "adam")
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "opt": opt.state_dict()}, file)
    for where in ("hammock", "cpu"):
        file.seek(0)
        saved = torch.load(file, map_location=where)
        again = net("mlp").to(where)
        again.load_state_dict(saved["model"])
        OPTIMIZERS["adam"](again.parameters()).load_state_dict(saved["opt"])
        for a, b in zip(again.parameters(), model.parameters()):
            assert a.device.type == where and torch.equal(a.cpu(), b.cpu())
    file.seek(0)
    back = torch.load(file)["model"]
    assert all(v.device.type == "hammock" for v in back.values())
    loaded = back["0.weight"]
    loaded.add_(1)
    assert torch.equal(loaded.cpu(), model[0].weight.detach().cpu() + 1)


def test_deepcopy_and_storages():
    a = x.to("hammock")
    pair = copy.deepcopy([a, a[0]])
    pair[0].add_(1)
    same(pair[1], x[0] + 1)
    same(a, x)
    b = torch.empty(0, device="hammock").set_(a.untyped_storage(), 4, (2, 3), (3, 1))
    b.zero_()
    assert a.cpu().flatten()[4:10].abs().sum() == 0


def test_parameters_and_data():
    model = nn.Linear(3, 2)
    same(model.to("hammock").weight.data, model.weight.data.cpu())
    model.weight.data = torch.ones(2, 3, device="hammock")
    assert model.weight.sum().item() == 6
    assert model.cpu().weight.device.type == "cpu"


def steps(model, optimizer, device):
    batch = torch.linspace(-1, 1, 8).reshape(2, 4).to(device)
    for _ in range(3):
        optimizer.zero_grad()
        model(batch).square().sum().backward()
        optimizer.step()
    return [parameter.detach().cpu() for parameter in model.parameters()]


def test_an_optimizer_from_before_the_move_trains_the_model():
    torch.ops.hammock.device_check_meta(False)
    theirs = nn.Linear(4, 3)
    ours = copy.deepcopy(theirs)
    parameters = list(ours.parameters())
    optimizer = torch.optim.Adam(parameters, 0.1)
    ours.to("hammock")
    assert all(a is b for a, b in zip(ours.parameters(), parameters))
    expected = steps(theirs, torch.optim.Adam(theirs.parameters(), 0.1), "cpu")
    for a, b in zip(steps(ours, optimizer, "hammock"), expected):
        torch.testing.assert_close(a, b)


def tied():
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    model[1].weight = model[0].weight
    model[1].register_parameter("again", model[0].weight)
    return model


def test_tied_weights_stay_tied():
    torch.ops.hammock.device_check_meta(False)
    model = tied().to("hammock")
    assert model[0].weight is model[1].weight is model[1].again
    assert model[0].weight.device.type == "hammock"
    theirs = copy.deepcopy(model).cpu()
    assert theirs[0].weight is theirs[1].weight
    ours = steps(model, torch.optim.SGD(model.parameters(), 0.01), "hammock")
    expected = steps(theirs, torch.optim.SGD(theirs.parameters(), 0.01), "cpu")
    torch.testing.assert_close(ours, expected)


def test_models_move_back_with_their_gradients():
    torch.ops.hammock.device_check_meta(False)
    model = nn.Linear(4, 3).to("hammock")
    weight, seen = model.weight, []
    weight.register_hook(lambda grad: seen.append(grad.device.type))
    weight.note = "kept"
    loss = model(torch.ones(2, 4, device="hammock")).sum()  # alive: the history too
    loss.backward()
    model.cpu()
    assert model.weight is weight and weight.note == "kept"
    assert weight.grad.tolist() == [[2.0] * 4] * 3 and weight.grad.device.type == "cpu"
    model(torch.ones(2, 4)).sum().backward()
    assert weight.grad.tolist() == [[4.0] * 4] * 3 and seen == ["hammock", "cpu"]


def test_parameters_that_cannot_move_say_so():
    model = nn.Linear(4, 3)
    held = weakref.ref(model.weight)
    with pytest.raises(RuntimeError, match="Linear.weight cannot move to hammock:0"):
        model.to("hammock")
    assert held() is not None


@pytest.mark.parametrize("name", RANDOM | RANDOM_BY_PYTORCH)
def test_random_numbers_are_those_of_the_cpu(name):
    torch.ops.hammock.device_check_meta(name in RANDOM)  # others have no meta kernel
    def draw(a, **generator):
        torch.manual_seed(4)
        return (RANDOM | RANDOM_BY_PYTORCH)[name](a, **generator)

    same(draw(y.to("hammock")), draw(y))
    assert bool(hammock_torch.fallbacks()) == (name in RANDOM_BY_PYTORCH)
    if "g" in RANDOM.get(name, draw).__code__.co_varnames:
        ours = draw(y.to("hammock"), generator=torch.Generator("hammock").manual_seed(2))
        same(ours, draw(y, generator=torch.Generator().manual_seed(2)))


def test_generator():
    g = torch.Generator(device="hammock").manual_seed(5)
    h = torch.Generator().manual_seed(5)
    torch.manual_seed(1)
    expected = torch.rand(2)
    torch.manual_seed(1)
    for _ in range(2):
        same(torch.rand(3, device="hammock", generator=g), torch.rand(3, generator=h))
    assert torch.equal(torch.rand(2), expected)


def test_printing_and_numpy():
    assert "device='hammock:0'" in repr(x.to("hammock"))
    assert repr(torch.tensor(2.0, device="hammock")) == "tensor(2., device='hammock:0')"
    assert x.to("hammock").tolist() == x.tolist()
    assert torch.from_dlpack(x.to("hammock")).shape == x.shape


def test_accelerator():
    assert torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator().type == "hammock"
    assert torch.accelerator.device_count() == torch.hammock.device_count() >= 1
    torch.accelerator.synchronize()
    assert x.to("hammock").is_hammock


def test_double_backward_and_hooks():
    def run(a, b):
        a = a.detach().requires_grad_()
        (g,) = torch.autograd.grad((a.sin() * b).sum(), a, create_graph=True)
        g.pow(2).sum().backward()
        return a.grad

    both(run, x, y)


def test_channels_last():
    image = torch.randn(2, 3, 5, 5)
    conv = nn.Conv2d(3, 4, 3)
    ours = copy.deepcopy(conv).to("hammock")
    a = image.to("hammock").to(memory_format=torch.channels_last)
    assert a.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(ours(a).cpu(), conv(image), rtol=1e-4, atol=1e-5)


def test_tensors_are_freed():
    torch.ops.hammock.device_check_meta(False)
    before = torch.hammock.memory_allocated()
    for _ in range(20):
        big = torch.ones(1 << 20, device="hammock") + 1
        big[0].item()
    del big
    gc.collect()
    torch.hammock.synchronize()
    assert torch.hammock.memory_allocated() < before + (16 << 20)
