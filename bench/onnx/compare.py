#!/usr/bin/env python3
"""Models beside ONNX Runtime in one run: python3 bench/onnx/compare.py PROGRAM FOLDER... [--batch N]

PROGRAM is build/bench/onnx_bench; each FOLDER has a model.onnx and test_data_set_0, of floats or quantised (see
quantize.py). Needs onnxruntime, onnx and numpy. Both runtimes use all cores, each in a process of its own, one
after the other, three times; the least of each figure counts. `cached` is the start of a process that finds its
code in a warm `cache_dir`, `compiled` that with a file of `hammock compile` in place of the model."""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

ORT = """
import json, resource, sys, time
import numpy as np
import onnx, onnxruntime
from onnx import numpy_helper
folder, batch, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def session():
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    return onnxruntime.InferenceSession(folder + "/model.onnx", options, ["CPUExecutionProvider"])
start = time.perf_counter()
made = session()
load = time.perf_counter() - start
feed = {}
for i, given in enumerate(made.get_inputs()):
    tensor = onnx.TensorProto()
    with open(f"{folder}/test_data_set_0/input_{i}.pb", "rb") as file:
        tensor.ParseFromString(file.read())
    value = numpy_helper.to_array(tensor)
    if batch > 1 and value.ndim and given.shape and not isinstance(given.shape[0], int):
        value = np.tile(value, [batch] + [1] * (value.ndim - 1))
    feed[given.name] = value
def timed():
    start = time.perf_counter()
    made.run(None, feed)
    return (time.perf_counter() - start) * 1e3
first = timed()
times, until = [], time.perf_counter() + 1.5
while len(times) < 5 or time.perf_counter() < until:
    times.append(timed())
times.sort()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"load_ms": load * 1e3, "first_ms": first, "median_ms": times[len(times) // 2],
                  "min_ms": times[0], "peak_mb": peak}))
"""


def measure(command, **environment):
    """The least of each figure of three runs; None where one fails."""
    best = {}
    for _ in range(3):
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)
        if done.returncode != 0:
            print(done.stderr.strip()[-300:], file=sys.stderr)
            return None
        for key, value in json.loads(done.stdout.splitlines()[-1]).items():
            best[key] = min(value, best.get(key, value))
    return best


def start_of(side):
    return side["load_ms"] + side["first_ms"] if side else math.nan


def starts(program, folder, batch):
    """Milliseconds to the first result with a warm cache, and from a compiled file."""
    command = [program, str(folder), str(batch)]
    tool = pathlib.Path(program).resolve().parent.parent / "tools" / "hammock" / "hammock"
    with tempfile.TemporaryDirectory() as work:
        cache = {"HAMMOCK_CACHE_DIR": work + "/cache"}
        subprocess.run(command, capture_output=True, env=os.environ | cache)
        cached = measure(command, **cache)
        archive = work + "/model.hmk"
        dims = [word for name, size in symbolic_dims(folder, batch).items() for word in ("--dim", f"{name}={size}")]
        done = subprocess.run([str(tool), "compile", str(folder / "model.onnx"), "-o", archive, *dims],
                              capture_output=True, text=True)
        if done.returncode != 0:
            print(f"{folder.name}: no compiled file: {done.stderr.strip()[-200:]}", file=sys.stderr)
        compiled = measure([*command, archive]) if done.returncode == 0 else None
    return start_of(cached), start_of(compiled)


def symbolic_dims(folder, batch):
    """The size of each symbolic dim, as recorded; a first dim is a batch."""
    import onnx

    graph = onnx.load(str(folder / "model.onnx"), load_external_data=False).graph
    weights = {each.name for each in graph.initializer}
    dims = {}
    for i, given in enumerate(each for each in graph.input if each.name not in weights):
        tensor = onnx.TensorProto()
        tensor.ParseFromString((folder / "test_data_set_0" / f"input_{i}.pb").read_bytes())
        for at, (dim, size) in enumerate(zip(given.type.tensor_type.shape.dim, tensor.dims)):
            if dim.dim_param:
                dims[dim.dim_param] = size * batch if at == 0 else size
    return dims


SYSTEM = ("ld-linux", "libc.", "libm.", "libdl.", "libpthread.", "librt.", "libgcc_s.", "libstdc++.", "linux-vdso")


def megabytes_of_ours(program):
    """The library with its plug-ins and all that they load, but for what every C++ program has."""
    folder = pathlib.Path(program).resolve().parent.parent
    files = set()
    for library in folder.glob("libhammock*.so"):
        if "gloo" in library.name or "minimal" in library.name:
            continue
        files.add(library.resolve())
        for line in subprocess.run(["ldd", str(library)], capture_output=True, text=True).stdout.splitlines():
            path = line.split("=>")[-1].split("(")[0].strip()
            if path.startswith("/") and not pathlib.Path(path).name.startswith(SYSTEM):
                files.add(pathlib.Path(path).resolve())
    return sum(file.stat().st_size for file in files) / 2**20


def megabytes_of_theirs():
    import onnxruntime

    folder = pathlib.Path(onnxruntime.__file__).parent
    return sum(file.stat().st_size for file in folder.rglob("*.so*")) / 2**20


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--batch", type=int, default=1)
    options = parser.parse_args()
    threads = len(os.sched_getaffinity(0))
    print(f"{threads} threads, batch {options.batch}; milliseconds, Hammock / ONNX Runtime")
    print(f"{'model':<32}{'latency':>20}{'ratio':>7}{'load':>16}{'first':>16}{'load + first':>18}{'ratio':>7}"
          f"{'cached':>8}{'compiled':>10}{'MB':>12}")
    ratios, start_ratios = [], []
    for folder in options.folders:
        ours = measure([options.program, str(folder), str(options.batch)])
        theirs = measure([sys.executable, "-c", ORT, str(folder), str(options.batch), str(threads)])
        if not ours or not theirs:
            print(f"{folder.name:<32}failed")
            continue
        cached, compiled = starts(options.program, folder, options.batch)
        ratios.append(ours["min_ms"] / theirs["min_ms"])
        start_ratios.append(start_of(ours) / start_of(theirs))

        def pair(key, digits):
            return f"{ours[key]:.{digits}f} / {theirs[key]:.{digits}f}"

        fixed = " (its batch is 1)" if options.batch > 1 and ours["batch_is_fixed"] else ""
        print(f"{folder.name:<32}{pair('min_ms', 3):>20}{ratios[-1]:>7.2f}{pair('load_ms', 1):>16}{pair('first_ms', 1):>16}"
              f"{f'{start_of(ours):.1f} / {start_of(theirs):.1f}':>18}{start_ratios[-1]:>7.2f}{cached:>8.1f}{compiled:>10.1f}"
              f"{pair('peak_mb', 0):>12}{fixed}")
    print(f"libraries on disk: {megabytes_of_ours(options.program):.0f} / {megabytes_of_theirs():.0f} MB")
    for name, all_ratios in (("latency", ratios), ("load and first result", start_ratios)):
        if all_ratios:
            mean = math.exp(sum(map(math.log, all_ratios)) / len(all_ratios))
            print(f"geometric mean of the ratios of {name}: {mean:.2f}")


if __name__ == "__main__":
    main()
