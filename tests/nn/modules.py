"""Prints what PyTorch's modules give, with gradients, and the names of all of them, as modules.json has it.

    python3 modules.py > modules.json

Values of inputs, parameters and buffers are those that the test computes too, as in pytorch.py.
"""
import inspect
import json
import torch
from torch import nn
from torch.nn.utils import parametrizations
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

torch.set_default_dtype(torch.float64)


def values(shape, seed, scale=1.0):
    count = 1
    for size in shape:
        count *= size
    numbers = [(((i + 1000 * seed) * 2654435761 % 2**32) / 2**32 - 0.5) * scale for i in range(count)]
    return torch.tensor(numbers).reshape(shape)


def samples(*shape):
    return values(shape, 50) + 0.5


LINE, IMAGE, VOLUME = (2, 4, 6), (1, 4, 4, 4), (1, 2, 4, 4, 4)
UNARY = {
    "MaxPool1d": (nn.MaxPool1d(2), LINE), "AvgPool1d": (nn.AvgPool1d(3, stride=2, padding=1), LINE),
    "AdaptiveAvgPool1d": (nn.AdaptiveAvgPool1d(4), LINE), "AdaptiveMaxPool1d": (nn.AdaptiveMaxPool1d(4), LINE),
    "LPPool1d": (nn.LPPool1d(2, 3, stride=2), LINE), "ConstantPad1d": (nn.ConstantPad1d((1, 2), 1.5), LINE),
    "ZeroPad1d": (nn.ZeroPad1d(1), LINE), "ReflectionPad1d": (nn.ReflectionPad1d((1, 2)), LINE),
    "ReplicationPad1d": (nn.ReplicationPad1d(2), LINE), "CircularPad1d": (nn.CircularPad1d((1, 2)), LINE),
    "LPPool2d": (nn.LPPool2d(2, (2, 3)), IMAGE), "LPPool2d_inf": (nn.LPPool2d(float("inf"), 2), IMAGE),
    "CircularPad2d": (nn.CircularPad2d((1, 2, 0, 1)), IMAGE),
    "UpsamplingNearest2d": (nn.UpsamplingNearest2d(scale_factor=2), IMAGE),
    "UpsamplingBilinear2d": (nn.UpsamplingBilinear2d(size=(7, 5)), IMAGE),
    "ChannelShuffle": (nn.ChannelShuffle(2), IMAGE), "Unflatten": (nn.Unflatten(1, (2, 2)), IMAGE),
    "Unfold": (nn.Unfold((2, 3), padding=1, stride=2), IMAGE), "Fold": (nn.Fold((4, 4), 2), (1, 8, 9)),
    "FractionalMaxPool2d": (nn.FractionalMaxPool2d(2, output_size=(3, 2), _random_samples=samples(2, 3, 2)),
                            (2, 3, 7, 6)),
    "LocalResponseNorm": (nn.LocalResponseNorm(3, alpha=0.1), IMAGE), "Identity": (nn.Identity(), LINE),
    "Flatten": (nn.Flatten(), IMAGE), "MaxPool3d": (nn.MaxPool3d(2), VOLUME),
    "AvgPool3d": (nn.AvgPool3d(2, stride=1), VOLUME), "AdaptiveAvgPool3d": (nn.AdaptiveAvgPool3d(3), VOLUME),
    "AdaptiveMaxPool3d": (nn.AdaptiveMaxPool3d(2), VOLUME), "LPPool3d": (nn.LPPool3d(2, 2), VOLUME),
    "ConstantPad3d": (nn.ConstantPad3d((1, 0, 0, 1, 0, 0), 1.5), VOLUME), "ZeroPad3d": (nn.ZeroPad3d(1), VOLUME),
    "ReflectionPad3d": (nn.ReflectionPad3d(1), VOLUME), "ReplicationPad3d": (nn.ReplicationPad3d(1), VOLUME),
    "CircularPad3d": (nn.CircularPad3d((1, 0, 2, 1, 0, 1)), VOLUME),
    "FractionalMaxPool3d": (nn.FractionalMaxPool3d(2, output_ratio=0.5, _random_samples=samples(1, 2, 3)),
                            (1, 2, 6, 5, 6)),
    "Upsample": (nn.Upsample(scale_factor=2, mode="trilinear"), VOLUME),
}
for name in ["ReLU", "ReLU6", "GELU", "SiLU", "Mish", "SELU", "Hardswish", "Hardsigmoid", "LogSigmoid", "Sigmoid", "Softsign",
             "Tanh", "Tanhshrink", "ELU", "CELU", "Softplus", "LeakyReLU", "Hardtanh", "Softshrink", "Hardshrink", "GLU",
             "Softmax2d"]:
    UNARY[name] = (getattr(nn, name)(), IMAGE)
for name in ["Softmax", "Softmin", "LogSoftmax"]:
    UNARY[name] = (getattr(nn, name)(1), IMAGE)


class Call(nn.Module):
    """A module and how it is called."""

    def __init__(self, run, module=None):
        super().__init__()
        self.run = run
        if module is not None:
            self.module = module

    def forward(self, *inputs):
        return self.run(getattr(self, "module", None), *inputs)


def packed(module, data, *state):
    state = tuple(state) if len(state) > 1 else state[0] if state else None
    sequence = pack_padded_sequence(data, [3, 5, 2], enforce_sorted=False)
    output, last = module(sequence, state)
    return pad_packed_sequence(output)[0], last


def unpool(pool, back):
    return Call(lambda _, x: back(*pool(x)))


