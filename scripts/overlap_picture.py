#!/usr/bin/env python3
"""Draws a step of several ranks, by their profiles, as SVG: kernels, and collectives in rows of their own.

  HAMMOCK_PROFILE_FILE=profile.%p.json hammock launch -n 2 program
  overlap_picture.py OUT.svg profile.*.json        profiles of processes without collectives are left out

The step is the shortest one, which other programs of the machine have disturbed least."""

import html
import json
import re
import sys

COLLECTIVE = re.compile(r"all_reduce|all_gather|reduce_scatter|all_to_all|collective")
COLOURS = {"matmul": "#3465a4", "other": "#babdb6", "collective": "#f57900"}
LEFT, WIDTH, ROW = 150, 860, 24


def read(path):
    """Runs and kernels of a profile: (name, begin, end) in microseconds of the host's clock."""
    with open(path) as file:
        events = json.load(file)
    start = next(e["args"]["started_us"] for e in events if e.get("name") == "hammock_profile")
    spans = lambda kind: [(e["name"], start + e["ts"], start + e["ts"] + e["dur"]) for e in events
                          if e.get("ph") == "X" and e.get("cat") == kind]
    return spans("execute"), spans("kernel")


def kind_of(name):
    if COLLECTIVE.search(name):
        return "collective"
    return "matmul" if "dot" in name or "matmul" in name else "other"


def steps_of(runs, kernels):
    """Runs with matmuls and several collectives, each with its kernels."""
    def inside(run):
        return [k for k in kernels if run[1] <= k[1] and k[2] <= run[2]]
    found = [(run, inside(run)) for run in runs]
    count = lambda own, kind: sum(kind_of(k[0]) == kind for k in own)
    return [(run, own) for run, own in found if count(own, "collective") > 1 and count(own, "matmul") > 0]


def main():
    out, paths = sys.argv[1], sys.argv[2:]
    ranks = [steps for steps in (steps_of(*read(path)) for path in paths) if steps]
    if not ranks:
        sys.exit("no run of the profiles has several collectives")
    # Steps of ranks belong together from the last one backward.
    count = min(len(steps) for steps in ranks)
    together = list(zip(*(steps[-count:] for steps in ranks)))
    chosen = min(together, key=lambda step: max(run[2] for run, _ in step) - min(run[1] for run, _ in step))
    begin = min(own[0][1] for _, own in chosen)
    end = max(max(k[2] for k in own) for _, own in chosen)
    scale = WIDTH / (end - begin)
    text = lambda x, y, words, more="": f'<text x="{x:.1f}" y="{y:.1f}" {more}>{html.escape(words)}</text>'
    parts, y = [], 40
    for i, (label, kind) in enumerate([("matmuls", "matmul"), ("other kernels", "other"), ("collectives", "collective")]):
        parts.append(f'<rect x="{LEFT + 150 * i}" y="10" width="12" height="12" fill="{COLOURS[kind]}"/>')
        parts.append(text(LEFT + 18 + 150 * i, 20, label))
    for rank, (_, own) in enumerate(chosen):
        for row, wanted in ((f"rank {rank}: kernels", False), ("collectives", True)):
            parts.append(text(LEFT - 8, y + ROW / 2 + 4, row, 'text-anchor="end"'))
            parts.append(f'<rect x="{LEFT}" y="{y}" width="{WIDTH}" height="{ROW - 4}" fill="#f4f4f2"/>')
            for name, first, last in own:
                kind = kind_of(name)
                if (kind == "collective") != wanted:
                    continue
                x, length = LEFT + (first - begin) * scale, max((last - first) * scale, 0.4)
                title = html.escape(f"{name}: {(last - first) / 1000:.2f} ms")
                parts.append(f'<rect x="{x:.1f}" y="{y}" width="{length:.1f}" height="{ROW - 4}" '
                             f'fill="{COLOURS[kind]}" stroke="white" stroke-width="0.3"><title>{title}</title></rect>')
            y += ROW
        y += 10
    for i in range(6):
        at = (end - begin) * i / 5
        parts.append(text(LEFT + at * scale, y + 8, f"{at / 1000:.1f} ms", 'text-anchor="middle" font-size="10"'))
    svg = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 40}" height="{y + 18}" '
           'font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="white"/>\n'
           + "\n".join(parts) + "\n</svg>\n")
    with open(out, "w") as file:
        file.write(svg)


if __name__ == "__main__":
    main()
