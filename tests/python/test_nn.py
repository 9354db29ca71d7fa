"""Modules, layers, optimisers, data, files."""

import copy
import pickle

import numpy as np
import pytest

import hammock as hm
from hammock import data, io, nn, optim


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(4, 8)
        self.blocks = nn.ModuleList([nn.Linear(8, 8), nn.ReLU()])
        self.register_buffer("scale", hm.ones(1))
        self.head = nn.Sequential(nn.Linear(8, 2))

    def forward(self, x):
        x = self.fc1(x).relu()
        for block in self.blocks:
            x = block(x)
        return self.head(x) * self.scale


def test_attributes_register():
    net = Net()
    names = [name for name, _ in net.named_parameters()]
    assert names == ["fc1.weight", "fc1.bias", "blocks.0.weight", "blocks.0.bias", "head.0.weight", "head.0.bias"]
    assert [name for name, _ in net.named_buffers()] == ["scale"] and len(list(net.children())) == 3
    assert net.get_submodule("head.0").weight.shape == (2, 8) and "fc1" in dir(net)
    assert "(fc1): Linear(in_features=4, out_features=8, bias=True)" in repr(net)
    assert not net.eval().blocks[0].training and net.train().training
    with pytest.raises(TypeError):
        net.fc1 = 3
    with pytest.raises(AttributeError, match="super"):
        class Early(nn.Module):
            def __init__(self):
                self.fc = nn.Linear(1, 1)
        Early()
    with pytest.raises(AttributeError):
        net.nothing
    net.fc1 = None
    assert net.fc1 is None
    del net.head
    assert not hasattr(net, "head")


def test_state_dicts_copy_pickle_and_safetensors(tmp_path):
    net, x = Net(), hm.randn(3, 4)
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert other(x).tolist() == net(x).tolist() and other.fc1.weight.requires_grad
        assert not other.fc1.weight.is_alias_of(net.fc1.weight)
    path = tmp_path / "net.safetensors"
    io.save_safetensors(net.state_dict(), path, {"epoch": 3})
    other = Net().load_state_dict(io.load_safetensors(path))
    assert other(x).tolist() == net(x).tolist() and io.load_metadata(path) == {"epoch": "3"}
    other.load_state_dict({name: np.asarray(value) for name, value in net.state_dict().items()})
    state = net.state_dict()
    del state["fc1.bias"]
    state["more"] = state["fc1.weight"] = hm.ones(1)
    with pytest.raises(ValueError, match="fc1.bias is missing; more is unexpected; fc1.weight has the shape"):
        other.load_state_dict(state)
    with pytest.raises(ValueError):
        io.load_safetensors(__file__)
    with pytest.raises(hm.HammockError):
        io.load_safetensors(tmp_path / "nothing")
    with pytest.raises(TypeError):
        io.save_safetensors({"a": 1}, path)


def test_to_casts_floats_only():
    net = nn.BatchNorm1d(2).to(hm.float64)
    assert net.weight.dtype is hm.float64 and net.num_batches_tracked.dtype is hm.int64
    assert isinstance(net.weight, nn.Parameter) and net.weight.requires_grad


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Adagrad", "Adadelta", "Lion"])
def test_optimisers_descend_and_resume(name):
    w = nn.Parameter(hm.tensor([5.0, -3.0]))
    optimizer = getattr(optim, name)([w], lr=0.1)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    other = getattr(optim, name)([nn.Parameter(hm.zeros(2))], lr=0.5)
    (other.param_groups[0]["params"][0] * 1).sum().backward()
    other.step()
    other.load_state_dict(optimizer.state_dict())
    assert other.param_groups[0]["lr"] == pytest.approx(0.1)


def test_optimiser_arguments():
    a, b = nn.Parameter(hm.ones(1)), nn.Parameter(hm.ones(1))
    optimizer = optim.SGD([{"params": [a], "lr": 0.1}, {"params": b}], lr=0.2, momentum=0.9)
    assert [group["lr"] for group in optimizer.param_groups] == [pytest.approx(0.1), pytest.approx(0.2)]
    for bad in (lambda: optim.SGD([]), lambda: optim.SGD([a], lrr=1), lambda: optim.SGD([a], lr="a"),
                lambda: optim.SGD([a, a]), lambda: optim.SGD([hm.ones(1) * a])):
        with pytest.raises((ValueError, TypeError)):
            bad()
    scheduler = optim.CosineAnnealingLR(optimizer, 10)
    for _ in range(10):
        scheduler.step()
    assert scheduler.get_last_lr() == [pytest.approx(0, abs=1e-9)] * 2
    (a * 30).sum().backward()
    assert nn.utils.clip_grad_norm_([a], 1.0).item() == 30 and a.grad.item() == pytest.approx(1)


