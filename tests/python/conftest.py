import numpy
import pytest

import hammock

collect_ignore = ["wheel.py", "array_api_fails.py"]  # programs


@pytest.fixture(autouse=True)
def in_examples(doctest_namespace):
    doctest_namespace["hm"] = hammock
    doctest_namespace["np"] = numpy
    hammock.manual_seed(0)
