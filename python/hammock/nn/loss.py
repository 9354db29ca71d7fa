"""Losses and distances."""

import math
from typing import TYPE_CHECKING, Any

import hammock as hm

from .activation import make_layers
from .containers import ModuleList, Sequential
from .linear import Linear
from .module import Module

_MEAN = {"reduction": "mean"}
__all__ = ["AdaptiveLogSoftmaxWithLoss", "LinearCrossEntropyLoss", "TripletMarginWithDistanceLoss"] + make_layers(globals(), [
    ("MSELoss", "mse_loss", _MEAN), ("L1Loss", "l1_loss", _MEAN),
    ("SmoothL1Loss", "smooth_l1_loss", {**_MEAN, "beta": 1.0}), ("HuberLoss", "huber_loss", {**_MEAN, "delta": 1.0}),
    ("CrossEntropyLoss", "cross_entropy", {"weight": None, "ignore_index": -100, **_MEAN, "label_smoothing": 0.0}),
    ("NLLLoss", "nll_loss", {"weight": None, "ignore_index": -100, **_MEAN}),
    ("BCELoss", "binary_cross_entropy", {"weight": None, **_MEAN}),
    ("BCEWithLogitsLoss", "binary_cross_entropy_with_logits", {"weight": None, **_MEAN, "pos_weight": None}),
    ("KLDivLoss", "kl_div", {**_MEAN, "log_target": False}),
    ("CTCLoss", "ctc_loss", {"blank": 0, **_MEAN, "zero_infinity": False}),
    ("CosineEmbeddingLoss", "cosine_embedding_loss", {"margin": 0.0, **_MEAN}),
    ("GaussianNLLLoss", "gaussian_nll_loss", {"full": False, "eps": 1e-6, **_MEAN}),
    ("HingeEmbeddingLoss", "hinge_embedding_loss", {"margin": 1.0, **_MEAN}),
    ("MarginRankingLoss", "margin_ranking_loss", {"margin": 0.0, **_MEAN}),
    ("MultiLabelMarginLoss", "multilabel_margin_loss", _MEAN),
    ("MultiLabelSoftMarginLoss", "multilabel_soft_margin_loss", {"weight": None, **_MEAN}),
    ("MultiMarginLoss", "multi_margin_loss", {"p": 1, "margin": 1.0, "weight": None, **_MEAN}),
    ("PoissonNLLLoss", "poisson_nll_loss", {"log_input": True, "full": False, "eps": 1e-8, **_MEAN}),
    ("SoftMarginLoss", "soft_margin_loss", _MEAN),
    ("TripletMarginLoss", "triplet_margin_loss", {"margin": 1.0, "p": 2.0, "eps": 1e-6, "swap": False, **_MEAN}),
    ("CosineSimilarity", "cosine_similarity", {"dim": 1, "eps": 1e-8}),
    ("PairwiseDistance", "pairwise_distance", {"p": 2.0, "eps": 1e-6, "keepdim": False}),
])


def _reduced(name, values, reduction):
    if reduction not in ("none", "mean", "sum"):
        raise hm.ValueError(f"{name}: reduction is 'none', 'mean' or 'sum', not '{reduction}'")
    return values if reduction == "none" else getattr(values, reduction)()


class TripletMarginWithDistanceLoss(Module):
    """How much nearer the positive is to the anchor than the negative, by a distance of your own."""

    def __init__(self, *, distance_function=None, margin=1.0, swap=False, reduction="mean"):
        super().__init__()
        self.distance_function = distance_function or hm.pairwise_distance
        self.margin, self.swap, self.reduction = margin, swap, reduction

    def forward(self, anchor, positive, negative):
        distance = self.distance_function
        far = distance(anchor, negative)
        if self.swap:
            far = hm.minimum(far, distance(positive, negative))
        return _reduced(type(self).__name__, (distance(anchor, positive) - far + self.margin).clamp(0), self.reduction)


class LinearCrossEntropyLoss(Module):
    """Cross entropy of a linear layer's results."""

    def __init__(self, in_features, num_classes, *, bias=False, reduction="mean", ignore_index=-100, label_smoothing=0.0):
        super().__init__()
        self.linear = Linear(in_features, num_classes, bias)
        self.options = {"reduction": reduction, "ignore_index": ignore_index, "label_smoothing": label_smoothing}

    def forward(self, x, target):
        return hm.cross_entropy(self.linear(x), target, **self.options)


class AdaptiveLogSoftmaxWithLoss(Module):
    """A softmax of many classes, frequent ones first: rare ones are clusters with few features of their own. Returns
    (log-probabilities of the targets, loss)."""

    def __init__(self, in_features, n_classes, cutoffs, div_value=4.0, head_bias=False):
        super().__init__()
        self.cutoffs = [*cutoffs, n_classes]
        if any(low >= high for low, high in zip([0, *self.cutoffs], self.cutoffs)):
            raise hm.ValueError(f"AdaptiveLogSoftmaxWithLoss: cutoffs must grow from 1 to below {n_classes}, got {list(cutoffs)}")
        self.n_clusters = len(self.cutoffs) - 1
        self.head = Linear(in_features, self.cutoffs[0] + self.n_clusters, head_bias)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            width = int(in_features // math.pow(div_value, i + 1))
            self.tail.append(Sequential(Linear(in_features, width, False), Linear(width, high - low, False)))

    def log_prob(self, x):
        """The log-probabilities of all classes."""
        head = self.head(x).log_softmax(-1)
        parts = [head[..., :self.cutoffs[0]]]
        for i, cluster in enumerate(self.tail):
            parts.append(cluster(x).log_softmax(-1) + head[..., self.cutoffs[0] + i:self.cutoffs[0] + i + 1])
        return hm.cat(parts, -1)

    def forward(self, x, target):
        output = self.log_prob(x).gather(-1, target.unsqueeze(-1)).squeeze(-1)
        return output, -output.mean()

    def predict(self, x):
        """The most likely classes."""
        return self.log_prob(x).argmax(-1)


if TYPE_CHECKING:  # classes that are made from a table
    def __getattr__(name: str) -> Any: ...