LAYERS = [
    (nn.Conv1d(2, 4, 3, padding=1, groups=2), (1, 2, 5)), (nn.Conv2d(2, 4, 3, padding="same"), (1, 2, 5, 5)),
    (nn.Conv2d(2, 4, (3, 1), stride=2, padding_mode="reflect", padding=(1, 0)), (1, 2, 6, 6)), (nn.Conv3d(1, 2, 2), (1, 1, 3, 3, 3)),
    (nn.ConvTranspose2d(2, 4, 3, stride=2, output_padding=1), (1, 2, 4, 4)), (nn.BatchNorm2d(3), (2, 3, 4, 4)),
    (nn.LayerNorm(4), (2, 4)), (nn.RMSNorm(4), (2, 4)), (nn.GroupNorm(2, 4), (2, 4, 3)), (nn.InstanceNorm2d(3), (2, 3, 4, 4)),
    (nn.GELU(), (3,)), (nn.LeakyReLU(0.2), (3,)), (nn.Softmax(dim=1), (2, 3)), (nn.PReLU(), (3,)), (nn.Dropout(0.0), (3,)),
    (nn.MaxPool2d(2), (1, 1, 4, 4)), (nn.AvgPool2d(2, stride=1), (1, 1, 4, 4)), (nn.AdaptiveAvgPool2d(2), (1, 1, 5, 5)),
    (nn.Flatten(), (2, 3, 4)), (nn.Upsample(scale_factor=2), (1, 1, 2, 2)), (nn.LSTM(3, 5, 2, bidirectional=True), (4, 2, 3)),
    (nn.GRU(3, 4, batch_first=True), (2, 4, 3)), (nn.RNN(3, 4, nonlinearity="relu"), (4, 3)),
    (nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), (2, 5, 8)),
]


@pytest.mark.parametrize("layer, shape", LAYERS, ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "")
def test_layers_run_forward_and_backward(layer, shape):
    x = hm.randn(*shape).requires_grad_()
    result = layer(x)
    result = result[0] if isinstance(result, tuple) else result
    (result * result).sum().backward()
    for name, parameter in [("x", x), *layer.named_parameters()]:
        assert parameter.grad is not None and hm.isfinite(parameter.grad).all().item(), name
    repr(layer)


@pytest.mark.parametrize("layer, shape", LAYERS, ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "")
def test_layers_agree_with_pytorch(layer, shape):
    torch = pytest.importorskip("torch")
    made = getattr(torch.nn, type(layer).__name__)
    arguments = {"Conv1d": ((2, 4, 3), dict(padding=1, groups=2)), "ConvTranspose2d": ((2, 4, 3), dict(stride=2, output_padding=1)),
                 "Conv3d": ((1, 2, 2), {}), "BatchNorm2d": ((3,), {}), "LayerNorm": ((4,), {}), "GroupNorm": ((2, 4), {}),
                 "LSTM": ((3, 5, 2), dict(bidirectional=True)), "GRU": ((3, 4), dict(batch_first=True)),
                 "TransformerEncoderLayer": ((8, 2, 16), dict(dropout=0.0, batch_first=True)), "PReLU": ((), {})}
    if type(layer).__name__ not in arguments:
        pytest.skip("no parameters")
    args, kwargs = arguments[type(layer).__name__]
    theirs = made(*args, **kwargs)
    layer.load_state_dict(theirs.state_dict())
    x = hm.randn(*shape)
    ours, expected = layer(x), theirs(hm.to_torch(x))
    ours, expected = (v[0] if isinstance(v, tuple) else v for v in (ours, expected))
    np.testing.assert_allclose(np.asarray(ours.detach()), expected.detach().numpy(), rtol=1e-4, atol=1e-5)
    theirs.load_state_dict({name: hm.to_torch(value) for name, value in layer.state_dict().items()})


def agrees(torch, theirs, *inputs):
    ours = nn.from_torch(theirs)
    given = [hm.from_torch(x) for x in inputs]
    both = zip(tensors_of(ours(*given)), tensors_of(theirs(*inputs)))
    for ours_out, theirs_out in both:
        np.testing.assert_allclose(np.asarray(ours_out.detach()), theirs_out.detach().numpy(), rtol=1e-4, atol=1e-5)
    return ours


def tensors_of(value):
    return [leaf for item in value for leaf in tensors_of(item)] if isinstance(value, (tuple, list)) else [] if value is None else [value]


def test_modules_of_pytorch_convert():
    torch = pytest.importorskip("torch")
    theirs = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
                                 torch.nn.Flatten(), torch.nn.Linear(18, 4)).eval()
    ours = agrees(torch, theirs, torch.randn(2, 1, 8, 8))
    assert not ours[1].training


def test_every_known_layer_of_pytorch_converts():
    torch = pytest.importorskip("torch")
    import module_cases

    converted = 0
    for cases in (module_cases.layers(torch.nn), module_cases.unary(torch.nn, lambda *shape: torch.rand(*shape))):
        for name, (theirs, shapes) in cases.items():
            shapes = shapes if isinstance(shapes, list) else [shapes]
            if shapes[0] == "ints":
                inputs = [torch.arange(6).reshape(shapes[1]) * 2 % shapes[2]]
            else:
                inputs = [torch.randn(shape) for shape in shapes]
            agrees(torch, theirs.eval(), *inputs)
            converted += 1
    assert converted > 80


