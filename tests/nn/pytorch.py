"""Prints what PyTorch's layers have in their state_dict and give, as pytorch.json has it.

    python3 pytorch.py > pytorch.json

All floating values of a state_dict are filled with numbers that the test computes too.
"""
import json
import torch
from torch import nn

torch.set_default_dtype(torch.float64)


def values(shape, seed, scale=1.0):
    count = 1
    for size in shape:
        count *= size
    numbers = [(((i + 1000 * seed) * 2654435761 % 2**32) / 2**32 - 0.5) * scale for i in range(count)]
    return torch.tensor(numbers).reshape(shape)


def fill(module):
    with torch.no_grad():
        for seed, (name, tensor) in enumerate(module.state_dict().items()):
            if tensor.is_floating_point():
                tensor.copy_(values(tensor.shape, seed + 1))
                if name.endswith("running_var"):
                    tensor.abs_().add_(0.5)


LAYERS = {
    "linear": (nn.Linear(4, 3), [(2, 4)]),
    "linear_no_bias": (nn.Linear(4, 3, bias=False), [(4,)]),
    "bilinear": (nn.Bilinear(3, 4, 2), [(5, 3), (5, 4)]),
    "conv1d": (nn.Conv1d(2, 4, 3, stride=2, padding=1), [(2, 2, 7)]),
    "conv2d": (nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 0), groups=2), [(2, 4, 5, 6)]),
    "conv2d_same": (nn.Conv2d(2, 3, 4, padding="same", dilation=2, bias=False), [(1, 2, 6, 5)]),
    "conv2d_reflect": (nn.Conv2d(1, 2, 3, padding=1, padding_mode="reflect"), [(1, 1, 4, 4)]),
    "conv2d_circular": (nn.Conv2d(1, 2, 3, padding=(1, 2), padding_mode="circular"), [(1, 1, 4, 4)]),
    "conv3d": (nn.Conv3d(1, 2, 2), [(1, 1, 3, 3, 3)]),
    "conv_transpose1d": (nn.ConvTranspose1d(2, 3, 3, stride=2, output_padding=1), [(1, 2, 4)]),
    "conv_transpose2d": (nn.ConvTranspose2d(2, 4, 3, stride=2, padding=1, groups=2), [(1, 2, 3, 3)]),
    "conv_transpose3d": (nn.ConvTranspose3d(1, 2, 2, bias=False), [(1, 1, 2, 2, 2)]),
    "embedding": (nn.Embedding(5, 3, padding_idx=1), ["ints", (2, 3), 5]),
    "embedding_bag": (nn.EmbeddingBag(5, 3, mode="sum"), ["ints", (2, 3), 5]),
    "batch_norm1d": (nn.BatchNorm1d(3), [(4, 3)]),
    "batch_norm2d": (nn.BatchNorm2d(3, momentum=0.3), [(2, 3, 4, 4)]),
    "batch_norm2d_eval": (nn.BatchNorm2d(3).eval(), [(2, 3, 4, 4)]),
    "batch_norm2d_average": (nn.BatchNorm2d(3, momentum=None), [(2, 3, 4, 4)]),
    "batch_norm3d_plain": (nn.BatchNorm3d(2, affine=False, track_running_stats=False), [(2, 2, 2, 2, 2)]),
    "instance_norm1d": (nn.InstanceNorm1d(3), [(2, 3, 5)]),
    "instance_norm2d": (nn.InstanceNorm2d(3, affine=True, track_running_stats=True), [(2, 3, 4, 4)]),
    "layer_norm": (nn.LayerNorm((3, 4)), [(2, 3, 4)]),
    "group_norm": (nn.GroupNorm(2, 4), [(2, 4, 3)]),
    "prelu": (nn.PReLU(3), [(2, 3, 2)]),
    "rrelu_eval": (nn.RReLU().eval(), [(2, 3)]),
    "rnn": (nn.RNN(3, 4, num_layers=2, nonlinearity="relu"), [(5, 2, 3)]),
    "gru": (nn.GRU(3, 4, bidirectional=True, batch_first=True), [(2, 5, 3)]),
    "gru_no_batch": (nn.GRU(3, 4, bias=False), [(5, 3)]),
    "lstm": (nn.LSTM(3, 4, num_layers=2, bidirectional=True), [(5, 2, 3)]),
    "lstm_projected": (nn.LSTM(3, 4, proj_size=2), [(5, 2, 3)]),
    "rnn_cell": (nn.RNNCell(3, 4), [(2, 3)]),
    "gru_cell": (nn.GRUCell(3, 4), [(2, 3)]),
    "lstm_cell": (nn.LSTMCell(3, 4), [(2, 3)]),
    "attention": (nn.MultiheadAttention(4, 2), [(3, 2, 4), (5, 2, 4), (5, 2, 4)]),
    "attention_sizes": (nn.MultiheadAttention(4, 2, kdim=3, vdim=2, batch_first=True, add_bias_kv=True, add_zero_attn=True),
                        [(2, 3, 4), (2, 5, 3), (2, 5, 2)]),
    "encoder_layer": (nn.TransformerEncoderLayer(4, 2, dim_feedforward=6, dropout=0.0), [(3, 2, 4)]),
    "encoder_layer_gelu": (nn.TransformerEncoderLayer(4, 2, dim_feedforward=6, dropout=0.0, activation="gelu",
                                                      batch_first=True, norm_first=True), [(2, 3, 4)]),
    "encoder": (nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, dim_feedforward=6, dropout=0.0), 2,
                                      norm=nn.LayerNorm(4)), [(3, 2, 4)]),
    "decoder_layer": (nn.TransformerDecoderLayer(4, 2, dim_feedforward=6, dropout=0.0), [(3, 2, 4), (5, 2, 4)]),
    "decoder": (nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, dim_feedforward=6, dropout=0.0), 2),
                [(3, 2, 4), (5, 2, 4)]),
    "transformer": (nn.Transformer(4, 2, 1, 1, 6, dropout=0.0), [(5, 2, 4), (3, 2, 4)]),
    "sequential": (nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                                 nn.Linear(8, 3)), [(2, 1, 6, 6)]),
}

