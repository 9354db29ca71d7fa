"""Sequences of different lengths in one batch, as PyTorch's: RNN, GRU and LSTM take and return packed ones. Lengths are numbers of
the host: each combination of lengths is a graph of its own."""

from typing import NamedTuple, Optional

import hammock as hm


class PackedSequence(NamedTuple):
    """All steps: those of the first time, of the second, and so on, longest sequences first. `sorted_indices` says which place
    of the batch each came from, `unsorted_indices` the reverse; None: they are as they were."""

    data: hm.Tensor
    batch_sizes: list
    sorted_indices: Optional[list] = None
    unsorted_indices: Optional[list] = None

    def lengths(self):
        """In the order of the batch."""
        lengths = [sum(size > i for size in self.batch_sizes) for i in range(self.batch_sizes[0])]
        return lengths if self.unsorted_indices is None else [lengths[i] for i in self.unsorted_indices]


def _numbers(lengths):
    return [int(length) for length in (lengths.tolist() if hasattr(lengths, "tolist") else lengths)]


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """`input` is (time, batch, ...), or with `batch_first` (batch, time, ...). Unless `enforce_sorted`, the sequences are sorted
    first; otherwise they must be, longest first."""
    x = input.transpose(0, 1) if batch_first else input
    lengths = _numbers(lengths)
    if len(lengths) != x.shape[1] or not lengths or min(lengths) < 1 or max(lengths) > x.shape[0]:
        raise hm.ValueError(f"pack_padded_sequence: {x.shape[1]} sequences of at most {x.shape[0]} steps have the lengths {lengths}")
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    places = None
    if enforce_sorted:
        if any(a < b for a, b in zip(lengths, lengths[1:])):
            raise hm.ValueError(f"pack_padded_sequence: lengths {lengths} are not sorted; pass enforce_sorted=False")
        order = None
    else:
        x = x.index_select(1, hm.tensor(order, device=x.device))
        places = sorted(range(len(order)), key=order.__getitem__)
    sizes = [sum(length > time for length in lengths) for time in range(max(lengths))]
    return PackedSequence(hm.cat([x[time, :size] for time, size in enumerate(sizes)]), sizes, order, places)


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """(padded, lengths)"""
    batch, times = sequence.batch_sizes[0], len(sequence.batch_sizes)
    if total_length is not None and total_length < times:
        raise hm.ValueError(f"pad_packed_sequence: total_length is {total_length}, but a sequence has {times} steps")
    steps = [_padded(step, batch, padding_value) for step in sequence.data.split(sequence.batch_sizes)]
    x = _padded(hm.stack(steps), total_length or times, padding_value)
    if sequence.unsorted_indices is not None:
        x = x.index_select(1, hm.tensor(sequence.unsorted_indices, device=x.device))
    return (x.transpose(0, 1) if batch_first else x), hm.tensor(sequence.lengths())


def _padded(x, size, value):
    return hm.pad(x, [0, 0] * (x.ndim - 1) + [0, size - x.shape[0]], "constant", value)


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Sequences of (length, ...), padded to the longest."""
    if padding_side not in ("left", "right"):
        raise hm.ValueError(f"pad_sequence: padding_side is 'left' or 'right', not '{padding_side}'")
    longest = max(x.shape[0] for x in sequences)
    rows = [hm.pad(x, [0, 0] * (x.ndim - 1) + ([longest - x.shape[0], 0] if padding_side == "left" else [0, longest - x.shape[0]]),
                   "constant", padding_value) for x in sequences]
    return hm.stack(rows, 0 if batch_first else 1)


def unpad_sequence(padded, lengths, batch_first=False):
    """The sequences of a padded batch."""
    x = padded if batch_first else padded.transpose(0, 1)
    return [x[i, :length] for i, length in enumerate(_numbers(lengths))]


def pack_sequence(sequences, enforce_sorted=True):
    """Packs sequences of (length, ...)."""
    return pack_padded_sequence(pad_sequence(sequences), [x.shape[0] for x in sequences], enforce_sorted=enforce_sorted)


def unpack_sequence(sequence):
    """The sequences in a packed one."""
    return unpad_sequence(*pad_packed_sequence(sequence))
