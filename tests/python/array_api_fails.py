"""Compares reports of the array API's suite with the list of tests that fail, and with array_api_strict's reports:
array_api_fails.py LIST REPORT..., where the names of array_api_strict's reports say so."""

import json
import sys


class Outcomes:
    """What happened to each test in some runs."""

    def __init__(self, paths):
        self.runs = len(paths)
        self.ran, self.failed, self.passed = set(), set(), 0
        for path in paths:
            for test in json.load(open(path))["tests"]:
                name = test["nodeid"].removeprefix("array_api_tests/")
                if test["outcome"] in ("failed", "error"):
                    self.failed.add(name)
                self.passed += test["outcome"] == "passed"
                if test["outcome"] != "skipped":
                    self.ran.add(name)

    def __str__(self):
        return f"{self.passed // self.runs} of {len(self.ran)} tests pass in each of {self.runs} runs"


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
    unknown = ours.failed - reasons.keys()
    for test in sorted(unknown):
        print(f"fails and is not in {list_path}: {test}")
    always = {test for test, reason in reasons.items() if not reason.startswith("sometimes")}
    stale = (always & ours.ran) - ours.failed
    for test in sorted(stale):
        print(f"passes and is still in {list_path}: {test}")
    for test in sorted(ours.failed - strict.failed):
        print(f"fails where array_api_strict passes: {test}: {reasons.get(test, 'for no known reason')}")
    print(f"hammock: {ours}; {len(ours.failed & reasons.keys())} fail for known reasons\narray_api_strict: {strict}")
    return 1 if stale or unknown else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
