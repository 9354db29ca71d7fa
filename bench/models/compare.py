#!/usr/bin/env python3
"""Whole models: Hammock beside PyTorch on the same machine, each row of all sides in turn.

  compare.py --ours build/bench/model_bench --out RUN.json [--device cpu|cuda] [--peer-python PYTHON]
             [--peers eager,compile] [--row TEXT] [--seconds 5] [--rounds 1] [--threads 2] [--memory-budget 0.7]

With --memory-budget, `compiled` runs once more with that option.
Writes a file that scripts/benchmark_page.py makes docs/benchmarks.md of. Of several rounds a side's best is taken."""

import argparse
import datetime
import json
import os
import platform
import re
import subprocess
import sys


def output(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.strip()
    except OSError:
        return ""


def machine(device):
    if device == "cuda":
        return output("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    found = re.search(r"model name\s*: (.*)", open("/proc/cpuinfo").read())
    return found.group(1) if found else platform.processor()


def lines(command, environment):
    print("  " + " ".join(command), file=sys.stderr)
    result = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    if result.returncode:
        print(f"  ended with {result.returncode}", file=sys.stderr)
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ours", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--peers", default="eager,compile")
    parser.add_argument("--row", default="")
    parser.add_argument("--seconds", default="5")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", default="2")
    parser.add_argument("--memory-budget")
    arguments = parser.parse_args()
    environment = dict(os.environ, HAMMOCK_CPU_THREADS=arguments.threads, OMP_NUM_THREADS=arguments.threads)
    peers = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers.py")
    common = ["--device", arguments.device, "--seconds", arguments.seconds]
    rows = output(arguments.ours, "--device", arguments.device, "--row", arguments.row, "--list").splitlines()
    sides = [[arguments.ours, "--mode", mode] for mode in ("recorded", "compiled")]
    if arguments.memory_budget:
        sides.append(["env", "HAMMOCK_MEMORY_BUDGET=" + arguments.memory_budget, arguments.ours, "--mode", "compiled"])
    sides += [[arguments.peer_python, peers, mode] for mode in arguments.peers.split(",") if mode]
    best, load = {}, []

    def write():
        run = {
            "device": arguments.device,
            "machine": machine(arguments.device),
            "threads": int(arguments.threads),
            "date": datetime.date.today().isoformat(),
            "load": max(load),
            "results": list(best.values()),
        }
        with open(arguments.out, "w") as file:
            json.dump(run, file, indent=1)
            file.write("\n")

    for _ in range(arguments.rounds):
        for row in rows:
            for side in sides:
                load.append(os.getloadavg()[0])
                for line in lines(side + common + ["--row", row], environment):
                    key = (line["row"], line["side"])
                    if key not in best or line.get("ms", 1e30) < best[key].get("ms", 1e30):
                        best[key] = line
                write()  # a run that is cut short leaves what it has


if __name__ == "__main__":
    main()
