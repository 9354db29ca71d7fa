"""Compares reports of the array API's suite with the list of tests that fail: array_api_fails.py LIST REPORT..."""

import json
import sys


def main(list_path, *report_paths):
    reasons = {}
    for line in open(list_path):
        if line.strip() and not line.startswith("#"):
            test, _, reason = line.strip().partition("  # ")
            assert reason, f"{list_path}: no reason for {test}"
            reasons[test] = reason
    ran, failed, passed = set(), set(), 0
    for path in report_paths:
        for test in json.load(open(path))["tests"]:
            name = test["nodeid"].removeprefix("array_api_tests/")
            if test["outcome"] in ("failed", "error"):
                failed.add(name)
            passed += test["outcome"] == "passed"
            if test["outcome"] != "skipped":
                ran.add(name)
    for test in sorted(failed - reasons.keys()):
        print(f"fails and is not in {list_path}: {test}")
    always = {test for test, reason in reasons.items() if not reason.startswith("sometimes")}
    stale = (always & ran) - failed
    for test in sorted(stale):
        print(f"passes and is still in {list_path}: {test}")
    runs = len(report_paths)
    print(f"{passed // runs} of {len(ran)} tests pass in each of {runs} runs; {len(failed & reasons.keys())} fail for known reasons")
    return 1 if stale or failed - reasons.keys() else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
