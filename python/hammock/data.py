"""Batches of samples: datasets, and a loader with worker processes."""

import collections
import multiprocessing
import random

import hammock as hm


class Dataset:
    """Samples by number: subclasses have `__getitem__` and `__len__`."""

    def __getitem__(self, index):
        raise NotImplementedError("__getitem__")

    def __len__(self):
        raise NotImplementedError("__len__")


class TensorDataset(Dataset):
    """The rows of tensors or arrays of one length."""

    def __init__(self, *tensors):
        if len({len(tensor) for tensor in tensors}) > 1:
            raise hm.ValueError("TensorDataset: tensors must have one length, not " + ", ".join(str(len(t)) for t in tensors))
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self):
        return len(self.tensors[0])


class Subset(Dataset):
    """Some samples of a dataset."""

    def __init__(self, dataset, indices):
        self.dataset, self.indices = dataset, list(indices)

    def __getitem__(self, index):
        return self.dataset[self.indices[index]]

    def __len__(self):
        return len(self.indices)


def random_split(dataset, lengths, seed=0):
    """Parts of a dataset, in random order."""
    if sum(lengths) != len(dataset):
        raise hm.ValueError(f"random_split: lengths have the sum {sum(lengths)}, the dataset has {len(dataset)} samples")
    order = list(range(len(dataset)))
    random.Random(seed).shuffle(order)
    parts, start = [], 0
    for length in lengths:
        parts.append(Subset(dataset, order[start:start + length]))
        start += length
    return parts


def default_collate(samples):
    """A batch of samples: numbers, arrays and tensors are stacked; tuples, lists and dicts item by item."""
    first = samples[0]
    if isinstance(first, hm.Tensor):
        return hm.stack(list(samples))
    if isinstance(first, dict):
        return {key: default_collate([sample[key] for sample in samples]) for key in first}
    if isinstance(first, (tuple, list)):
        columns = [default_collate(list(column)) for column in zip(*samples)]
        return tuple(columns) if isinstance(first, tuple) else columns
    if isinstance(first, (str, bytes)):
        return list(samples)
    if hasattr(first, "__array__"):
        import numpy

        return hm.tensor(numpy.stack(samples))
    return hm.tensor(samples)


def _read(dataset, indices):
    """What a worker returns: samples, with tensors as arrays, which processes exchange."""
    return [_portable(dataset[index]) for index in indices]


def _portable(sample):
    if isinstance(sample, hm.Tensor):
        return sample.detach().numpy()
    if isinstance(sample, dict):
        return {key: _portable(value) for key, value in sample.items()}
    if isinstance(sample, (tuple, list)):
        return type(sample)(_portable(value) for value in sample)
    return sample


_worker_dataset = None


def _start_worker(dataset):
    global _worker_dataset
    _worker_dataset = dataset


def _read_in_worker(indices):
    return _read(_worker_dataset, indices)


class DataLoader:
    """Goes through a dataset in batches. With `num_workers` samples are read by other processes, which are spawned:
    the dataset must be picklable, and the program's start stand under `if __name__ == "__main__":`."""

    def __init__(self, dataset, batch_size=1, shuffle=False, num_workers=0, collate_fn=None, drop_last=False, seed=None,
                 prefetch_factor=2):
        if batch_size < 1:
            raise hm.ValueError(f"DataLoader: batch_size is {batch_size}, needs at least 1")
        self.dataset, self.batch_size, self.shuffle, self.drop_last = dataset, batch_size, shuffle, drop_last
        self.num_workers, self.prefetch_factor = num_workers, prefetch_factor
        self.collate_fn = collate_fn or default_collate
        self._random = random.Random(seed)
        self._pool = None

    def __len__(self):
        full, rest = divmod(len(self.dataset), self.batch_size)
        return full if self.drop_last or rest == 0 else full + 1

    def _batches(self):
        order = list(range(len(self.dataset)))
        if self.shuffle:
            self._random.shuffle(order)
        for number in range(len(self)):
            yield order[number * self.batch_size:(number + 1) * self.batch_size]

    def __iter__(self):
        if self.num_workers == 0:
            for indices in self._batches():
                yield self.collate_fn([self.dataset[index] for index in indices])
            return
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = context.Pool(self.num_workers, _start_worker, (self.dataset,))
        ahead = collections.deque()
        for indices in self._batches():
            ahead.append(self._pool.apply_async(_read_in_worker, (indices,)))
            if len(ahead) > self.num_workers * self.prefetch_factor:
                yield self.collate_fn(ahead.popleft().get())
        while ahead:
            yield self.collate_fn(ahead.popleft().get())

    def close(self):
        """Ends the worker processes."""
        if self._pool is not None:
            self._pool.terminate()
            self._pool.join()
            self._pool = None

    def __del__(self):
        if getattr(self, "_pool", None) is not None:
            self._pool.terminate()