UNARY = {
    "ReLU": nn.ReLU(), "ReLU6": nn.ReLU6(), "GELU": nn.GELU(), "GELU_tanh": nn.GELU("tanh"), "SiLU": nn.SiLU(),
    "Mish": nn.Mish(), "SELU": nn.SELU(), "Hardswish": nn.Hardswish(), "Hardsigmoid": nn.Hardsigmoid(),
    "LogSigmoid": nn.LogSigmoid(), "Sigmoid": nn.Sigmoid(), "Softsign": nn.Softsign(), "Tanh": nn.Tanh(),
    "Tanhshrink": nn.Tanhshrink(), "ELU": nn.ELU(0.5), "CELU": nn.CELU(0.5), "Softplus": nn.Softplus(2, 1),
    "LeakyReLU": nn.LeakyReLU(0.2), "Hardtanh": nn.Hardtanh(-0.5, 1), "Threshold": nn.Threshold(0.1, 7),
    "Softshrink": nn.Softshrink(0.3), "Hardshrink": nn.Hardshrink(0.3), "GLU": nn.GLU(1), "Softmax": nn.Softmax(1),
    "Softmin": nn.Softmin(1), "LogSoftmax": nn.LogSoftmax(1), "Softmax2d": nn.Softmax2d(),
    "MaxPool2d": nn.MaxPool2d(3, stride=2, padding=1), "AvgPool2d": nn.AvgPool2d(2, count_include_pad=False, padding=1),
    "AdaptiveAvgPool2d": nn.AdaptiveAvgPool2d((3, None)), "AdaptiveMaxPool2d": nn.AdaptiveMaxPool2d(2),
    "ConstantPad2d": nn.ConstantPad2d((1, 0, 2, 1), 1.5), "ZeroPad2d": nn.ZeroPad2d(1),
    "ReflectionPad2d": nn.ReflectionPad2d(1), "ReplicationPad2d": nn.ReplicationPad2d((1, 2, 0, 1)),
    "Upsample": nn.Upsample(scale_factor=2, mode="bilinear"), "PixelShuffle": nn.PixelShuffle(2),
    "PixelUnshuffle": nn.PixelUnshuffle(2),
}

