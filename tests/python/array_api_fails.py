"""Compares reports of the array API's suite with the list of tests that fail, and with array_api_strict's reports:
array_api_fails.py LIST REPORT..., where the names of array_api_strict's reports say so."""

import collections
import json
import sys

DIFFERS = "differs from array_api_strict"


class Outcomes:
    """What happened to each test in some runs."""

    def __init__(self, paths):
        self.runs = len(paths)
        self.ran, self.failed, self.passed = collections.Counter(), collections.Counter(), 0
        for path in paths:
            for test in json.load(open(path))["tests"]:
                name = test["nodeid"].removeprefix("array_api_tests/")
                self.failed[name] += test["outcome"] in ("failed", "error")
                self.passed += test["outcome"] == "passed"
                self.ran[name] += test["outcome"] != "skipped"
        self.failed = +self.failed  # without zeros

    def __str__(self):
        return f"{self.passed // self.runs} of {len(+self.ran)} tests pass in each of {self.runs} runs"


def reasons_of(path):
    reasons = {}
    for line in open(path):
        if line.strip() and not line.startswith("#"):
            test, _, reason = line.strip().partition("  # ")
            assert reason, f"{path}: no reason for {test}"
            reasons[test] = reason
    return reasons


def main(list_path, *report_paths):
    reasons = reasons_of(list_path)
    strict = Outcomes([path for path in report_paths if "array_api_strict" in path])
    ours = Outcomes([path for path in report_paths if "array_api_strict" not in path])
    wrong = []
    for test in sorted(ours.failed.keys() - reasons.keys()):
        wrong.append(f"fails and is not in {list_path}: {test}")
    for test, reason in sorted(reasons.items()):
        if not ours.ran[test]:
            continue
        if not ours.failed[test]:
            wrong.append(f"passes and is still in {list_path}: {test}")
        elif ours.failed[test] < ours.ran[test] and not reason.startswith("sometimes"):
            wrong.append(f"fails in {ours.failed[test]} of {ours.ran[test]} runs, but its reason does not begin with 'sometimes': {test}")
    for test in sorted(ours.failed.keys() - strict.failed.keys()):
        if DIFFERS not in reasons.get(test, ""):
            wrong.append(f"fails where array_api_strict passes, and its reason does not say '{DIFFERS}': {test}")
    print("\n".join(wrong + [f"hammock: {ours}; {len(ours.failed.keys() & reasons.keys())} fail for known reasons",
                           f"array_api_strict: {strict}"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
