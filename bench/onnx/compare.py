#!/usr/bin/env python3
"""Models beside ONNX Runtime in one run: python3 bench/onnx/compare.py PROGRAM FOLDER...

PROGRAM is build/bench/onnx_bench; each FOLDER has a model.onnx and test_data_set_0, of floats or quantised (see
quantize.py). Needs onnxruntime, onnx and numpy. Each runtime has a process of its own for each model and number of
threads, in turn, `--rounds` times; the least of each figure counts. A process has as many cores as threads; with
`--lanes N` up to N models are measured at a time, each on cores of its own. A batch repeats the first symbolic dim whose
recorded size is 1, and `-` marks models that have none; batches after the first are latencies only. With
`--tool build/tools/hammock/hammock` there are two columns more: `cached` is the time to the first result of a process that
finds its code in a warm `cache_dir`, `compiled` that with a file of `hammock compile` in place of the model."""

import argparse
import concurrent.futures
import functools
import json
import math
import os
import pathlib
import queue
import subprocess
import sys
import tempfile

ORT = """
import json, resource, sys, time
import numpy as np
import onnxruntime
folder, batches, threads, inputs = sys.argv[1], sys.argv[2].split(","), int(sys.argv[3]), np.load(sys.argv[4])
start = time.perf_counter()
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = threads
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
session = onnxruntime.InferenceSession(folder + "/model.onnx", options, ["CPUExecutionProvider"])
load = time.perf_counter() - start
result = {"load_ms": load * 1e3, "latency_ms": {}}
for batch in map(int, batches):
    feed = {}
    for given in session.get_inputs():
        value = inputs[given.name]
        of_batch = [i for i, dim in enumerate(given.shape) if not isinstance(dim, int) and value.shape[i] == 1]
        feed[given.name] = value.repeat(batch, of_batch[0]) if of_batch else value
    def timed():
        start = time.perf_counter()
        session.run(None, feed)
        return (time.perf_counter() - start) * 1e3
    first = timed()
    times, until = [], time.perf_counter() + 0.5
    while len(times) < 5 or time.perf_counter() < until:
        times.append(timed())
    result["latency_ms"][str(batch)] = min(times)
    if "first_ms" not in result:
        result["first_ms"] = first
        result["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps(result))
"""


def least(one, other):
    if isinstance(one, dict):
        return {key: least(one[key], other[key]) for key in one}
    return min(one, other)


def measure(command, cores, **environment):
    """What one process reports; None where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment,
                          preexec_fn=lambda: os.sched_setaffinity(0, cores))
    if done.returncode != 0:
        print(done.stderr.strip()[-300:], file=sys.stderr)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def start_of(side):
    return side["load_ms"] + side["first_ms"]


def recorded_inputs(folder):
    """Names, symbolic dims and recorded values of the inputs."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(str(folder / "model.onnx"), load_external_data=False).graph
    weights = {each.name for each in graph.initializer}
    for i, given in enumerate(each for each in graph.input if each.name not in weights):
        tensor = onnx.TensorProto()
        tensor.ParseFromString((folder / "test_data_set_0" / f"input_{i}.pb").read_bytes())
        yield given.name, [dim.dim_param for dim in given.type.tensor_type.shape.dim], numpy_helper.to_array(tensor)


def starts(options, folder, cores):
    """Milliseconds to the first result with a warm cache, and from a compiled file; None where there is none."""
    command = [options.program, str(folder), "1"]
    sizes = {name: size for _, dims, value in recorded_inputs(folder) for name, size in zip(dims, value.shape) if name}
    with tempfile.TemporaryDirectory() as work:
        cache = {"HAMMOCK_CACHE_DIR": work + "/cache"}
        measure(command, cores, **cache)
        archive = work + "/model.hmk"
        dims = [word for name, size in sizes.items() for word in ("--dim", f"{name}={size}")]
        compiled = subprocess.run([options.tool, "compile", str(folder / "model.onnx"), "-o", archive, *dims],
                                  capture_output=True).returncode == 0
        commands = [(command, cache)] + ([([*command, archive], {})] if compiled else [])
        times = [[start_of(side) for side in (measure(each, cores, **env) for _ in range(options.rounds)) if side]
                 for each, env in commands]
    return [min(each, default=None) for each in times] + [None] * (not compiled)


def compare(options, threads, cores_of_lanes, folder):
    """Figures of both runtimes, and the two starts."""
    import numpy as np

    cores = cores_of_lanes.get()
    try:
        with tempfile.TemporaryDirectory() as work:
            np.savez(work + "/inputs.npz", **{name: value for name, _, value in recorded_inputs(folder)})
            batches = ",".join(map(str, options.batch))
            commands = [[options.program, str(folder), batches],
                        [sys.executable, "-c", ORT, str(folder), batches, str(threads), work + "/inputs.npz"]]
            rounds = [[measure(command, cores) for command in commands] for _ in range(options.rounds)]
        ours, theirs = (functools.reduce(least, side) if all(side) else None for side in zip(*rounds))
        return ours, theirs, starts(options, folder, cores) if options.tool and threads == options.threads[-1] else []
    finally:
        cores_of_lanes.put(cores)


