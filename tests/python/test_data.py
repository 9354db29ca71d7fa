"""Worker processes of a DataLoader."""

import os
import signal

import numpy as np
import pytest

import hammock as hm
from hammock import data, io


class Rows(data.Dataset):
    """Samples that are their numbers; `at` one of them something happens."""

    def __init__(self, at=None):
        self.at = at

    def __len__(self):
        return 12

    def __getitem__(self, index):
        if index == self.at:
            self.happen()
        return np.float32(index)


class Killed(Rows):
    def happen(self):
        os.kill(os.getpid(), signal.SIGKILL)


class Exits(Rows):
    def happen(self):
        os._exit(3)


class Raises(Rows):
    def happen(self):
        raise EOFError("the file is too short")


class Unsendable(Exception):
    def __init__(self, first, second):
        super().__init__("only one")


class RaisesUnsendable(Rows):
    def happen(self):
        raise Unsendable(1, 2)


class RefusesToLoad(Rows):
    def __setstate__(self, state):
        raise ValueError("not here")


def read(loader):
    return [batch.tolist() for batch in loader]


@pytest.mark.parametrize("dataset, end", [(Killed, "batch 2 has ended: killed by SIGKILL"), (Exits, "batch 2 has ended: exit code 3"),
                                          (RefusesToLoad, "batch 0 has ended: exit code 1")])
def test_the_end_of_a_worker_is_an_error(dataset, end):
    loader = data.DataLoader(dataset(at=5), batch_size=2, num_workers=2)
    for _ in range(2):  # another pass starts workers anew
        with pytest.raises(RuntimeError, match=end):
            read(loader)


def test_errors_of_workers_come_through():
    loader = data.DataLoader(Raises(at=5), batch_size=2, num_workers=2)
    with pytest.raises(EOFError, match="too short") as raised:
        read(loader)
    assert "in happen" in str(raised.value.__cause__)
    loader.close()
    loader = data.DataLoader(RaisesUnsendable(at=0), batch_size=2, num_workers=1)
    with pytest.raises(RuntimeError, match="Unsendable: only one"):
        read(loader)
    loader.close()


def test_a_pass_that_is_left_early_disturbs_no_other():
    loader = data.DataLoader(Rows(), batch_size=2, num_workers=2)
    whole = read(data.DataLoader(Rows(), batch_size=2))
    for batch in loader:
        break
    assert batch.tolist() == whole[0] and read(loader) == whole
    assert [(a.tolist(), b.tolist()) for a, b in zip(loader, loader)] == list(zip(whole, whole))
    workers = [worker._process for worker in loader._workers]
    loader.close()
    assert not any(process.is_alive() for process in workers)


def test_the_order_follows_the_seed():
    loader = data.DataLoader(Rows(), batch_size=4, shuffle=True)
    passes = []
    for seed in (3, 3, 4):
        hm.manual_seed(seed)
        passes.append([read(loader), read(loader)])
    assert passes[0] == passes[1] != passes[2] and passes[0][0] != passes[0][1]
    assert all(sorted(sum(each, [])) == list(range(12)) for each in passes[0])
    own = [read(data.DataLoader(Rows(), batch_size=4, shuffle=True, seed=5)) for _ in range(2)]
    assert own[0] == own[1]
    before = hm.default_generator().offset
    read(data.DataLoader(Rows()))
    read(data.DataLoader(Rows(), shuffle=True, seed=5))
    assert hm.default_generator().offset == before


@pytest.mark.parametrize("seed", [None, 5])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("stop", [2, 5, 6, 8])
def test_a_resumed_run_reads_the_same_batches(tmp_path, stop, workers, seed):
    def run(batches, path, resumed):
        """Reads two passes, with random numbers that it draws; a checkpoint after `stop` batches."""
        loader = data.DataLoader(Rows(), batch_size=2, shuffle=True, num_workers=workers, seed=seed)
        checkpoint = io.Checkpoint(data=loader)
        if resumed:
            checkpoint.load(path)
        while loader.state_dict()["epoch"] < 2:
            for batch in loader:
                batches.append((batch.tolist(), hm.rand(1).item()))
                if len(batches) == stop:
                    checkpoint.save(path)
        loader.close()

    whole, resumed, path = [], [None] * stop, tmp_path / "run.safetensors"
    run(whole, path, False)
    hm.manual_seed(99)
    run(resumed, path, True)
    assert len(whole) == 12 and resumed[stop:] == whole[stop:]
    with pytest.raises(ValueError, match="epoch, batch, order, not nothing"):
        data.DataLoader(Rows()).load_state_dict({})
