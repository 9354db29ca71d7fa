"""The programs of examples/python do what they say."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"


def run(name, *arguments, monkeypatch):
    spec = importlib.util.spec_from_file_location("example_" + name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    return module.main()


def test_classifier_learns_and_shows_its_progress(monkeypatch, capsys):
    assert run("classifier", "--drawn", "--images", "600", "--epochs", "4", monkeypatch=monkeypatch) > 0.6
    shown = capsys.readouterr()
    assert "[##############################] 12/12 epoch 4" in shown.err and "new images are right" in shown.out


def test_gpt_learns_and_writes(monkeypatch, capsys):
    first, last = run("gpt", "--steps", "20", "--write", "5", monkeypatch=monkeypatch)
    assert last < first - 0.5


def test_kmeans_finds_centres(monkeypatch):
    assert run("kmeans", "--points", "2000", monkeypatch=monkeypatch) < 0.1


def test_outside_backend_is_loaded_by_name():
    program = [sys.executable, str(FOLDER / "outside_backend.py")]
    alone = subprocess.run(program, capture_output=True, text=True, env={**os.environ, "HAMMOCK_LOAD": ""})
    assert alone.returncode == 1 and "no device but Hammock's own" in alone.stderr
    library = os.environ.get("TOY_BACKEND", "")
    if not os.path.exists(library):
        pytest.skip("the toy backend is not built")
    done = subprocess.run(program, capture_output=True, text=True, env={**os.environ, "HAMMOCK_LOAD": library})
    assert "and cpu agree: True" in done.stdout, done.stderr


def test_fine_tuning_of_pytorchs_weights(monkeypatch):
    pytest.importorskip("torch")
    before, after = run("fine_tune", monkeypatch=monkeypatch)
    assert after < before


def kinds(notebook):
    """What each cell shows: texts, tables and pictures, not what is in them."""
    return [[(output.output_type, sorted(output.get("data", {}))) for output in cell.outputs]
            for cell in notebook.cells if cell.cell_type == "code"]


def test_notebook_runs_and_shows_what_is_stored(tmp_path):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    path = FOLDER / "tour.ipynb"
    stored, notebook = nbformat.read(path, as_version=4), nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", record_timing=False)
    client.execute(cwd=str(tmp_path))
    shown = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not any(output.output_type == "error" for output in shown)
    if os.environ.get("UPDATE_DOCS"):
        notebook.metadata = stored.metadata
        nbformat.write(notebook, path)
        stored = notebook
    assert kinds(stored) == kinds(notebook), "run it anew: UPDATE_DOCS=1 tests/python/run.sh build -k notebook"
    pictures = [output["data"]["image/svg+xml"] for cell in stored.cells if cell.cell_type == "code"
                for output in cell.outputs if "image/svg+xml" in output.get("data", {})]
    assert pictures and all(picture.startswith("<svg") and "<polyline" in picture for picture in pictures)
    assert [cell.execution_count for cell in stored.cells if cell.cell_type == "code"] == list(range(1, len(kinds(stored)) + 1))


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_type_checkers_accept_the_examples(checker):
    pytest.importorskip(checker)
    if checker == "pyright":
        settings = ["--pythonpath", sys.executable]
    else:
        settings = ["--follow-imports=silent", "--ignore-missing-imports", "--cache-dir=/dev/null"]
    names = ["classifier", "gpt", "kmeans", "outside_backend"]
    done = subprocess.run([sys.executable, "-m", checker, *settings, *[str(FOLDER / f"{name}.py") for name in names]],
                          capture_output=True, text=True)
    if checker == "pyright" and "error" not in done.stdout and done.returncode != 0:
        pytest.skip("pyright cannot be started: " + done.stderr[-200:])
    assert done.returncode == 0, done.stdout + done.stderr
