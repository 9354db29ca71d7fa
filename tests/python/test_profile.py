"""Profiles, activity, repro files."""

import json
import os
import subprocess
import sys

import pytest

import hammock as hm


def test_spans_and_marks_are_in_the_profile(tmp_path):
    path = tmp_path / "run.json"
    assert not hm.profile.is_on()
    with hm.profile.span("before"):  # costs nothing
        pass
    hm.profile.start(str(path))
    try:
        assert hm.profile.is_on()
        with pytest.raises(ValueError):
            hm.profile.start(str(tmp_path / "other.json"))

        @hm.profile.span("train", "mine", epoch=3, kind="short", done=True)
        def train():
            return (hm.ones(4) * 3).sum().item()

        assert train() == 12 and train() == 12
        hm.profile.mark("half way")
    finally:
        hm.profile.stop()
    events = json.loads(path.read_text())
    events = events["traceEvents"] if isinstance(events, dict) else events
    spans = [event for event in events if event.get("name") == "train"]
    assert len({event["ts"] for event in spans}) >= 2 and any(event.get("cat") == "mine" for event in spans)
    facts = {key: value for event in spans for key, value in event.get("args", {}).items()}
    assert (facts["epoch"], facts["kind"], facts["done"]) == (3, "short", "True")
    names = {event.get("name") for event in events}
    assert "half way" in names and "before" not in names


def test_activity_counts_the_work_of_a_block():
    x = hm.ones(5)
    with hm.Activity() as activity:
        (x * 2 + 1).tolist()
        hm.mark_step()
    totals = activity.totals()
    (x * 7 - 2).tolist()
    assert totals.steps == 1 and totals.ops_traced >= 2 and totals.seconds > 0
    assert activity.totals().ops_traced == totals.ops_traced and hm.Activity().totals().ops_traced == 0
    assert "ops_traced" in json.loads(totals.to_json()) and str(totals)


def test_repro_files_run_elsewhere(tmp_path):
    path = str(tmp_path / "bad.repro")
    x = hm.tensor([1.0, 2.0, 3.0])
    y, z = x * 2 + 1, x.sum()
    hm.save_repro(path, [y, z])
    program = "import hammock as hm, sys; print([t.tolist() for t in hm.run_repro(sys.argv[1], 'reference')])"
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, env=dict(os.environ))
    assert done.stdout == "[[3.0, 5.0, 7.0], 6.0]\n", done.stderr
    assert [str(t.device) for t in hm.run_repro(path, device="reference")] == ["reference:0"] * 2
    with open(path, "r+b") as file:
        file.seek(40)
        file.write(b"????")
    with pytest.raises(ValueError):
        hm.run_repro(path)
    with pytest.raises(TypeError):
        hm.save_repro(path, [3])
