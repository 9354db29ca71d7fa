"""Recurrent layers, with the parameters of PyTorch's by its names."""

import itertools
import math

import hammock as hm

from . import init
from .module import Module, Parameter
from .utils.rnn import PackedSequence


class _RNNBase(Module):
    _gates, _projects = 1, False

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, proj_size=0):
        super().__init__()
        if proj_size and not self._projects or not 0 <= proj_size < max(hidden_size, 1):
            raise hm.ValueError(f"{type(self).__name__}: {hidden_size} features cannot be projected to {proj_size}")
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout, self.bidirectional = bias, batch_first, dropout, bidirectional
        self.proj_size = proj_size
        width_out = proj_size or hidden_size
        bound = 1 / math.sqrt(hidden_size) if hidden_size > 0 else 0
        self._names = []
        for layer in range(num_layers):
            width = input_size if layer == 0 else width_out * self._directions()
            for suffix in ["", "_reverse"][: self._directions()]:
                shapes = {"weight_ih": [self._gates * hidden_size, width], "weight_hh": [self._gates * hidden_size, width_out]}
                if bias:
                    shapes.update({name: [self._gates * hidden_size] for name in ("bias_ih", "bias_hh")})
                if proj_size:
                    shapes["weight_hr"] = [proj_size, hidden_size]
                for kind, shape in shapes.items():
                    name = f"{kind}_l{layer}{suffix}"
                    setattr(self, name, Parameter(init.uniform_(hm.empty(shape), -bound, bound)))
                    self._names.append(name)

    def _directions(self):
        return 2 if self.bidirectional else 1

    def _widths(self):
        """Of each part of the state."""
        return [self.hidden_size]

    def _call(self, x, states, parameters, *shape):
        """Outputs and the last states of layers of any shape: how many, dropout, training, both directions, batch first."""
        outputs, last = self._op()(x, states[0], parameters, self.bias, *shape)
        return outputs, [last]

    def _states(self, given, x, batch):
        if given is not None:
            return list(given)
        return [x.new_zeros([self.num_layers * self._directions(), batch, width]) for width in self._widths()]

    def _run(self, x, given):
        """(outputs, states); `given` is a list of states or None."""
        if isinstance(x, PackedSequence):
            return self._run_packed(x, given)
        if x.ndim not in (2, 3):
            raise hm.ValueError(f"{type(self).__name__}: takes 2 or 3 dims, not {x.ndim}")
        place = 0 if self.batch_first else 1  # of the batch
        single = x.ndim == 2
        if single:
            x, given = x.unsqueeze(place), given and [state.unsqueeze(1) for state in given]
        states = self._states(given, x, x.shape[place])
        parameters = [getattr(self, name) for name in self._names]
        outputs, last = self._call(x, states, parameters, self.num_layers, self.dropout, self.training, self.bidirectional,
                                   self.batch_first)
        return (outputs.squeeze(place), [state.squeeze(1) for state in last]) if single else (outputs, last)

    # ---- Packed sequences

    def _run_packed(self, sequence, given):
        x, sizes = sequence.data, sequence.batch_sizes
        states = self._states(given, x, sizes[0])
        if given is not None and sequence.sorted_indices is not None:
            states = [state.index_select(1, hm.tensor(sequence.sorted_indices, device=x.device)) for state in states]
        each = len(self._names) // (self.num_layers * self._directions())
        last = []
        for layer in range(self.num_layers):
            outputs = []
            for direction in range(self._directions()):
                number = layer * self._directions() + direction
                parameters = [getattr(self, name) for name in self._names[number * each:(number + 1) * each]]
                first = [state[number:number + 1] for state in states]
                output, end = self._along(x, sizes, first, parameters, reverse=direction == 1)
                outputs.append(output)
                last.append(end)
            x = hm.cat(outputs, -1)
            if layer + 1 < self.num_layers and self.dropout > 0:
                x = hm.dropout(x, self.dropout, self.training)
        ends = [hm.cat(list(parts)) for parts in zip(*last)]
        if sequence.unsorted_indices is not None:
            ends = [state.index_select(1, hm.tensor(sequence.unsorted_indices, device=x.device)) for state in ends]
        return sequence._replace(data=x), ends

    def _along(self, x, sizes, first, parameters, reverse):
        """One layer in one direction: times with as many sequences are one call. Sequences leave when they end, or, in reverse,
        join where they end."""
        blocks = [(size, len(list(times))) for size, times in itertools.groupby(sizes)]
        rows = x.split([size * times for size, times in blocks])
        states = [state[:, :0] for state in first]
        if not reverse:
            states, ended = first, []
        outputs = []
        for (size, times), block in list(zip(blocks, rows))[::-1 if reverse else 1]:
            present = states[0].shape[1]
            if reverse:
                states = [hm.cat([state, start[:, present:size]], 1) for state, start in zip(states, first)]
            elif present > size:
                ended.append([state[:, size:] for state in states])
                states = [state[:, :size] for state in states]
            steps = block.view([times, size, -1])
            output, states = self._call(steps.flip(0) if reverse else steps, states, parameters, 1, 0.0, False, False, False)
            outputs.append((output.flip(0) if reverse else output).reshape([times * size, -1]))
        if not reverse:
            states = [hm.cat([state, *parts[::-1]], 1) for state, *parts in zip(states, *ended)]
        return hm.cat(outputs[::-1] if reverse else outputs), states

    def forward(self, x, state=None):
        outputs, (last,) = self._run(x, None if state is None else [state])
        return outputs, last

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

    _gates, _projects = 4, True

    def _widths(self):
        return [self.proj_size or self.hidden_size, self.hidden_size]

    def _call(self, x, states, parameters, *shape):
        outputs, *last = hm.lstm(x, states, parameters, self.bias, *shape)
        return outputs, last

    def forward(self, x, state=None):
        outputs, last = self._run(x, state)
        return outputs, tuple(last)