PROBABILITIES = values((4, 3), 3).abs()
LABELS = torch.tensor([0, 2, 1, 2])
SIGNS = torch.tensor([1.0, -1.0, -1.0, 1.0])
SCORES = values((4, 3), 1, 4.0)
OTHER = values((4, 3), 2, 4.0)
THIRD = values((4, 3), 4, 4.0)
LOSSES = {
    "L1Loss": nn.L1Loss()(SCORES, OTHER), "MSELoss": nn.MSELoss(reduction="sum")(SCORES, OTHER),
    "SmoothL1Loss": nn.SmoothL1Loss(beta=0.5)(SCORES, OTHER), "HuberLoss": nn.HuberLoss(delta=0.5)(SCORES, OTHER),
    "KLDivLoss": nn.KLDivLoss(reduction="batchmean")(SCORES, PROBABILITIES),
    "SoftMarginLoss": nn.SoftMarginLoss()(SCORES, OTHER.sign()),
    "HingeEmbeddingLoss": nn.HingeEmbeddingLoss()(SCORES, OTHER.sign()),
    "CrossEntropyLoss": nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5]), label_smoothing=0.1)(SCORES, LABELS),
    "NLLLoss": nn.NLLLoss(ignore_index=1)(SCORES, LABELS),
    "BCELoss": nn.BCELoss()(PROBABILITIES, OTHER.gt(0).double()),
    "BCEWithLogitsLoss": nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.0, 2.0, 3.0]))(SCORES, OTHER.gt(0).double()),
    "MultiLabelSoftMarginLoss": nn.MultiLabelSoftMarginLoss()(SCORES, OTHER.gt(0).double()),
    "MultiMarginLoss": nn.MultiMarginLoss(p=2)(SCORES, LABELS),
    "MultiLabelMarginLoss": nn.MultiLabelMarginLoss()(SCORES, torch.tensor([[0, 2, -1]] * 4)),
    "PoissonNLLLoss": nn.PoissonNLLLoss()(SCORES, PROBABILITIES),
    "GaussianNLLLoss": nn.GaussianNLLLoss()(SCORES, OTHER, PROBABILITIES),
    "MarginRankingLoss": nn.MarginRankingLoss(0.5)(SCORES, OTHER, THIRD.sign()),
    "CosineEmbeddingLoss": nn.CosineEmbeddingLoss(0.1)(SCORES, OTHER, SIGNS),
    "TripletMarginLoss": nn.TripletMarginLoss(p=1)(SCORES, OTHER, THIRD),
}


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [] if value is None else [each for part in value for each in tensors(part)]


def run_layer(layer, inputs):
    fill(layer)
    if inputs[0] == "ints":
        arguments = [torch.arange(2 * 3).reshape(inputs[1]) * 2 % inputs[2]]
    else:
        arguments = [values(shape, 100 + i, 2.0) for i, shape in enumerate(inputs)]
    keys = [[name, list(tensor.shape)] for name, tensor in layer.state_dict().items()]
    outputs = tensors(layer(*arguments))
    buffers = {name: tensor.flatten().tolist() for name, tensor in layer.named_buffers()}
    return {
        "inputs": [list(each.shape) for each in arguments],
        "keys": keys,
        "outputs": [{"shape": list(each.shape), "values": each.flatten().tolist()} for each in outputs],
        "buffers": buffers,
    }


def run_unary(layer):
    output = layer(values((1, 4, 4, 4), 7, 6.0))
    return {"shape": list(output.shape), "values": output.flatten().tolist()}


def rounded(value):
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, list):
        return [rounded(each) for each in value]
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    return value


print("{")
print(' "layers": {')
print(",\n".join(f'  "{name}": {json.dumps(rounded(run_layer(*each)))}' for name, each in LAYERS.items()))
print(' },\n "unary": {')
print(",\n".join(f'  "{name}": {json.dumps(rounded(run_unary(each)))}' for name, each in UNARY.items()))
print(' },\n "losses": ' + json.dumps({name: each.item() for name, each in LOSSES.items()}))
print("}")
