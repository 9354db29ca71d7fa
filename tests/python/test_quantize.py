"""nn.quantize_, Calibration, MinMaxObserver."""

import numpy as np
import pytest

import hammock as hm
from hammock import nn


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.first = nn.Linear(8, 64)
        self.second = nn.Linear(64, 10)

    def forward(self, x):
        return self.second(self.first(self.conv(x).relu().mean([2, 3])).relu())


def difference(a, b):
    return (a - b).abs().max().item()


@pytest.mark.parametrize("dtype", [hm.int8, hm.uint8, hm.int4, hm.uint4, hm.int2, hm.uint2, hm.float8_e4m3fn])
def test_weights_alone(dtype):
    net, x = Small(), hm.randn(4, 3, 8, 8)
    before = net(x)
    assert nn.quantize_(net, dtype, group=8) == ["first", "second"]
    assert difference(before, net(x)) <= before.abs().max().item() * (1.5 if "int2" in dtype.name else 0.25 if "int4" in dtype.name else 0.05)
    assert net.first.weight.dtype is dtype and net.state_dict()["first.weight"].dtype is dtype
    assert net.first.scale.shape == (64, 1) and net.second.scale.shape == (10, 8)
    assert not list(net.first.parameters()) and isinstance(net.first, nn.QuantizedLinear)


def test_a_scale_is_that_of_its_rows():
    linear = nn.Linear(4, 3)
    quantized = nn.QuantizedLinear(linear)
    weight, scale = np.array(linear.weight.detach()), np.array(quantized.scale)
    np.testing.assert_allclose(scale[:, 0], abs(weight).max(1) / 127, rtol=1e-6)
    np.testing.assert_array_equal(np.array(quantized.weight), np.clip(np.round(weight / scale), -128, 127))
    x = hm.randn(2, 4)
    exact = np.array(x, dtype=float) @ (np.array(quantized.weight) * scale).T + np.array(linear.bias.detach())
    np.testing.assert_allclose(np.array(quantized(x)), exact, atol=1e-5)


def test_activations_too_after_calibration():
    net, x = Small(), hm.randn(8, 3, 8, 8)
    before = net(x)
    with nn.Calibration(net) as calibration:
        for _ in range(4):
            net(hm.randn(8, 3, 8, 8))
        net(x)
    assert calibration.find("first").empty is False and calibration.find("nothing") is None
    assert nn.quantize_(net, calibration=calibration) == ["conv", "first", "second"]
    assert isinstance(net.conv, nn.ByteConv) and isinstance(net.second, nn.ByteLinear)
    assert difference(before, net(x)) <= before.abs().max().item() * 0.1
    one = net.conv(x[0])
    assert one.shape == (8, 8, 8) and difference(one, net.conv(x)[0]) < 1e-6
    again = Small()
    nn.quantize_(again, calibration=calibrated(again))
    again.load_state_dict(net.state_dict())
    assert difference(net(x), again(x)) == 0


def calibrated(net):
    calibration = nn.Calibration(net)
    net(hm.zeros(1, 3, 8, 8))
    return calibration


def test_bytes_are_those_of_the_observed_scale():
    linear, observer = nn.Linear(3, 2), nn.MinMaxObserver()
    x = hm.tensor([[-1.0, 0.5, 4.1], [0.0, 2.0, -0.5]])
    observer.observe(x)
    scale, zero = observer.scale(hm.uint8)
    assert abs(scale.item() - 5.1 / 255) < 1e-7 and zero.item() == 50 and zero.dtype is hm.int32
    byte = nn.ByteLinear(linear, observer)
    given = np.clip(np.round(np.array(x) / scale.item()) + 50, 0, 255) - 50
    sums = given @ np.array(byte.weight, dtype=float).T * np.array(byte.scale) * scale.item()
    np.testing.assert_allclose(np.array(byte(x)), sums + np.array(linear.bias.detach()), atol=1e-5)


