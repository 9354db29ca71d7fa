#!/usr/bin/env python3
"""Breaks the compiled CPU backend on purpose, one way at a time, and shows that the fuzzer notices.

usage: scripts/mutations.py [--build DIR] [NAME...]

Needs a build with hammock-fuzz. A changed copy of one source file is compiled, linked in place of
its original into another hammock-fuzz, and that is run on the same seeds as the right one, which
must pass. The sources and the build are left as they are. Prints a table; status 1 if a mutation
is not noticed. docs/design/fuzzing.md has the results.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILDER = "src/compiler/kernel_builder.cpp"
EMIT = "src/backends/cpu/emit_llvm.cpp"
PROGRAM = "src/backends/cpu/program.cpp"
PLAN = "src/compiler/memory_plan.cpp"
INTERPRETER = "src/backends/cpu/kernel_interpreter.cpp"

# name, what is broken, file, old text, new text, tiers
MUTATIONS = [
    ("same_place", "values are joined wherever they lie", BUILDER,
     "  if (a.offset != b.offset) return false;\n", "  return true;\n", "--interpreted"),
    ("flat_stride", "row-major strides are off by one", BUILDER,
     "    stride *= sizes[d];\n  }\n  return flat;", "    stride = stride * sizes[d] + 1;\n  }\n  return flat;",
     "--interpreted"),
    ("slice_offset", "slices begin at 0", BUILDER,
     'moved.offset = node.attr("start").integer();', "moved.offset = 0;", "--interpreted"),
    ("flip_offset", "flips begin at 0 and go backward", BUILDER,
     "turned.offset = from[static_cast<int>(d)] - 1;", "turned.offset = 0;", "--interpreted"),
    ("permute_inverse", "permutes go the other way", BUILDER,
     "inner[static_cast<size_t>(dims[i])] = place[i];", "inner[i] = place[static_cast<size_t>(dims[i])];",
     "--interpreted"),
    ("broadcast_full", "stretched dims are stepped through", BUILDER,
     "if (from[d] != 1) inner[i]", "if (from[d] >= 0) inner[i]", "--interpreted"),
    ("reshape_range", "places that carry into the next dim are taken for in range", BUILDER,
     "if (least < 0 || most >= inner) {", "if (least < 0) {", "--interpreted"),
    ("split_coefficient", "a split loop keeps its stride", BUILDER,
     "    place.Add(loop, coefficient * (inner - 1));\n", "", "--interpreted"),
    ("uneven_loops", "loops become one whatever the strides are", BUILDER,
     "      return access.place.of(groups.all.back().last) == access.place.of(loop) * next.extent;",
     "      return access.place.of(loop) * next.extent >= 0 || groups.all.empty();",
     "--interpreted"),
    ("stage_order", "scratch memory is read before it is written", BUILDER,
     "    store.stage = nest.stage;\n", "    store.stage = nest.stage + (nest.kept && !nest.row);\n",
     "--interpreted"),
    ("accumulator", "16 accumulators instead of 32 in strips", EMIT,
     '"and i64 {}, {}", column, kAccumulators - 1', '"and i64 {}, {}", column, kAccumulators / 2 - 1',
     "--compiled"),
    ("tail_mask", "a lane too many at the end", EMIT,
     '"icmp sgt <{} x i64> {}, {}", kLanes, all', '"icmp sge <{} x i64> {}, {}", kLanes, all', "--compiled"),
    ("sum_mask", "lanes behind the end are summed", EMIT,
     "if (!spot.mask.empty() && !kernel_.lanes_along_rows) {",
     "if (spot.mask.empty() && !kernel_.lanes_along_rows && kLanes == 0) {", "--compiled"),
    ("shared_scratch", "threads share scratch memory", PROGRAM,
     "worker * step.worker_scratch", "0 * worker * step.worker_scratch", "--interpreted"),
    ("lifetime", "buffers are free one step before they are read last", PLAN,
     "    for (int buffer : schedule.steps[i].reads)\n"
     "      last_use[static_cast<size_t>(buffer)] = static_cast<int>(i);",
     "    for (int buffer : schedule.steps[i].reads)\n"
     "      last_use[static_cast<size_t>(buffer)] = static_cast<int>(i) - 1;", "--interpreted"),
    ("interpreted_sum", "the rest of a block goes to the wrong accumulators", INTERPRETER,
     "for (int j = 0; i + j < count; ++j) sum[j] = combine(sum[j], in[i + j]);",
     "for (int j = 0; i + j < count; ++j) sum[0] = combine(sum[0], in[i + j]);", "--compiled"),
]


def compile_command(build, source):
    with open(os.path.join(build, "compile_commands.json")) as file:
        for entry in json.load(file):
            if entry["file"].endswith(source) and "hammock_core" in entry["command"]:
                return shlex.split(entry["command"]), entry["directory"]
    sys.exit(f"{source} is not in the build")


def link_command(build):
    lines = subprocess.run(["ninja", "-C", build, "-t", "commands", "hammock-fuzz"], check=True,
                           capture_output=True, text=True).stdout.splitlines()
    return [line for line in lines if " -o tools/fuzz/hammock-fuzz " in line][-1]


def make_mutant(build, source, old, new, folder):
    with open(os.path.join(ROOT, source)) as file:
        text = file.read()
    if text.count(old) != 1:
        sys.exit(f"{source} has the text {text.count(old)} times that is to be changed: {old!r}")
    changed = os.path.join(folder, os.path.basename(source))
    with open(changed, "w") as file:
        file.write(text.replace(old, new))
    command, directory = compile_command(build, source)
    original = command[command.index("-o") + 1]
    compiled = os.path.join(folder, "mutant.o")
    command[command.index("-o") + 1] = compiled
    command[command.index("-c") + 1] = changed
    command = [word for word in command if word != "-Werror"]
    subprocess.run(command, cwd=directory, check=True)
    program = os.path.join(folder, "mutant")
    link = link_command(build)
    link = re.sub(r"(?<= )" + re.escape(original) + r"(?= )", compiled, link)
    link = link.replace(" -o tools/fuzz/hammock-fuzz ", f" -o {program} ")
    subprocess.run(link, cwd=build, shell=True, check=True)
    return program


def run(program, tiers, seconds, folder):
    """Whether it fails, and the seed."""
    graphs = {"--interpreted": 4000, "--compiled": 1500}[tiers]
    command = [program, "--graphs", str(graphs), "--seed", "1", tiers, "--out",
               os.path.join(folder, "failure.txt")]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return "hangs", ""
    text = done.stdout + done.stderr
    if done.returncode == 77:
        return "skipped", ""
    if done.returncode == 0:
        return "not noticed", ""
    seed = re.search(r"seed +(\d+)", text)
    how = "crashes" if done.returncode < 0 else "differs"
    return how, seed.group(1) if seed else "?"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    build = os.path.abspath(arguments.build)
    missed = 0
    print("| mutation | what is broken | noticed | by seed | seconds |\n|---|---|---|---|---|")
    for name, what, source, old, new, tiers in MUTATIONS:
        if arguments.names and name not in arguments.names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            program = make_mutant(build, source, old, new, folder)
            start = time.time()
            how, seed = run(program, tiers, 600, folder)
            missed += how == "not noticed"
            print(f"| {name} | {what} | {how} | {seed} | {time.time() - start:.1f} |", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
