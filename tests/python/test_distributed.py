"""Programs of several processes."""

import json
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

import hammock as hm

LIBRARY = next(line.split()[-1] for line in open("/proc/self/maps") if "libhammock.so" in line)
needs_gloo = pytest.mark.skipif(not (pathlib.Path(LIBRARY).parent / "libhammock-gloo.so").exists(),
                                reason="this build has no engine that connects ranks")


def launch(folder, code, size=2, ends_well=True):
    """What each rank prints."""
    program = folder / "program.py"
    program.write_text("import hammock as hm\nfrom hammock import distributed, nn, optim\n" + textwrap.dedent(code))
    ranks = [subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank),
                                   "HAMMOCK_DISTRIBUTED_STORE": str(folder / "store")}) for rank in range(size)]
    done = [rank.communicate(timeout=300) for rank in ranks]
    assert not ends_well or all(rank.returncode == 0 for rank in ranks), done
    return [out for out, _ in done]


def test_a_world_of_one():
    world = hm.distributed.world()
    assert (world.rank, world.size, hm.distributed.rank(), hm.distributed.size()) == (0, 1, 0, 1) and not world.failed
    x = hm.tensor([1.0, 2.0], requires_grad=True)
    for y in (hm.distributed.all_reduce(x), hm.distributed.all_reduce([x, x], "max")[1], hm.distributed.all_gather(x),
              hm.distributed.reduce_scatter(x, "mean"), hm.distributed.broadcast(x), hm.distributed.all_to_all(x),
              hm.distributed.permute(x, [(0, 0)])):
        assert y.tolist() == [1, 2]
    hm.distributed.all_reduce(x).sum().backward()
    assert x.grad.tolist() == [1, 1]
    with pytest.raises(ValueError, match="'sum', 'mean'"):
        hm.distributed.all_reduce(x, "median")
    with pytest.raises(TypeError):
        hm.distributed.all_gather(x, group=3)


@needs_gloo
def test_collectives_between_ranks(tmp_path):
    first, second = launch(tmp_path, """
        world = distributed.init()
        mine = hm.full([4], float(world.rank + 1))
        every = distributed.all_gather(mine)
        print(distributed.all_reduce(mine).tolist(), distributed.all_reduce([mine], "max")[0][0].item(), every.tolist(),
              distributed.reduce_scatter(every, "mean").tolist(), distributed.broadcast(mine, 1)[0].item(),
              distributed.all_to_all(every).shape, distributed.permute(mine, [(1, 0)])[0].item())
        half = world.split(world.rank)
        print(half.size, half.rank, world.world_ranks, distributed.all_reduce(mine, group=half)[0].item())
        world.barrier()
        distributed.shutdown()
    """)
    shared = "[3.0, 3.0, 3.0, 3.0] 2.0 [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0] "
    assert first == shared + "[1.0, 1.0, 1.0, 1.0] 2.0 (8,) 2.0\n1 0 [0, 1] 1.0\n"
    assert second == shared + "[2.0, 2.0, 2.0, 2.0] 2.0 (8,) 0.0\n1 0 [0, 1] 2.0\n"


@needs_gloo
def test_data_parallel_training_is_that_of_one_rank(tmp_path):
    program = """
        world = distributed.init()
        hm.manual_seed(world.rank)  # the parameters are those of rank 0
        net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
        hm.manual_seed(7)
        x = hm.randn(32, 3)
        y = x.sum(1, keepdim=True)
        parallel = distributed.DataParallel(net)
        optimizer = optim.SGD(net.parameters(), lr=0.1)
        share = slice(world.rank * 32 // world.size, (world.rank + 1) * 32 // world.size)
        for _ in range(5):
            with hm.step():
                optimizer.zero_grad()
                hm.mse_loss(parallel(x[share]), y[share]).backward()
                parallel.reduce_gradients()
                optimizer.step()
        print(net[0].weight.flatten().tolist())
        distributed.shutdown()
    """
    first, second = launch(tmp_path, program)
    (tmp_path / "alone").mkdir()
    alone, = launch(tmp_path / "alone", program, size=1)
    assert first == second and json.loads(first) == pytest.approx(json.loads(alone), rel=1e-4, abs=1e-5)


@needs_gloo
def test_ranks_that_differ_or_die_are_errors(tmp_path):
    outputs = launch(tmp_path, """
        import os
        world = distributed.init()
        hm.config.set("distributed.timeout", 20)
        try:
            distributed.all_reduce(hm.ones(2 + world.rank)).tolist()
        except hm.DeviceError as error:
            print("diverged", world.failed)
        if world.rank == 1:
            os._exit(0)
        world = world.survivors()
        print(world.size, distributed.all_reduce(hm.ones(2), group=world).tolist())
    """, ends_well=False)
    assert [out.split("\n")[0] for out in outputs] == ["diverged True"] * 2 and outputs[0].endswith("1 [1.0, 1.0]\n"), outputs
