import pathlib
import sys

import numpy
import pytest

import hammock

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "nn"))  # module_cases
collect_ignore = ["wheel.py", "array_api_fails.py"]  # programs


@pytest.fixture(autouse=True)
def in_examples(doctest_namespace):
    doctest_namespace["hm"] = hammock
    doctest_namespace["np"] = numpy
    hammock.manual_seed(0)
