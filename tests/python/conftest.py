import numpy
import pytest

import hammock


@pytest.fixture(autouse=True)
def in_examples(doctest_namespace):
    doctest_namespace["hm"] = hammock
    doctest_namespace["np"] = numpy
    hammock.manual_seed(0)
