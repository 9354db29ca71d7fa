"""Recurrent layers, with the parameters of PyTorch's by its names."""

import math

import hammock as hm

from . import init
from .module import Module, Parameter


class _RNNBase(Module):
    _gates = 1

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False):
        super().__init__()
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout, self.bidirectional = bias, batch_first, dropout, bidirectional
        bound = 1 / math.sqrt(hidden_size) if hidden_size > 0 else 0
        self._names = []
        for layer in range(num_layers):
            width = input_size if layer == 0 else hidden_size * self._directions()
            for suffix in ["", "_reverse"][: self._directions()]:
                shapes = {"weight_ih": [self._gates * hidden_size, width], "weight_hh": [self._gates * hidden_size, hidden_size]}
                if bias:
                    shapes.update({name: [self._gates * hidden_size] for name in ("bias_ih", "bias_hh")})
                for kind, shape in shapes.items():
                    name = f"{kind}_l{layer}{suffix}"
                    setattr(self, name, Parameter(init.uniform_(hm.empty(shape), -bound, bound)))
                    self._names.append(name)

    def _directions(self):
        return 2 if self.bidirectional else 1

    def _state(self, given, x):
        batch = x.shape[0 if self.batch_first else 1]
        if given is not None:
            return given
        return x.new_zeros([self.num_layers * self._directions(), batch, self.hidden_size])

    def _run(self, op, x, state):
        parameters = [getattr(self, name) for name in self._names]
        return op(x, state, parameters, self.bias, self.num_layers, self.dropout, self.training, self.bidirectional,
                  self.batch_first)

    def _batched(self, x):
        if x.ndim not in (2, 3):
            raise hm.ValueError(f"{type(self).__name__}: takes 2 or 3 dims, not {x.ndim}")
        return x if x.ndim == 3 else x.unsqueeze(0 if self.batch_first else 1)

    def forward(self, x, state=None):
        single = x.ndim == 2
        x = self._batched(x)
        state = state.unsqueeze(1) if single and state is not None else state
        outputs, last = self._run(self._op(), x, self._state(state, x))
        return (outputs.squeeze(0 if self.batch_first else 1), last.squeeze(1)) if single else (outputs, last)

    def extra_repr(self):
        return f"{self.input_size}, {self.hidden_size}, num_layers={self.num_layers}"


class RNN(_RNNBase):
    """A recurrent layer of tanh or relu."""

    def __init__(self, *args, nonlinearity="tanh", **kwargs):
        if nonlinearity not in ("tanh", "relu"):
            raise hm.ValueError(f"RNN: nonlinearity is 'tanh' or 'relu', not '{nonlinearity}'")
        super().__init__(*args, **kwargs)
        self.nonlinearity = nonlinearity

    def _op(self):
        return hm.rnn_tanh if self.nonlinearity == "tanh" else hm.rnn_relu


class GRU(_RNNBase):
    _gates = 3

    def _op(self):
        return hm.gru


class LSTM(_RNNBase):
    """Returns (outputs, (h, c))."""

    _gates = 4

    def forward(self, x, state=None):
        single = x.ndim == 2
        x = self._batched(x)
        h, c = (None, None) if state is None else state
        if single and h is not None:
            h, c = h.unsqueeze(1), c.unsqueeze(1)
        outputs, h, c = self._run(hm.lstm, x, [self._state(h, x), self._state(c, x)])
        if single:
            outputs, h, c = outputs.squeeze(0 if self.batch_first else 1), h.squeeze(1), c.squeeze(1)
        return outputs, (h, c)
