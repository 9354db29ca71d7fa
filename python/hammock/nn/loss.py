"""Losses."""

from typing import TYPE_CHECKING, Any

from .activation import make_layers

_MEAN = {"reduction": "mean"}
__all__ = make_layers(globals(), [
    ("MSELoss", "mse_loss", _MEAN), ("L1Loss", "l1_loss", _MEAN),
    ("SmoothL1Loss", "smooth_l1_loss", {**_MEAN, "beta": 1.0}), ("HuberLoss", "huber_loss", {**_MEAN, "delta": 1.0}),
    ("CrossEntropyLoss", "cross_entropy", {"weight": None, "ignore_index": -100, **_MEAN, "label_smoothing": 0.0}),
    ("NLLLoss", "nll_loss", {"weight": None, "ignore_index": -100, **_MEAN}),
    ("BCELoss", "binary_cross_entropy", {"weight": None, **_MEAN}),
    ("BCEWithLogitsLoss", "binary_cross_entropy_with_logits", {"weight": None, **_MEAN, "pos_weight": None}),
    ("KLDivLoss", "kl_div", {**_MEAN, "log_target": False}),
])

if TYPE_CHECKING:  # classes that are made from a table
    def __getattr__(name: str) -> Any: ...
