"""Processes that read samples for a DataLoader."""

import collections
import multiprocessing
import pickle
import queue
import signal
import threading
import traceback
from multiprocessing.pool import ExceptionWithTraceback

import hammock as hm


class WorkerEnded(Exception):
    """The process has ended; the text says how."""


class Batch:
    """What a worker was asked for. `answer` is what `_answer` made, once it has come."""

    def __init__(self, worker, number):
        self.worker, self.number, self.answer = worker, number, None

    def samples(self):
        """Waits for them; raises what reading them raised, or WorkerEnded."""
        while self.answer is None:
            self.worker.receive()
        samples, error = pickle.loads(self.answer)
        if error is not None:
            raise error
        return samples


class Worker:
    """A process that reads batches in the order in which it is asked for them. It ends with this one."""

    def __init__(self, dataset):
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_work, args=(other, dataset), daemon=True)
        self._process.start()
        other.close()
        self._asked = collections.deque()

    def ask(self, number, indices):
        batch = Batch(self, number)
        self._asked.append(batch)
        try:
            self._pipe.send(indices)
        except OSError:  # it has ended: `receive` says so
            pass
        return batch

    def receive(self):
        try:
            answer = self._pipe.recv_bytes()
        except (EOFError, OSError):
            raise WorkerEnded(self.fate()) from None
        self._asked.popleft().answer = answer

    def end(self):
        self._process.terminate()

    def fate(self):
        """Waits for the end of the process; says how it has ended."""
        self._process.join()
        code = self._process.exitcode
        return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"


def _work(pipe, dataset):
    """What the process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program, which ends its workers
    asked = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(pipe, asked), daemon=True).start()
    while (indices := asked.get()) is not None:
        pipe.send_bytes(_answer(dataset, indices))


def _listen(pipe, asked):
    """Empties the pipe also while samples are read or sent, so that the program never waits in `ask`."""
    try:
        while True:
            asked.put(pipe.recv())
    except (EOFError, OSError):  # the program has ended
        asked.put(None)


def _answer(dataset, indices):
    """The samples and None, or None and an error, as bytes."""
    try:
        return pickle.dumps(([_portable(dataset[index]) for index in indices], None), pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001
        try:
            answer = pickle.dumps((None, ExceptionWithTraceback(error, error.__traceback__)))
            pickle.loads(answer)
            return answer
        except Exception:  # noqa: BLE001: an error that cannot be sent
            return pickle.dumps((None, RuntimeError(traceback.format_exc())))


def _portable(sample):
    """A sample with tensors as arrays, which processes exchange."""
    if isinstance(sample, hm.Tensor):
        return sample.detach().numpy()
    if isinstance(sample, dict):
        return {key: _portable(value) for key, value in sample.items()}
    if isinstance(sample, tuple) and hasattr(sample, "_fields"):
        return type(sample)(*map(_portable, sample))
    if isinstance(sample, (tuple, list)):
        return type(sample)(_portable(value) for value in sample)
    return sample
