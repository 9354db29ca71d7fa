"""The modules whose values pytorch.json and modules.json hold, as functions of `nn`: PyTorch's, or another that has its
names. A case is a module and the shapes of its inputs, whose numbers `values` computes."""


def numbers(shape, seed, scale=1.0):
    """As many numbers as the shape has elements, without a pattern."""
    count = 1
    for size in shape:
        count *= size
    return [(((i + 1000 * seed) * 2654435761 % 2**32) / 2**32 - 0.5) * scale for i in range(count)]


LINE, IMAGE, VOLUME = (2, 4, 6), (1, 4, 4, 4), (1, 2, 4, 4, 4)


def layers(nn):
    """Cases with parameters: name -> (module, shapes); "ints" before the shape and the bound of indices."""
    return {
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


def functions(nn):
    """Modules of one input of the shape IMAGE."""
    return {
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


def losses(nn, tensor, values):
    """Losses of fixed scores and targets; `tensor` makes one of lists, `values` of a shape and a seed."""
    probabilities, labels = values((4, 3), 3).abs(), tensor([0, 2, 1, 2])
    scores, other, third = values((4, 3), 1, 4.0), values((4, 3), 2, 4.0), values((4, 3), 4, 4.0)
    signs = tensor([1.0, -1.0, -1.0, 1.0])
    return {
        "L1Loss": nn.L1Loss()(scores, other), "MSELoss": nn.MSELoss(reduction="sum")(scores, other),
        "SmoothL1Loss": nn.SmoothL1Loss(beta=0.5)(scores, other), "HuberLoss": nn.HuberLoss(delta=0.5)(scores, other),
        "KLDivLoss": nn.KLDivLoss(reduction="batchmean")(scores, probabilities),
        "SoftMarginLoss": nn.SoftMarginLoss()(scores, other.sign()),
        "HingeEmbeddingLoss": nn.HingeEmbeddingLoss()(scores, other.sign()),
        "CrossEntropyLoss": nn.CrossEntropyLoss(weight=tensor([1.0, 2.0, 0.5]), label_smoothing=0.1)(scores, labels),
        "NLLLoss": nn.NLLLoss(ignore_index=1)(scores, labels),
        "BCELoss": nn.BCELoss()(probabilities, other.gt(0).double()),
        "BCEWithLogitsLoss": nn.BCEWithLogitsLoss(pos_weight=tensor([1.0, 2.0, 3.0]))(scores, other.gt(0).double()),
        "MultiLabelSoftMarginLoss": nn.MultiLabelSoftMarginLoss()(scores, other.gt(0).double()),
        "MultiMarginLoss": nn.MultiMarginLoss(p=2)(scores, labels),
        "MultiLabelMarginLoss": nn.MultiLabelMarginLoss()(scores, tensor([[0, 2, -1]] * 4)),
        "PoissonNLLLoss": nn.PoissonNLLLoss()(scores, probabilities),
        "GaussianNLLLoss": nn.GaussianNLLLoss()(scores, other, probabilities),
        "MarginRankingLoss": nn.MarginRankingLoss(0.5)(scores, other, third.sign()),
        "CosineEmbeddingLoss": nn.CosineEmbeddingLoss(0.1)(scores, other, signs),
        "TripletMarginLoss": nn.TripletMarginLoss(p=1)(scores, other, third),
    }


def unary(nn, samples):
    """Cases of one input: name -> (module, shape). `samples` makes the numbers that fractional pooling draws."""
    cases = {
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
        cases[name] = (getattr(nn, name)(), IMAGE)
    for name in ["Softmax", "Softmin", "LogSoftmax"]:
        cases[name] = (getattr(nn, name)(1), IMAGE)
    return cases


def call_of(nn):
    """A class of modules that are another one and how it is called."""

    class Call(nn.Module):
        def __init__(self, run, module=None):
            super().__init__()
            self.run = run
            if module is not None:
                self.module = module

        def forward(self, *inputs):
            return self.run(getattr(self, "module", None), *inputs)

    return Call


def composed(nn, tensor):
    """Cases that are compared with their gradients: name -> (module, shapes). A module with parameters is `module` inside."""
    Call, labels, parametrizations, rnn = call_of(nn), tensor([0, 3, 7, 5]), nn.utils.parametrizations, nn.utils.rnn

    def plain(module, *inputs):
        return module(*inputs)

    def unpool(pool, back):
        return Call(lambda _, x: back(*pool(x)))

    def packed(module, data, *state):
        state = tuple(state) if len(state) > 1 else state[0] if state else None
        sequence = rnn.pack_padded_sequence(data, [3, 5, 2], enforce_sorted=False)
        output, last = module(sequence, state)
        return rnn.pad_packed_sequence(output)[0], last

    return {
        "MaxUnpool1d": (unpool(nn.MaxPool1d(2, return_indices=True), nn.MaxUnpool1d(2)), [LINE]),
        "MaxUnpool2d": (unpool(nn.MaxPool2d(2, stride=2, return_indices=True), nn.MaxUnpool2d(2, stride=2)), [IMAGE]),
        "MaxUnpool3d": (unpool(nn.MaxPool3d(2, return_indices=True), nn.MaxUnpool3d(2)), [VOLUME]),
        "RMSNorm": (Call(plain, nn.RMSNorm((3, 4), eps=1e-5)), [(2, 3, 4)]),
        "BatchNorm1d": (Call(plain, nn.BatchNorm1d(3)), [(4, 3, 5)]),
        "InstanceNorm3d": (Call(plain, nn.InstanceNorm3d(2, affine=True)), [(2, 2, 3, 2, 2)]),
        "CosineSimilarity": (Call(lambda _, a, b: nn.CosineSimilarity(dim=1)(a, b)), [(4, 3), (4, 3)]),
        "PairwiseDistance": (Call(lambda _, a, b: nn.PairwiseDistance(p=3, keepdim=True)(a, b)), [(4, 3), (4, 3)]),
        "TripletMarginWithDistanceLoss": (Call(lambda _, a, b, c: nn.TripletMarginWithDistanceLoss(
            distance_function=lambda x, y: 1 - nn.functional.cosine_similarity(x, y), margin=0.7, swap=True)(a, b, c)),
            [(4, 3), (4, 3), (4, 3)]),
        "CTCLoss": (Call(lambda _, x: nn.CTCLoss()(x.log_softmax(2), tensor([[1, 2, 1], [3, 3, 2]]),
                                                   tensor([6, 5]), tensor([3, 2]))), [(6, 2, 4)]),
        "LinearCrossEntropyLoss": (Call(lambda m, x: m(x, labels), nn.LinearCrossEntropyLoss(3, 8, bias=True)), [(4, 3)]),
        "AdaptiveLogSoftmaxWithLoss": (Call(lambda m, x: tuple(m(x, labels)) + (m.log_prob(x),),
                                            nn.AdaptiveLogSoftmaxWithLoss(8, 9, [2, 5], div_value=2.0, head_bias=True)),
                                       [(4, 8)]),
        "weight_norm": (Call(plain, parametrizations.weight_norm(nn.Linear(3, 2))), [(4, 3)]),
        "weight_norm_conv": (Call(plain, parametrizations.weight_norm(nn.Conv2d(2, 3, 2), dim=1)), [(1, 2, 4, 4)]),
        "spectral_norm": (Call(plain, parametrizations.spectral_norm(nn.Linear(3, 2), n_power_iterations=2)), [(4, 3)]),
        "spectral_norm_eval": (Call(plain, parametrizations.spectral_norm(nn.ConvTranspose2d(2, 3, 2))).eval(), [(1, 2, 3, 3)]),
        "packed_rnn": (Call(packed, nn.RNN(3, 4)), [(5, 3, 3), (1, 3, 4)]),
        "packed_gru": (Call(packed, nn.GRU(3, 4, bidirectional=True, bias=False)), [(5, 3, 3)]),
        "packed_lstm": (Call(packed, nn.LSTM(3, 4, num_layers=2, bidirectional=True)), [(5, 3, 3), (4, 3, 4), (4, 3, 4)]),
        "packed_lstm_projected": (Call(packed, nn.LSTM(3, 4, proj_size=2)), [(5, 3, 3)]),
    }
