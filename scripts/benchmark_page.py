#!/usr/bin/env python3
"""Makes docs/benchmarks.md and its pictures of the runs in docs/benchmarks/*.json (bench/models/compare.py).

  benchmark_page.py [--check]      --check: fails where a file is not what would be written"""

import glob
import html
import itertools
import json
import os
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
FOLDER = os.path.join(ROOT, "docs", "benchmarks")
OUR_COLOURS = ["#3465a4", "#204a87", "#729fcf"]
PEER_COLOURS = ["#babdb6", "#888a85", "#d3d7cf"]
HEAD = """# Benchmarks
Whole models beside the same ones in PyTorch, on one machine and in one run each: [bench/models](../bench/models/compare.py) has the
programs, `bench/models/compare.py` runs them, `scripts/benchmark_page.py` makes this page of what they wrote. Times are medians of
a step in milliseconds, smaller is better; *min* is the fastest one, *first* the time to the first result, compilation included.
*Recorded* is a program that calls `step`, *compiled* one that calls `compile`. PyTorch has channels-last convolutions and the fused
optimiser; its `torch.compile` has the default mode, and `mode="reduce-overhead"` (CUDA graphs) in decoding only: training with small
batches, which the host limits, may be faster with that mode than shown here. The ratio is the best peer's time over our best, by medians.
"""


def ours(side):
    return side.startswith("Hammock")


def grouped(run):
    rows = {}
    for result in run["results"]:
        rows.setdefault(result["row"], {})[result["side"]] = result
    return rows


def sides_of(run):
    names = {result["side"] for result in run["results"] if "ms" in result}
    return sorted(names, key=lambda name: (not ours(name), not name.endswith("recorded"), name))


def ratio(sides):
    times = lambda wanted: [r["ms"] for s, r in sides.items() if "ms" in r and ours(s) == wanted]
    if not times(True) or not times(False):
        return None
    return min(times(False)) / min(times(True))


def number(value):
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def cell(result):
    if result is None or "ms" not in result:
        return "-"
    text = f"{number(result['ms'])} (min {number(result['min'])}, first {number(result['first'] / 1e3)} s"
    if result.get("peak"):
        text += f", {number(result['peak'] / 2**30)} GiB"
    return text + ")"


def table(run):
    sides = sides_of(run)
    lines = ["| model | " + " | ".join(sides) + " | ratio |", "|---" * (len(sides) + 2) + "|"]
    for row, results in grouped(run).items():
        value = ratio(results)
        cells = [cell(results.get(side)) for side in sides]
        lines.append(f"| {row} | " + " | ".join(cells) + f" | {f'{value:.2f}x' if value else '-'} |")
    return "\n".join(lines)


def colours_of(sides):
    """Ours are blue, peers grey."""
    left = {True: itertools.cycle(OUR_COLOURS), False: itertools.cycle(PEER_COLOURS)}
    return {side: next(left[ours(side)]) for side in sides}


def picture(run):
    """Bars of the times of each row, relative to that of the best peer."""
    sides, rows = sides_of(run), grouped(run)
    colours = colours_of(sides)
    left, width, bar, gap = 270, 400, 14, 16
    text = lambda x, y, words, more="": f'<text x="{x}" y="{y}" {more}>{html.escape(words)}</text>'
    parts = []
    for i, side in enumerate(sides):  # the legend, three to a line
        x, y = 20 + 250 * (i % 3), 10 + 18 * (i // 3)
        parts.append(f'<rect x="{x}" y="{y}" width="12" height="12" fill="{colours[side]}"/>')
        parts.append(text(x + 18, y + 10, side))
    top = y = 22 + 18 * -(-len(sides) // 3)
    for row, results in rows.items():
        known = [r["ms"] for s, r in results.items() if "ms" in r and not ours(s)]
        known = known or [r["ms"] for r in results.values() if "ms" in r]
        if not known:
            continue
        height = bar * len(sides)
        parts.append(text(left - 8, y + height / 2 + 4, row, 'text-anchor="end"'))
        for side in sides:
            result = results.get(side, {})
            if "ms" in result:
                relative = result["ms"] / min(known)
                length = min(relative, 2.5) / 2.5 * width
                parts.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{bar - 2}" fill="{colours[side]}"/>')
                beyond = "" if relative <= 2.5 else f", {relative:.1f}x"
                parts.append(text(round(left + length + 5, 1), y + bar - 3, f"{number(result['ms'])} ms{beyond}", 'font-size="10"'))
            y += bar
        y += gap
    line = left + width / 2.5
    parts.append(f'<line x1="{line}" y1="{top - 8}" x2="{line}" y2="{y - gap}" stroke="#555" stroke-dasharray="3,3"/>')
    parts.append(text(line, y + 2, "best peer", 'text-anchor="middle" font-size="10"'))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 110}" height="{y + 12}" '
            'font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="white"/>\n'
            + "\n".join(parts) + "\n</svg>\n")


def section(name, run):
    where = run["machine"] if run["device"] != "cpu" else f"{run['machine']}, {run['threads']} threads"
    busy = f" Others used the machine meanwhile (load {run['load']:.1f})." if run["load"] > run["threads"] + 0.5 else ""
    note = f" {run['note']}" if "note" in run else busy  # a note says who
    return (f"\n## {where}\n{run['date']}.{note}\n\n![times beside the best peer's](benchmarks/{name}.svg)\n\n"
            f"{table(run)}\n")


def main():
    files, page = {}, HEAD
    for path in sorted(glob.glob(os.path.join(FOLDER, "*.json"))):
        name = os.path.splitext(os.path.basename(path))[0]
        with open(path) as file:
            run = json.load(file)
        page += section(name, run)
        files[os.path.join(FOLDER, name + ".svg")] = picture(run)
    files[os.path.join(ROOT, "docs", "benchmarks.md")] = page
    stale = []
    for path, content in files.items():
        before = open(path).read() if os.path.exists(path) else None
        if before == content:
            continue
        stale.append(os.path.relpath(path, ROOT))
        if "--check" not in sys.argv:
            with open(path, "w") as file:
                file.write(content)
    if stale and "--check" in sys.argv:
        sys.exit("not what scripts/benchmark_page.py makes of docs/benchmarks/*.json: " + ", ".join(stale))


if __name__ == "__main__":
    main()