def whole_cores():
    """One processor of each core that this process may use."""
    allowed, first = os.sched_getaffinity(0), {}
    for cpu in sorted(allowed):
        try:
            siblings = pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text()
        except OSError:
            siblings = str(cpu)
        first.setdefault(siblings, cpu)
    return list(first.values())


SYSTEM = ("ld-linux", "libc.", "libm.", "libdl.", "libpthread.", "librt.", "libgcc_s.", "libstdc++.", "linux-vdso")


def megabytes_of_ours(program):
    """The library, its compiler and reader of ONNX files, and all that they load but for what every C++ program has."""
    def needs(file):
        for line in subprocess.run(["ldd", str(file)], capture_output=True, text=True).stdout.splitlines():
            path = pathlib.Path(line.split("=>")[-1].split("(")[0].strip())
            if path.is_absolute() and not path.name.startswith(SYSTEM):
                yield path.resolve()

    files = set(needs(program))
    folder = next(file.parent for file in files if file.name.startswith("libhammock.so"))
    for plugin in ("llvm", "onnx"):
        library = folder / f"libhammock-{plugin}.so"
        files |= {library, *needs(library)}
    return sum(file.stat().st_size for file in files) / 2**20


def megabytes_of_theirs():
    import onnxruntime

    folder = pathlib.Path(onnxruntime.__file__).parent
    return sum(file.stat().st_size for file in folder.rglob("*.so*")) / 2**20


def print_means(name, ratios):
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{name}: geometric mean of the ratios {mean:.2f}, the largest {max(ratios):.2f}")


def print_table(options, threads, results):
    """Hammock / ONNX Runtime and the ratio, a row a model."""
    print(f"\nthreads: {threads}; Hammock / ONNX Runtime, milliseconds\n")
    extra = ["cached", "compiled"] if any(starts for _, _, starts in results.values()) else []
    titles = ["model", *(f"batch {batch} | ratio" for batch in options.batch), "load", "first", "load + first | ratio", "peak MB"]
    titles = " | ".join(titles + extra)
    print(f"| {titles} |\n|{'---|' * (titles.count('|') + 1)}")
    ratios = {batch: [] for batch in options.batch}
    start_ratios = []
    for name, (ours, theirs, starts) in results.items():
        if not ours or not theirs:
            print(f"| {name} | failed |")
            continue

        def pair(one, other, digits, into=None):
            text = f"{one:.{digits}f} / {other:.{digits}f}"
            if into is None:
                return text
            into.append(one / other)
            return f"{text} | {into[-1]:.2f}"

        cells = [name]
        for batch in options.batch:
            if batch > 1 and ours["batch_is_fixed"]:
                cells.append("- | -")
            else:
                cells.append(pair(ours["latency_ms"][str(batch)], theirs["latency_ms"][str(batch)], 3, ratios[batch]))
        cells += [pair(ours["load_ms"], theirs["load_ms"], 1), pair(ours["first_ms"], theirs["first_ms"], 1),
                  pair(start_of(ours), start_of(theirs), 1, start_ratios), pair(ours["peak_mb"], theirs["peak_mb"], 0)]
        cells += ["-" if each is None else f"{each:.1f}" for each in starts]
        print("| " + " | ".join(cells) + " |")
    print()
    for batch in options.batch:
        print_means(f"latency of batch {batch}", ratios[batch])
    print_means("load and first result", start_ratios)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--batch", type=int, nargs="+", default=[1])
    parser.add_argument("--threads", type=int, nargs="+", default=[len(whole_cores())])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lanes", type=int, default=1)
    parser.add_argument("--tool")
    options = parser.parse_args()
    for threads in options.threads:
        cores = whole_cores()
        if threads > len(cores):
            parser.error(f"{threads} threads need more than {len(cores)} cores")
        free = queue.SimpleQueue()
        for i in range(min(options.lanes, len(cores) // threads)):
            free.put(cores[i * threads:(i + 1) * threads])
        with concurrent.futures.ThreadPoolExecutor(options.lanes) as pool:
            measured = pool.map(functools.partial(compare, options, threads, free), options.folders)
            print_table(options, threads, {folder.name: result for folder, result in zip(options.folders, measured)})
    print(f"libraries on disk: {megabytes_of_ours(options.program):.0f} / {megabytes_of_theirs():.0f} MB")


if __name__ == "__main__":
    main()
