#!/usr/bin/env python3
"""Breaks the compiled CPU backend on purpose, one way at a time, and shows that the fuzzer notices.

usage: scripts/mutations.py [--build DIR] [--list] [NAME...]

Needs a build with hammock-fuzz and cpu_backend_tests. First these are run themselves, on all seeds that are
used, and must pass. Then for each mutation (for those that are named) a changed copy of one source
file is compiled, linked in place of its original into another hammock-fuzz, and that is run on the
same seeds; what needs several threads to show is left to tests instead. The sources and the build
are left as they are. Prints a table. Status 0: all were noticed; 1: one was not; 2: nothing
could be said, because the right program failed or a text that is to be changed is not there.
docs/design/fuzzing.md has the results.
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
BUILDER = "src/compiler/loops/kernel_builder.cpp"
FINISH = "src/compiler/loops/kernel_finish.cpp"
SCHEDULE = "src/compiler/loops/schedule.cpp"
EMIT = "src/backends/cpu/emit/emit_llvm.cpp"
EMIT_BLOCKS = "src/backends/cpu/emit/emit_blocks.cpp"
EMIT_SUMS = "src/backends/cpu/emit/emit_sums.cpp"
COMMAND = "src/backends/cpu/kernel_command.cpp"
PLAN = "src/compiler/loops/memory_plan.cpp"
INTERPRETER = "src/backends/cpu/interpret/kernel_interpreter.cpp"

FUZZER = "tools/fuzz/hammock-fuzz"
TESTS = "tests/backends/cpu/cpu_backend_tests"

# name, what is broken, file, old text, new text, and who has to notice: the fuzzer with these tiers, or tests
MUTATIONS = [
    ("same_index", "values are joined wherever they lie", BUILDER,
     "  if (a.offset != b.offset) return false;\n", "  return true;\n", "--interpreted"),
    ("flat_stride", "row-major strides are off by one", BUILDER,
     "    stride *= sizes[d];\n  }\n  return flat;", "    stride = stride * sizes[d] + 1;\n  }\n  return flat;",
     "--interpreted"),
    ("slice_offset", "slices begin at 0", BUILDER,
     'moved.offset = node.attr("start").integer();', "moved.offset = 0;", "--interpreted"),
    ("flip_offset", "flips begin at 0 and go backward", BUILDER,
     "flipped.offset = from[static_cast<int>(d)] - 1;", "flipped.offset = 0;", "--interpreted"),
    ("permute_inverse", "permutes go the other way", BUILDER,
     "inner[dims[i]] = indices[i];", "inner[i] = indices[dims[i]];",
     "--interpreted"),
    ("broadcast_full", "stretched dims are stepped through", BUILDER,
     "if (from[d] != 1) inner[i]", "if (from[d] >= 0) inner[i]", "--interpreted"),
    ("reshape_range", "indices that carry into the next dim are taken for in range", BUILDER,
     "if (least < 0 || most >= inner) {", "if (least < 0) {", "--interpreted"),
    ("split_coefficient", "a split loop keeps its stride", BUILDER,
     "    index.Add(loop, coefficient * (inner - 1));\n", "", "--interpreted"),
    ("uneven_loops", "loops become one whatever the strides are", FINISH,
     "      return access.address.of(groups.all.back().last) == access.address.of(loop) * next.extent;",
     "      return access.address.of(loop) * next.extent >= 0 || groups.all.empty();",
     "--interpreted"),
    ("stage_order", "scratch memory is read before it is written", FINISH,
     "    store.stage = nest.stage;\n", "    store.stage = nest.stage + (nest.kept && !nest.row);\n",
     "--interpreted"),
    ("accumulator", "every second element of a strip is left out", EMIT,
     "loop(number, kAccumulators);", "loop(number, 2 * kAccumulators);", "--compiled"),
    ("tail_mask", "a lane too many at the end", EMIT_BLOCKS,
     '"icmp sgt {} {}, {}", type, all', '"icmp sge {} {}, {}", type, all', "--compiled"),
    ("sum_mask", "lanes behind the end are summed", EMIT_SUMS,
     "spot.lanes, spot.mask, type, next, type, sum);",
     "spot.lanes, spot.mask, type, next, type, next);", "--compiled"),
    ("shared_scratch", "threads share scratch memory", COMMAND,
     "scratch + worker * worker_scratch_", "scratch + 0 * worker * worker_scratch_", "CommandGroups.*"),
    ("lifetime", "buffers are free one command before they are read last", PLAN,
     "for (BufferId buffer : schedule.commands[i].reads) last_use[buffer] = last;",
     "for (BufferId buffer : schedule.commands[i].reads) last_use[buffer] = last - 1;",
     "--interpreted"),
    ("shared_buffer", "what only passes bytes on has a buffer of its own that nobody writes", SCHEDULE,
     "schedule.buffer_of[command.writes[0]] = source;", "(void)source;", "--interpreted"),
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


def program_of(tiers):
    return FUZZER if tiers.startswith("--") else TESTS


def link_command(build, program):
    lines = subprocess.run(["ninja", "-C", build, "-t", "commands", os.path.basename(program)], check=True,
                           capture_output=True, text=True).stdout.splitlines()
    return [line for line in lines if f" -o {program} " in line][-1]


def text_of(source):
    with open(os.path.join(ROOT, source)) as file:
        return file.read()


def make_mutant(build, source, old, new, original_program, folder):
    text = text_of(source)
    if text.count(old) != 1:
        print(f"{source} has the text {text.count(old)} times that is to be changed: {old!r}", file=sys.stderr)
        sys.exit(2)
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
    link = link_command(build, original_program)
    link = re.sub(r"(?<= )" + re.escape(original) + r"(?= )", compiled, link)
    link = link.replace(f" -o {original_program} ", f" -o {program} ")
    subprocess.run(link, cwd=build, shell=True, check=True)
    return program


GRAPHS = {"--interpreted": 4000, "--compiled": 1500}


def run(program, tiers, seconds, folder):
    """Whether it fails, and the seed or the tests."""
    if not tiers.startswith("--"):
        done = subprocess.run([program, "--gtest_filter=" + tiers], capture_output=True, timeout=seconds)
        return ("fails" if done.returncode else "not noticed"), tiers
    graphs = GRAPHS[tiers]
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
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="the build folder (build)")
    parser.add_argument("--list", action="store_true", help="print the names, look for the texts, and leave")
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutations (all)")
    arguments = parser.parse_args()
    known = [mutation[0] for mutation in MUTATIONS]
    if arguments.list:
        gone = [name for name, _, source, old, *_ in MUTATIONS if text_of(source).count(old) != 1]
        print("\n".join(name + (": its text is gone" if name in gone else "") for name in known))
        return 2 if gone else 0
    for name in arguments.names:
        if name not in known:
            parser.error(f"no mutation {name}; there are {', '.join(known)}")
    build = os.path.abspath(arguments.build)
    chosen = [m for m in MUTATIONS if not arguments.names or m[0] in arguments.names]
    for tiers in sorted({mutation[5] for mutation in chosen}):
        with tempfile.TemporaryDirectory() as folder:
            how, seed = run(os.path.join(build, program_of(tiers)), tiers, 1800, folder)
        if how != "not noticed":
            print(f"the right program {how} with {tiers} at seed {seed}", file=sys.stderr)
            return 2
    missed = 0
    print("| mutation | what is broken | noticed | by seed | seconds |\n|---|---|---|---|---|")
    for name, what, source, old, new, tiers in chosen:
        with tempfile.TemporaryDirectory() as folder:
            program = make_mutant(build, source, old, new, program_of(tiers), folder)
            start = time.time()
            how, seed = run(program, tiers, 600, folder)
            missed += how == "not noticed"
            print(f"| {name} | {what} | {how} | {seed} | {time.time() - start:.1f} |", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