def test_forwards_of_pytorch_are_taken_over_call_by_call():
    torch = pytest.importorskip("torch")
    F = torch.nn.functional

    class Block(torch.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm, self.fc = torch.nn.LayerNorm(width), torch.nn.Linear(width, width)
            self.scale = torch.nn.Parameter(torch.full((width,), 0.5))
            self.register_buffer("shift", torch.arange(float(width)))

        def forward(self, x, skip=None):
            y = F.gelu(self.fc(self.norm(x))) * self.scale + self.shift
            return x + y if skip is None else torch.cat([x, y], dim=-1)[..., : x.shape[-1]] + skip

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = torch.nn.ModuleList([Block(6) for _ in range(2)])
            self.head = torch.nn.Linear(6, 3)

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return torch.log_softmax(self.head(x.flatten(1)), 1), x.mean().view(1)

    ours = agrees(torch, Net(), torch.randn(4, 6))
    assert list(ours.state_dict()) == list(Net().state_dict())
    ours(hm.ones(4, 6))[0].sum().backward()
    assert ours.blocks[0].scale.grad is not None

    class Branches(torch.nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    class Unknown(torch.nn.Module):
        def forward(self, x):
            return torch.lobpcg(x)

    with pytest.raises(NotImplementedError, match="Branches at '0' is no layer that Hammock knows, and torch.fx cannot trace"):
        nn.from_torch(torch.nn.Sequential(Branches()))
    with pytest.raises(NotImplementedError, match="Unknown calls .*lobpcg"):
        nn.from_torch(Unknown())


def test_losses():
    x, y = hm.randn(4, 3), hm.tensor([0, 1, 2, 0])
    assert nn.CrossEntropyLoss(label_smoothing=0.1)(x, y).ndim == 0 and nn.MSELoss(reduction="none")(x, x).shape == (4, 3)
    assert nn.BCEWithLogitsLoss()(x, hm.ones(4, 3)).item() > 0 and nn.KLDivLoss(reduction="sum")(x, x.softmax(1)).ndim == 0
    with pytest.raises(TypeError, match="there is no argument 'reductoin'"):
        nn.MSELoss(reductoin="none")
    assert nn.functional.relu is hm.relu


def test_grad_scaler():
    w = nn.Parameter(hm.ones(1))
    optimizer, scaler = optim.SGD([w], lr=1.0), optim.GradScaler(init_scale=4.0)
    scaler.scale((w * hm.inf).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert w.item() == 1 and scaler.get_scale() == 2


class Squares(data.Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, i):
        return {"x": np.full(3, i, dtype=np.float32), "y": i * i, "name": str(i)}


def test_loaders():
    loader = data.DataLoader(Squares(), batch_size=4)
    batches = list(loader)
    assert len(batches) == len(loader) == 3 and batches[0]["x"].shape == (4, 3) and batches[2]["y"].tolist() == [64, 81]
    assert batches[0]["name"] == ["0", "1", "2", "3"]
    shuffled = [n for batch in data.DataLoader(Squares(), 3, shuffle=True, seed=1) for n in batch["y"].tolist()]
    assert sorted(shuffled) == [i * i for i in range(10)] and shuffled != sorted(shuffled)
    a, b = data.random_split(Squares(), [7, 3])
    assert len(a) == 7 and len(b) == 3 and len(data.DataLoader(a, 2, drop_last=True)) == 3
    x, y = next(iter(data.DataLoader(data.TensorDataset(hm.arange(4), np.arange(4.0)), 2)))
    assert x.tolist() == [0, 1] and y.tolist() == [0, 1]
    for bad in (lambda: data.DataLoader(Squares(), 0), lambda: data.random_split(Squares(), [1]),
                lambda: data.TensorDataset([1], [1, 2])):
        with pytest.raises(ValueError):
            bad()


def test_loaders_with_worker_processes():
    loader = data.DataLoader(Squares(), batch_size=4, num_workers=2)
    for _ in range(2):
        assert [batch["y"].tolist() for batch in loader] == [[0, 1, 4, 9], [16, 25, 36, 49], [64, 81]]
    loader.close()


def test_hooks_before_and_after_calls():
    net, seen = nn.Sequential(nn.Linear(2, 2)), []
    x = hm.ones(1, 2)
    plain = net(x)
    before = net[0].register_forward_pre_hook(lambda module, args: seen.append((module, args)))
    zeroed = net[0].register_forward_pre_hook(lambda module, args: args[0] * 0)  # not a tuple: the only argument
    after = net[0].register_forward_hook(lambda module, args, result: result + args[0])
    assert net(x).tolist() == [net[0].bias.tolist()]
    assert seen == [(net[0], (x,))]
    for handle in (before, zeroed, after):
        handle.remove()
    assert net(x).tolist() == plain.tolist() and len(seen) == 1
    with nn.Linear(2, 2).register_forward_pre_hook(lambda module, args: None):
        pass

    class Counts(nn.Sequential):  # a call of its own, around that of Module
        def __call__(self, x):
            return super().__call__(x) + 1

    assert Counts(nn.Identity())(x).tolist() == [[2, 2]]