class _Cell(Module):
    """One step of a recurrent layer."""

    _gates = 1

    def __init__(self, input_size, hidden_size, bias=True):
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        bound = 1 / math.sqrt(hidden_size) if hidden_size > 0 else 0
        rows = self._gates * hidden_size
        shapes = {"weight_ih": [rows, input_size], "weight_hh": [rows, hidden_size], "bias_ih": [rows], "bias_hh": [rows]}
        for name, shape in shapes.items():
            made = bias or not name.startswith("bias")
            self.register_parameter(name, Parameter(init.uniform_(hm.empty(shape), -bound, bound)) if made else None)

    def _run(self, op, x, state):
        return op(x, state, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)

    def _state(self, x):
        return x.new_zeros([*x.shape[:-1], self.hidden_size])

    def extra_repr(self):
        return f"{self.input_size}, {self.hidden_size}"


class RNNCell(_Cell):
    """tanh or relu of the input and the state."""

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh"):
        if nonlinearity not in ("tanh", "relu"):
            raise hm.ValueError(f"RNNCell: nonlinearity is 'tanh' or 'relu', not '{nonlinearity}'")
        super().__init__(input_size, hidden_size, bias)
        self.nonlinearity = nonlinearity

    def forward(self, x, state=None):
        op = hm.rnn_tanh_cell if self.nonlinearity == "tanh" else hm.rnn_relu_cell
        return self._run(op, x, self._state(x) if state is None else state)


class GRUCell(_Cell):
    _gates = 3

    def forward(self, x, state=None):
        return self._run(hm.gru_cell, x, self._state(x) if state is None else state)


class LSTMCell(_Cell):
    """Returns (h, c)."""

    _gates = 4

    def forward(self, x, state=None):
        return self._run(hm.lstm_cell, x, [self._state(x), self._state(x)] if state is None else list(state))
