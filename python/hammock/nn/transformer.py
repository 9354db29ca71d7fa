"""Attention and transformers. Sequences are (length, batch, features), or with `batch_first` (batch, length, features)."""

import copy

import hammock as hm

from . import init
from .activation import Dropout
from .containers import ModuleList
from .linear import Linear
from .module import Module, Parameter
from .norm import LayerNorm


def _causal_mask(size, dtype=None, device=None):
    """-inf where a position would look at a later one, 0 elsewhere."""
    return hm.triu(hm.full([size, size], -hm.inf, dtype=dtype or hm.float32, device=device), 1)


class MultiheadAttention(Module):
    """Attention of several heads; returns (result, weights or None)."""

    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False, kdim=None, vdim=None,
                 batch_first=False):
        super().__init__()
        if num_heads < 1 or embed_dim % num_heads:
            raise hm.ValueError(f"MultiheadAttention: {embed_dim} features cannot be divided among {num_heads} heads")
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.add_zero_attn = add_zero_attn
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        one = self.kdim == self.vdim == embed_dim
        shapes = {"in_proj_weight": [3 * embed_dim, embed_dim] if one else None,
                  "q_proj_weight": None if one else [embed_dim, embed_dim], "k_proj_weight": None if one else [embed_dim, self.kdim],
                  "v_proj_weight": None if one else [embed_dim, self.vdim]}
        for name, shape in shapes.items():
            self.register_parameter(name, shape and Parameter(init.xavier_uniform_(hm.empty(shape))))
        self.register_parameter("in_proj_bias", Parameter(hm.zeros([3 * embed_dim])) if bias else None)
        for name in ("bias_k", "bias_v"):
            self.register_parameter(name, Parameter(init.xavier_normal_(hm.empty([1, 1, embed_dim]))) if add_bias_kv else None)
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias)
        if bias:
            init.zeros_(self.out_proj.bias)

    def forward(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
                average_attn_weights=True, is_causal=False):
        swaps = self.batch_first and query.ndim == 3
        if swaps:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        if is_causal and attn_mask is None:
            attn_mask = _causal_mask(query.shape[0], query.dtype, query.device)
        result, weights = hm.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k, self.bias_v,
            self.add_zero_attn, self.dropout, None, None, training=self.training,
            key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=attn_mask,
            use_separate_proj_weight=self.in_proj_weight is None, q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight, v_proj_weight=self.v_proj_weight, average_attn_weights=average_attn_weights)
        result = self.out_proj(result)  # the layer, not its weight: another may have taken its place
        return (result.transpose(0, 1) if swaps else result), weights


class _Layer(Module):
    """What layers of encoders and decoders have: parts with a residual, a norm and a dropout each, the last of them a
    feed-forward net."""

    _attentions: tuple = ()

    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation="relu", layer_norm_eps=1e-5,
                 batch_first=False, norm_first=False, bias=True):
        super().__init__()
        for name in self._attentions:
            setattr(self, name, MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first))
        self.linear1, self.dropout, self.linear2 = (Linear(d_model, dim_feedforward, bias), Dropout(dropout),
                                                    Linear(dim_feedforward, d_model, bias))
        self.norm_first, self.activation = norm_first, getattr(hm, activation) if isinstance(activation, str) else activation
        numbers = range(1, len(self._attentions) + 2)
        for number in numbers:
            setattr(self, f"norm{number}", LayerNorm(d_model, layer_norm_eps, bias=bias))
        for number in numbers:
            setattr(self, f"dropout{number}", Dropout(dropout))

    def _feed(self, x):
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def _residuals(self, x, *parts):
        for number, part in enumerate(parts, 1):
            norm, dropout = getattr(self, f"norm{number}"), getattr(self, f"dropout{number}")
            x = x + dropout(part(norm(x))) if self.norm_first else norm(x + dropout(part(x)))
        return x


class TransformerEncoderLayer(_Layer):
    """Attention and a feed-forward net, each with a residual and a norm."""

    _attentions = ("self_attn",)

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        return self._residuals(
            src, lambda x: self.self_attn(x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal)[0], self._feed)


class TransformerDecoderLayer(_Layer):
    """Attention to the target and to the memory, and a feed-forward net."""

    _attentions = ("self_attn", "multihead_attn")

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None, memory_key_padding_mask=None,
                tgt_is_causal=False, memory_is_causal=False):
        return self._residuals(
            tgt, lambda x: self.self_attn(x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal)[0],
            lambda x: self.multihead_attn(x, memory, memory, memory_key_padding_mask, False, memory_mask,
                                          is_causal=memory_is_causal)[0], self._feed)


class _Stack(Module):
    """Layers like the one that is given, one after another."""

    def __init__(self, layer, num_layers, norm=None):
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(layer) for _ in range(num_layers)])
        self.norm = norm

    def _run(self, x, *args, **kwargs):
        for layer in self.layers:
            x = layer(x, *args, **kwargs)
        return x if self.norm is None else self.norm(x)


class TransformerEncoder(_Stack):
    """Encoder layers like the one that is given, one after another."""

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=False):
        return self._run(src, mask, src_key_padding_mask, is_causal)


class TransformerDecoder(_Stack):
    """Decoder layers like the one that is given, one after another."""

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None, memory_key_padding_mask=None,
                tgt_is_causal=False, memory_is_causal=False):
        return self._run(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, tgt_is_causal,
                         memory_is_causal)


class Transformer(Module):
    """An encoder, and a decoder that looks at its results."""

    def __init__(self, d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6, dim_feedforward=2048, dropout=0.1,
                 activation="relu", layer_norm_eps=1e-5, batch_first=False, norm_first=False, bias=True):
        super().__init__()
        options = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        self.encoder = TransformerEncoder(TransformerEncoderLayer(*options), num_encoder_layers,
                                          LayerNorm(d_model, layer_norm_eps, bias=bias))
        self.decoder = TransformerDecoder(TransformerDecoderLayer(*options), num_decoder_layers,
                                          LayerNorm(d_model, layer_norm_eps, bias=bias))
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(self, src, tgt, src_mask=None, tgt_mask=None, memory_mask=None, src_key_padding_mask=None,
                tgt_key_padding_mask=None, memory_key_padding_mask=None, src_is_causal=False, tgt_is_causal=False,
                memory_is_causal=False):
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, tgt_is_causal,
                            memory_is_causal)

    generate_square_subsequent_mask = staticmethod(_causal_mask)
