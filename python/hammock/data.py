"""Batches of samples: datasets, and a loader with worker processes."""

import collections
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


class DataLoader:
    """Goes through a dataset in batches. With `num_workers` samples are read by other processes, which are spawned:
    the dataset must be picklable, and the program's start stand under `if __name__ == "__main__":`.

    With `shuffle` the order of each pass depends on `seed` and the number of the pass, without a seed on the default
    generator, which `hm.manual_seed` seeds. `state_dict` is the position, as a part of an `io.Checkpoint`."""

    def __init__(self, dataset, batch_size=1, shuffle=False, num_workers=0, collate_fn=None, drop_last=False, seed=None,
                 prefetch_factor=2):
        if batch_size < 1:
            raise hm.ValueError(f"DataLoader: batch_size is {batch_size}, needs at least 1")
        self.dataset, self.batch_size, self.shuffle, self.drop_last = dataset, batch_size, shuffle, drop_last
        self.num_workers, self.prefetch_factor = num_workers, prefetch_factor
        self.collate_fn = collate_fn or default_collate
        self.seed = seed
        self._reached = self._next = {"epoch": 0, "batch": 0, "order": None}
        self._workers = []

    def __len__(self):
        full, rest = divmod(len(self.dataset), self.batch_size)
        return full if self.drop_last or rest == 0 else full + 1

    def state_dict(self):
        """Where the newest pass is: its number, how many of its batches it has given out, and the seed of its order."""
        return dict(self._reached)

    def load_state_dict(self, state):
        """The next pass goes on from there."""
        if set(state) != set(self._reached):
            raise hm.ValueError(f"DataLoader: a state has {', '.join(self._reached)}, not {', '.join(state) or 'nothing'}")
        self._reached = self._next = dict(state)

    def _draw(self, epoch):
        """The seed of an order."""
        if self.seed is not None:
            return f"{self.seed} {epoch}"
        generator = hm.default_generator()
        generator.offset += 1
        return f"{generator.seed} {generator.offset}"

    def __iter__(self):
        position, self._next = self._next, {"epoch": self._next["epoch"] + 1, "batch": 0, "order": None}
        if self.shuffle and position["order"] is None:
            position["order"] = self._draw(position["epoch"])
        self._reached = position
        return self._pass(position)

    def _pass(self, position):
        """The batches from a position on, which moves with them."""
        order = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(position["order"]).shuffle(order)
        batches = [order[number * self.batch_size:(number + 1) * self.batch_size] for number in range(len(self))]
        for samples in self._read(list(enumerate(batches))[position["batch"]:]):
            batch = self.collate_fn(samples)
            position["batch"] += 1
            yield batch
        position.update(epoch=position["epoch"] + 1, batch=0, order=None)

    def _read(self, batches):
        """The samples of numbered batches, read here or by workers."""
        if self.num_workers == 0:
            for _, indices in batches:
                yield [self.dataset[index] for index in indices]
            return
        from ._worker import Worker  # imports what other programs do not need

        if not self._workers:
            self._workers = [Worker(self.dataset) for _ in range(self.num_workers)]
        workers, ahead = self._workers, collections.deque()
        for number, indices in batches:
            ahead.append(workers[number % len(workers)].ask(number, indices))
            if len(ahead) > self.num_workers * self.prefetch_factor:
                yield self._samples_of(ahead.popleft())
        while ahead:
            yield self._samples_of(ahead.popleft())

    def _samples_of(self, batch):
        from ._worker import WorkerEnded

        try:
            return batch.samples()
        except WorkerEnded as end:
            self.close()  # another pass starts new ones
            raise RuntimeError(f"DataLoader: the worker process that was to read batch {batch.number} has ended: {end}") from None

    def close(self):
        """Ends the worker processes."""
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.end()
            worker.fate()

    def __del__(self):
        for worker in getattr(self, "_workers", ()):
            worker.end()
