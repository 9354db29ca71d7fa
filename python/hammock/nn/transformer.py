"""Attention and the encoder of transformers."""

import copy

import hammock as hm

from . import init
from .activation import Dropout
from .containers import ModuleList
from .linear import Linear
from .module import Module, Parameter
from .norm import LayerNorm


class MultiheadAttention(Module):
    """Attention of several heads; returns (result, weights or None)."""

    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True, batch_first=False):
        super().__init__()
        if embed_dim % num_heads:
            raise hm.ValueError(f"MultiheadAttention: {embed_dim} features cannot be divided among {num_heads} heads")
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.in_proj_weight = Parameter(init.xavier_uniform_(hm.empty([3 * embed_dim, embed_dim])))
        self.in_proj_bias = Parameter(hm.zeros([3 * embed_dim])) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias)
        if bias:
            init.zeros_(self.out_proj.bias)

    def _heads(self, x):  # (batch, time, features) -> (batch, heads, time, head)
        return x.view([x.shape[0], x.shape[1], self.num_heads, -1]).transpose(1, 2)

    def forward(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
                average_attn_weights=True, is_causal=False):
        if not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        weights = self.in_proj_weight.chunk(3)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        q, k, v = (self._heads(hm.linear(x, w, b)) for x, w, b in zip((query, key, value), weights, biases))
        mask = self._mask(attn_mask, key_padding_mask, q)
        shown = None
        if need_weights:
            scores = q @ k.transpose(-2, -1) * (q.shape[-1] ** -0.5)
            scores = scores if mask is None else scores + mask
            shown = scores.softmax(-1)
            attended = hm.dropout(shown, self.dropout, self.training and self.dropout > 0) @ v
            shown = shown.mean(1) if average_attn_weights else shown
        else:
            attended = hm.scaled_dot_product_attention(q, k, v, mask, self.dropout if self.training else 0.0,
                                                       is_causal and mask is None)
        merged = attended.transpose(1, 2).reshape([query.shape[0], query.shape[1], self.embed_dim])
        result = self.out_proj(merged)
        return (result if self.batch_first else result.transpose(0, 1)), shown

    @staticmethod
    def _added(mask, like):
        """A mask as numbers that are added: booleans are True where attention is forbidden."""
        if mask.dtype is not hm.bool:
            return mask
        return hm.zeros(list(mask.shape), dtype=like.dtype, device=like.device).masked_fill(mask, -hm.inf)

    def _mask(self, attn_mask, key_padding_mask, q):
        mask = None
        if attn_mask is not None:
            mask = self._added(attn_mask, q)
            if mask.ndim == 3:
                mask = mask.view([-1, self.num_heads, *mask.shape[1:]])
        if key_padding_mask is not None:
            padding = self._added(key_padding_mask, q)[:, None, None, :]
            mask = padding if mask is None else mask + padding
        return mask


class TransformerEncoderLayer(Module):
    """Attention and a feed-forward net, each with a residual and a norm."""

    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation="relu", layer_norm_eps=1e-5,
                 batch_first=False, norm_first=False, bias=True):
        super().__init__()
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first)
        self.linear1, self.linear2 = Linear(d_model, dim_feedforward, bias), Linear(dim_feedforward, d_model, bias)
        self.norm1, self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias), LayerNorm(d_model, layer_norm_eps, bias=bias)
        self.dropout, self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout), Dropout(dropout)
        self.activation = getattr(hm, activation) if isinstance(activation, str) else activation
        self.norm_first = norm_first

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        def attend(x):
            return self.dropout1(self.self_attn(x, x, x, src_key_padding_mask, False, src_mask, True, is_causal)[0])

        def feed(x):
            return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))

        if self.norm_first:
            src = src + attend(self.norm1(src))
            return src + feed(self.norm2(src))
        src = self.norm1(src + attend(src))
        return self.norm2(src + feed(src))


class TransformerEncoder(Module):
    """Layers like the one that is given, one after another."""

    def __init__(self, encoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(encoder_layer) for _ in range(num_layers)])
        self.norm = norm

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=False):
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, is_causal)
        return src if self.norm is None else self.norm(src)
