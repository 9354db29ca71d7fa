"""Layers of one matrix."""

import math

import hammock as hm

from . import init
from .module import Module, Parameter


class Identity(Module):
    def __init__(self, *args, **kwargs):
        super().__init__()

    def forward(self, x):
        return x


class Linear(Module):
    """x @ weight.T + bias"""

    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(hm.empty([out_features, in_features], device=device, dtype=dtype))
        self.bias = None
        if bias:
            self.bias = Parameter(hm.empty([out_features], device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self):
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, x):
        return hm.linear(x, self.weight, self.bias)

    def extra_repr(self):
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Bilinear(Module):
    """x1 @ weight @ x2 + bias"""

    def __init__(self, in1_features, in2_features, out_features, bias=True):
        super().__init__()
        bound = 1 / math.sqrt(in1_features)
        self.weight = Parameter(init.uniform_(hm.empty([out_features, in1_features, in2_features]), -bound, bound))
        self.bias = Parameter(init.uniform_(hm.empty([out_features]), -bound, bound)) if bias else None

    def forward(self, x1, x2):
        result = hm.einsum("...i,oij,...j->...o", [x1, self.weight, x2])
        return result if self.bias is None else result + self.bias


class Embedding(Module):
    """Rows of a table by their numbers; `sparse`: gradients are the rows that were used."""

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, sparse=False, device=None, dtype=None):
        super().__init__()
        self.sparse = sparse
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = padding_idx
        if padding_idx is not None and padding_idx < 0:
            self.padding_idx += num_embeddings
        table = init.normal_(hm.empty([num_embeddings, embedding_dim], device=device, dtype=dtype))
        if self.padding_idx is not None:
            table[self.padding_idx] = 0
        self.weight = Parameter(table)

    def forward(self, indices):
        look_up = hm.sparse.embedding if self.sparse else hm.embedding
        return look_up(indices, self.weight, self.padding_idx)

    def extra_repr(self):
        return f"{self.num_embeddings}, {self.embedding_dim}"


class EmbeddingBag(Module):
    """Sums, means or maxima of rows of a table: of each row of indices, or from each offset to the next."""

    def __init__(self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean",
                 sparse=False, _weight=None, include_last_offset=False, padding_idx=None):
        super().__init__()
        if scale_grad_by_freq or sparse:
            raise hm.NotSupported("EmbeddingBag: gradients are dense, and not scaled by frequency; Embedding has `sparse`")
        self.num_embeddings, self.embedding_dim, self.mode = num_embeddings, embedding_dim, mode
        self.max_norm, self.norm_type = max_norm, norm_type
        self.include_last_offset, self.padding_idx = include_last_offset, padding_idx
        table = init.normal_(hm.empty([num_embeddings, embedding_dim])) if _weight is None else _weight
        if _weight is None and padding_idx is not None:
            table[padding_idx] = 0
        self.weight = Parameter(table)

    def forward(self, indices, offsets=None, per_sample_weights=None):
        return hm.embedding_bag(indices, self.weight, offsets, self.max_norm, self.norm_type, mode=self.mode,
                                per_sample_weights=per_sample_weights, include_last_offset=self.include_last_offset,
                                padding_idx=self.padding_idx)

    def extra_repr(self):
        return f"{self.num_embeddings}, {self.embedding_dim}, mode={self.mode}"


class Flatten(Module):
    def __init__(self, start_dim=1, end_dim=-1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x):
        return x.flatten(self.start_dim, self.end_dim)


class Unflatten(Module):
    def __init__(self, dim, unflattened_size):
        super().__init__()
        self.dim, self.unflattened_size = dim, list(unflattened_size)

    def forward(self, x):
        return hm.unflatten(x, self.dim, self.unflattened_size)