LABELS = torch.tensor([0, 3, 7, 5])
PLAIN = lambda module, *inputs: module(*inputs)
MODULES = {
    "MaxUnpool1d": (unpool(nn.MaxPool1d(2, return_indices=True), nn.MaxUnpool1d(2)), [LINE]),
    "MaxUnpool2d": (unpool(nn.MaxPool2d(2, stride=2, return_indices=True), nn.MaxUnpool2d(2, stride=2)), [IMAGE]),
    "MaxUnpool3d": (unpool(nn.MaxPool3d(2, return_indices=True), nn.MaxUnpool3d(2)), [VOLUME]),
    "RMSNorm": (Call(PLAIN, nn.RMSNorm((3, 4), eps=1e-5)), [(2, 3, 4)]),
    "BatchNorm1d": (Call(PLAIN, nn.BatchNorm1d(3)), [(4, 3, 5)]),
    "InstanceNorm3d": (Call(PLAIN, nn.InstanceNorm3d(2, affine=True)), [(2, 2, 3, 2, 2)]),
    "CosineSimilarity": (Call(lambda _, a, b: nn.CosineSimilarity(dim=1)(a, b)), [(4, 3), (4, 3)]),
    "PairwiseDistance": (Call(lambda _, a, b: nn.PairwiseDistance(p=3, keepdim=True)(a, b)), [(4, 3), (4, 3)]),
    "TripletMarginWithDistanceLoss": (Call(lambda _, a, b, c: nn.TripletMarginWithDistanceLoss(
        distance_function=lambda x, y: 1 - nn.functional.cosine_similarity(x, y), margin=0.7, swap=True)(a, b, c)),
        [(4, 3), (4, 3), (4, 3)]),
    "CTCLoss": (Call(lambda _, x: nn.CTCLoss()(x.log_softmax(2), torch.tensor([[1, 2, 1], [3, 3, 2]]),
                                               torch.tensor([6, 5]), torch.tensor([3, 2]))), [(6, 2, 4)]),
    "LinearCrossEntropyLoss": (Call(lambda m, x: m(x, LABELS), nn.LinearCrossEntropyLoss(3, 8, bias=True)), [(4, 3)]),
    "AdaptiveLogSoftmaxWithLoss": (Call(lambda m, x: tuple(m(x, LABELS)) + (m.log_prob(x),),
                                        nn.AdaptiveLogSoftmaxWithLoss(8, 9, [2, 5], div_value=2.0, head_bias=True)),
                                   [(4, 8)]),
    "weight_norm": (Call(PLAIN, parametrizations.weight_norm(nn.Linear(3, 2))), [(4, 3)]),
    "weight_norm_conv": (Call(PLAIN, parametrizations.weight_norm(nn.Conv2d(2, 3, 2), dim=1)), [(1, 2, 4, 4)]),
    "spectral_norm": (Call(PLAIN, parametrizations.spectral_norm(nn.Linear(3, 2), n_power_iterations=2)), [(4, 3)]),
    "spectral_norm_eval": (Call(PLAIN, parametrizations.spectral_norm(nn.ConvTranspose2d(2, 3, 2))).eval(), [(1, 2, 3, 3)]),
    "packed_rnn": (Call(packed, nn.RNN(3, 4)), [(5, 3, 3), (1, 3, 4)]),
    "packed_gru": (Call(packed, nn.GRU(3, 4, bidirectional=True, bias=False)), [(5, 3, 3)]),
    "packed_lstm": (Call(packed, nn.LSTM(3, 4, num_layers=2, bidirectional=True)), [(5, 3, 3), (4, 3, 4), (4, 3, 4)]),
    "packed_lstm_projected": (Call(packed, nn.LSTM(3, 4, proj_size=2)), [(5, 3, 3)]),
}


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [] if value is None else [each for part in value for each in tensors(part)]


def listed(tensor):
    return {"shape": list(tensor.shape), "values": tensor.detach().flatten().tolist()}


def run(module, shapes, seed):
    """Outputs, buffers after the call, and gradients of their sum, weighted, with respect to inputs and parameters."""
    state = getattr(module, "module", None)
    if state is not None:
        with torch.no_grad():
            for number, (name, tensor) in enumerate(state.state_dict().items()):
                if tensor.is_floating_point():
                    tensor.copy_(values(tensor.shape, number + 1))
                    if name.endswith("running_var"):
                        tensor.abs_().add_(0.5)
    inputs = [values(shape, seed + i, 2.0).requires_grad_() for i, shape in enumerate(shapes)]
    outputs = tensors(module(*inputs))
    sum((output * values(output.shape, 200 + i)).sum() for i, output in enumerate(outputs)).backward()
    result = {"inputs": [list(shape) for shape in shapes], "outputs": [listed(output) for output in outputs],
              "input_grads": [each.grad.flatten().tolist() for each in inputs]}
    if state is not None:
        result["keys"] = [[name, list(tensor.shape)] for name, tensor in state.state_dict().items()]
        result["buffers"] = {name: tensor.flatten().tolist() for name, tensor in state.named_buffers()}
        result["grads"] = {name: tensor.grad.flatten().tolist() for name, tensor in state.named_parameters()}
    return result


def rounded(value):
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, list):
        return [rounded(each) for each in value]
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    return value


def section(name, cases):
    print(f' "{name}": {{')
    print(",\n".join(f'  "{key}": {json.dumps(rounded(each))}' for key, each in cases.items()))
    print(" },")


classes = [name for name in dir(nn) if inspect.isclass(getattr(nn, name))]
print("{")
section("unary", {name: run(layer, [shape], 7) for name, (layer, shape) in sorted(UNARY.items())})
section("modules", {name: run(layer, shapes, 100) for name, (layer, shapes) in MODULES.items()})
print(f' "version": {json.dumps(torch.__version__.split("+")[0])},')
print(f' "classes": {json.dumps(classes)}')
print("}")
