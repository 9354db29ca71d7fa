"""The verdict of array_api_fails.py on reports and a list of reasons."""

import json

import array_api_fails
import pytest


@pytest.fixture
def verdict(tmp_path, capsys):
    """Whether the program fails, and what it prints: of the list, and of the outcomes of runs of ours and array_api_strict."""

    def run(reasons, ours, strict):
        (tmp_path / "list.txt").write_text("# a comment\n" + "".join(f"{test}  # {reason}\n" for test, reason in reasons.items()))
        paths = []
        for name, runs in (("hammock.array_api", ours), ("array_api_strict", strict)):
            for seed, outcomes in enumerate(runs):
                paths.append(tmp_path / f"{name}-{seed}.json")
                tests = [{"nodeid": "array_api_tests/" + test, "outcome": outcome} for test, outcome in outcomes.items()]
                paths[-1].write_text(json.dumps({"tests": tests}))
        return array_api_fails.main(str(tmp_path / "list.txt"), *map(str, paths)), capsys.readouterr().out

    return run


PASS, FAIL = {"a": "passed", "b": "passed"}, {"a": "failed", "b": "passed"}


def test_all_is_well(verdict):
    assert verdict({}, [PASS], [PASS]) == (0, "hammock: 2 of 2 tests pass in each of 1 runs; 0 fail for known reasons\n"
                                              "array_api_strict: 2 of 2 tests pass in each of 1 runs\n")
    assert verdict({"a": "why"}, [FAIL, FAIL], [FAIL, PASS])[0] == 0
    assert verdict({"a": "sometimes; why"}, [PASS, FAIL], [FAIL, FAIL])[0] == 0
    assert verdict({"a": "why"}, [{"a": "skipped"}], [PASS])[0] == 0  # a part of the suite was run


def test_a_failure_needs_a_reason(verdict):
    failed, text = verdict({}, [FAIL], [FAIL])
    assert failed and "fails and is not in" in text


def test_a_failure_that_array_api_strict_passes_needs_a_reason_that_says_so(verdict):
    failed, text = verdict({"a": "tensors have few dims"}, [FAIL], [PASS])
    assert failed and "fails where array_api_strict passes" in text
    assert verdict({"a": "differs from array_api_strict: tensors have few dims"}, [FAIL], [PASS])[0] == 0


def test_stale_entries_are_found(verdict):
    for reason in ("why", "sometimes; why"):
        failed, text = verdict({"a": reason}, [PASS, PASS, PASS], [FAIL])
        assert failed and "passes and is still in" in text
    failed, text = verdict({"a": "why"}, [PASS, FAIL], [FAIL])
    assert failed and "fails in 1 of 2 runs" in text
