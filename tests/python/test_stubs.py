"""Type stubs are made from the records and fit the examples."""

import ast
import pathlib
import subprocess
import sys

import pytest

from hammock import _stubs

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_stubs_are_fresh():
    path = ROOT / "python" / "hammock" / "__init__.pyi"
    assert path.read_text() == _stubs.stubs(), f"run: python -m hammock._stubs > {path.relative_to(ROOT)}"


def test_mypy_accepts_uses_and_finds_mistakes(tmp_path):
    pytest.importorskip("mypy")
    program = tmp_path / "program.py"
    program.write_text('''
import hammock as hm
from hammock import nn, optim

x = hm.tensor([[1.0, 2.0], [3.0, 4.0]])
y: hm.Tensor = x.sum(dim=1, keepdim=True) + 2 * x - x @ x
values, indices = x.max(1)
shape: tuple[int, ...] = x.view(2, -1).shape
w = hm.zeros(2, 3, dtype=hm.float64).to("cpu")
hm.softmax(x, dim=1).relu_()
net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
optimizer = optim.SGD(net.parameters(), lr=0.1)
x.softmax(1, dim="a")  # wrong
x.sum(dimm=1)  # wrong
number: str = x.ndim  # wrong
''')
    done = subprocess.run([sys.executable, "-m", "mypy", "--follow-imports=silent", "--no-incremental", "--cache-dir=/dev/null", program],
                          capture_output=True, text=True, cwd=tmp_path)
    lines = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    wrong = {n + 1 for n, line in enumerate(program.read_text().splitlines()) if "# wrong" in line}
    assert lines == wrong, done.stdout + done.stderr


def test_the_package_has_the_syntax_of_python_3_9():
    for path in (ROOT / "python" / "hammock").rglob("*.py"):
        tree = ast.parse(path.read_text(), str(path), feature_version=(3, 9))
        # Annotations of functions are values in 3.9, which has no `int | None`.
        notes = [getattr(node, name, None) for node in ast.walk(tree) for name in ("annotation", "returns")]
        assert not any(isinstance(part, ast.BinOp) for note in notes if note for part in ast.walk(note)), path
