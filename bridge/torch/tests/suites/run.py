"""Runs PyTorch's own tests of lazy tensors and delegates on Hammock's, in strict mode, each file in a process of its own.

  run.py SOURCE BUILD EXPECTED

SOURCE has PyTorch's tests, BUILD is a build folder of the bridge, EXPECTED a list: how many tests of each file pass, and
which do not. Whatever differs from it is an error, also a test that passes now.
"""

import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PYTHON_FILES = [
    "test/lazy/test_ts_opinfo.py", "test/lazy/test_reuse_ir.py", "test/lazy/test_step_closures.py",
    "test/lazy/test_extract_compiled_graph.py", "test/jit/test_backends.py",
]  # fmt: skip


class Outcomes(unittest.TestResult):
    """What became of each test by its name."""

    def __init__(self):
        super().__init__()
        self.outcomes = {}

    def note(self, test, outcome):
        self.outcomes[test.id().partition(".")[2]] = outcome

    def addSuccess(self, test):
        self.note(test, "passed")

    def addSkip(self, test, reason):
        self.note(test, "skipped")

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.note(test, "failed")

    def addError(self, test, error):
        super().addError(test, error)
        self.note(test, "failed")

    def addExpectedFailure(self, test, error):
        self.note(test, "expected_failure")

    def addUnexpectedSuccess(self, test):
        self.note(test, "unexpected_success")


def run_file(path, libraries, results):
    """Of a process of its own: the tests of a file in Python, on Hammock's backends."""
    sys.argv = [path]  # PyTorch's tests read it
    import torch  # noqa: F401
    import torch._lazy.ts_backend
    from torch.testing._internal import common_utils

    import hammock_torch

    torch._lazy.ts_backend.init = hammock_torch.lazy.init
    common_utils.find_library_location = lambda name: pathlib.Path(libraries) / name
    spec = importlib.util.spec_from_file_location(pathlib.Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    text = re.sub(r"\btest_backend\b", "hammock", pathlib.Path(path).read_text())
    exec(compile(text, path, "exec"), module.__dict__)
    outcomes = Outcomes()
    unittest.defaultTestLoader.loadTestsFromModule(module).run(outcomes)
    for test, error in outcomes.failures + outcomes.errors:
        print(f"{test.id()}\n{error}")
    pathlib.Path(results).write_text(json.dumps(outcomes.outcomes))


def python_outcomes(path, build):
    with tempfile.NamedTemporaryFile() as results:
        libraries = build / "tests" / "suites"
        command = [sys.executable, "-B", "-W", "ignore", __file__, "--file", str(path), str(libraries), results.name]
        log = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
        text = pathlib.Path(results.name).read_text()
    return (json.loads(text) if text else {"file": "failed"}), log


def cpp_outcomes(build):
    with tempfile.NamedTemporaryFile() as results:
        command = [build / "tests" / "suites" / "upstream_lazy_tests", f"--gtest_output=json:{results.name}"]
        log = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
        text = pathlib.Path(results.name).read_text()
    outcomes = {}
    for suite in json.loads(text)["testsuites"] if text else []:
        for test in suite["testsuite"]:
            skipped = test["result"] == "SKIPPED"
            outcome = "failed" if "failures" in test else "skipped" if skipped else "passed"
            outcomes[f"{suite['name']}.{test['name']}"] = outcome
    return outcomes or {"file": "failed"}, log


def listing(file, outcomes):
    passed = sum(outcome == "passed" for outcome in outcomes.values())
    others = sorted(f"{file} {test} {outcome}" for test, outcome in outcomes.items() if outcome != "passed")
    return [f"{file} passed {passed}", *others]


def main():
    source, build, expected = map(pathlib.Path, sys.argv[1:])
    wanted = [line for line in expected.read_text().splitlines() if line and not line.startswith("#")]
    files = {line.split()[0] for line in wanted}
    os.environ["HAMMOCK_TORCH_STRICT"] = "1"
    os.environ["PYTHONPATH"] = os.pathsep.join([str(build / "python"), os.environ.get("PYTHONPATH", "")])
    found = []
    for path in ["test/cpp/lazy", *PYTHON_FILES]:
        if path not in files:
            continue
        outcomes, log = cpp_outcomes(build) if path == "test/cpp/lazy" else python_outcomes(source / path, build)
        lines = listing(path, outcomes)
        print(lines[0], f"others {len(lines) - 1}", flush=True)
        if set(lines) - set(wanted):
            print(log[-20000:])
        found += lines
    for line in sorted(set(found) - set(wanted)):
        print("differs:", line)
    for line in sorted(set(wanted) - set(found)):
        print("expected:", line)
    sys.exit(set(found) != set(wanted))


if __name__ == "__main__":
    if sys.argv[1] == "--file":
        run_file(*sys.argv[2:])
    else:
        main()
