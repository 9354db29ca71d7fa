"""The examples of the pages run, and so do those of docstrings."""

import doctest
import importlib
import pathlib
import re

import pytest

import hammock

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("page", ["docs/python.md", "docs/onnx.md", "README.md"])
def test_examples_of_pages_run(page, capsys):
    if page == "docs/onnx.md" and hammock._hammock.onnx_why_absent():
        pytest.skip("there is no plug-in for ONNX files")
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)
    assert blocks
    names = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"{page}, block {number}", "exec"), names)


def modules_with_examples():
    package = pathlib.Path(hammock.__file__).parent
    for path in sorted(package.rglob("*.py")):
        if ">>> " in path.read_text():
            yield ".".join(["hammock", *path.relative_to(package).with_suffix("").parts]).removesuffix(".__init__")


@pytest.mark.parametrize("name", [*modules_with_examples()])
def test_docstrings_run(name):
    module = importlib.import_module(name)
    result = doctest.testmod(module, extraglobs={"hm": hammock})
    assert result.attempted > 0 and result.failed == 0


def test_modules_with_examples_are_found():
    assert {"hammock", "hammock.linalg", "hammock.special", "hammock.sparse", "hammock.nn.module"} <= set(modules_with_examples())
