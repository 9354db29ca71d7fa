#!/usr/bin/env python3
"""Models beside ONNX Runtime in one run: python3 bench/onnx/compare.py PROGRAM FOLDER... [--batch N]

PROGRAM is build/bench/onnx_bench; each FOLDER has a model.onnx and test_data_set_0. Needs onnxruntime, onnx
and numpy. Both runtimes use all cores, each in a process of its own, one after the other, three times;
the least of each figure counts."""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys

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


def measure(command):
    """The least of each figure of three runs; None where one fails."""
    best = {}
    for _ in range(3):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            print(done.stderr.strip()[-300:], file=sys.stderr)
            return None
        for key, value in json.loads(done.stdout.splitlines()[-1]).items():
            best[key] = min(value, best.get(key, value))
    return best


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
    print(f"{'model':<32}{'latency':>22}{'ratio':>8}{'load + first':>22}{'ratio':>8}{'MB':>14}")
    ratios = []
    for folder in options.folders:
        ours = measure([options.program, str(folder), str(options.batch)])
        theirs = measure([sys.executable, "-c", ORT, str(folder), str(options.batch), str(threads)])
        if not ours or not theirs:
            print(f"{folder.name:<32}failed")
            continue
        ratio = ours["min_ms"] / theirs["min_ms"]
        ratios.append(ratio)
        start = [side["load_ms"] + side["first_ms"] for side in (ours, theirs)]
        latency = f"{ours['min_ms']:.3f} / {theirs['min_ms']:.3f}"
        begin = f"{start[0]:.1f} / {start[1]:.1f}"
        peak = f"{ours['peak_mb']:.0f} / {theirs['peak_mb']:.0f}"
        print(f"{folder.name:<32}{latency:>22}{ratio:>8.2f}{begin:>22}{start[0] / start[1]:>8.2f}"
              f"{peak:>14}")
    print(f"libraries on disk: {megabytes_of_ours(options.program):.0f} / {megabytes_of_theirs():.0f} MB")
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"geometric mean of the latency ratios: {mean:.2f}")


if __name__ == "__main__":
    main()