def test_observers():
    observer = nn.MinMaxObserver(momentum=0.5)
    assert observer.empty
    with pytest.raises(ValueError, match="no values were observed"):
        observer.scale(hm.uint8)
    observer.observe(hm.tensor([0.0, 2.0]))
    observer.observe(hm.tensor([0.0, 4.0]))
    assert abs(observer.scale(hm.uint8)[0].item() - 3 / 255) < 1e-7
    with pytest.raises(ValueError, match="momentum"):
        nn.MinMaxObserver(2.0)


def test_transformers_with_the_projections_of_their_attention():
    net, again, of_bytes = (nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0) for _ in range(3))
    x = hm.randn(5, 3, 16)
    before = net(x)
    names = ["self_attn.out_proj", "linear1", "linear2"]
    assert sorted(nn.quantize_(net)) == sorted(names) == sorted(nn.quantize_(again))
    assert difference(net(x), before) <= 0.05
    assert net.state_dict()["self_attn.out_proj.weight"].dtype is hm.int8
    again.load_state_dict(net.state_dict())
    assert difference(net(x), again(x)) == 0
    net.self_attn.out_proj.scale.zero_()  # which is read, so
    assert difference(net(x), before) > 0.05
    with nn.Calibration(of_bytes) as calibration:
        before = of_bytes(x)
    nn.quantize_(of_bytes, calibration=calibration)
    assert isinstance(of_bytes.self_attn.out_proj, nn.ByteLinear) and difference(of_bytes(x), before) <= 0.1


def test_losses_of_a_linear_layer():
    loss, x, target = nn.LinearCrossEntropyLoss(8, 4), hm.randn(3, 8), hm.tensor([0, 3, 1])
    before = loss(x, target)
    assert nn.quantize_(loss) == ["linear"] and difference(loss(x, target), before) <= 0.05


def test_layers_that_stay():
    net = Small()
    assert nn.quantize_(net, keep=lambda name, layer: name == "second" or isinstance(layer, nn.Conv2d)) == ["first"]
    assert type(net.second) is nn.Linear
    shared = nn.Linear(8, 8)
    both = nn.Sequential(shared, nn.ReLU(), shared, nn.Linear(6, 2))
    assert nn.quantize_(both, hm.int4, group=4) == ["0"]  # rows of 6 have no groups of 4
    assert both[0] is both[2] and isinstance(both[0], nn.QuantizedLinear)
    reflecting = nn.Sequential(nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect"), nn.Conv2d(1, 1, 3, padding="same"))
    calibration = nn.Calibration(reflecting)
    reflecting(hm.ones(1, 1, 5, 5))
    assert nn.quantize_(reflecting, calibration=calibration) == []


def test_fake_quantisation_passes_gradients():
    x = hm.tensor([-9.0, 0.3, 9.0], requires_grad=True)
    y = hm.fake_quantize_per_tensor_affine(x, 0.5, 1, 0, 7)
    assert y.tolist() == [-0.5, 0.5, 3.0]
    y.sum().backward()
    assert x.grad.tolist() == [0, 1, 0]
    rows = hm.fake_quantize_per_channel_affine(x.reshape(3, 1), hm.tensor([0.5, 1.0, 2.0]), hm.zeros(3), 0, -8, 7)
    assert rows.flatten().tolist() == [-4, 0, 8]


def test_wrong_arguments():
    net = nn.Sequential(nn.Linear(4, 4))
    with pytest.raises(TypeError, match="dtype"):
        nn.quantize_(net, "nothing")
    with pytest.raises(TypeError):
        nn.quantize_(net, hm.float32)
    with pytest.raises(ValueError, match="groups of 3"):
        nn.QuantizedLinear(net[0], group=3)
    calibration = nn.Calibration(net)
    with pytest.raises(ValueError, match="by position"):
        net[0](x=hm.ones(1, 4))
    calibration.stop()
    net[0](x=hm.ones(1, 4))
