"""The delegate "hammock": branches, loops, results of all kinds, archives, errors with their line."""

import copy
import io
import os
import subprocess
import sys
import tempfile
import unittest
import warnings
from typing import Dict, List, Optional, Tuple

import hammock_torch
import torch
import torch.jit.mobile

warnings.simplefilter("ignore")


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.conv = torch.nn.Conv1d(3, 2, 3, padding=1)

    def forward(self, x, n: int):
        y = torch.relu(self.linear(x))
        if n > 2:
            y = y * n
        for i in range(n):
            y = y + i
        return self.conv(y.unsqueeze(2)).sum(), y, n + 1


class Results(torch.nn.Module):
    def forward(
        self, x, name: str
    ) -> Tuple[Dict[str, torch.Tensor], str, Optional[torch.Tensor], List[torch.Tensor], float]:
        results = {name: x + 1, "other": x * 2}
        return results, name + "!", None, [x, x.neg()], 0.5


class Inner(torch.nn.Module):
    def forward(self, x, y):
        return torch.mm(x, y)


class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x, y):
        return self.inner(x, y) + 1


class Top(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.outer = Outer()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x, y):
        return self.linear(self.outer(x, y))


class Counting(torch.nn.Module):
    """Writes to buffers and inputs, also through views and in one branch alone."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(3)
        self.register_buffer("calls", torch.zeros(2, dtype=torch.int64))

    def forward(self, x, both: Tuple[torch.Tensor, torch.Tensor], several: List[torch.Tensor], n: int):
        self.calls[1] += 1
        y = self.norm(x)
        x.t().add_(1)
        first, second = both
        first.copy_(second)
        second.mul_(2)
        if n > 0:
            several[0].neg_()
        return y, several[1] + 1, self.calls.clone(), self.norm.running_var.clone()


def lower(module, device="cpu"):
    return torch._C._jit_to_backend("hammock", module, {"forward": {"device": device}})


LOAD = """
import sys, torch, hammock_torch
module = torch.jit.load(sys.argv[1])
x, expected = torch.load(sys.argv[2])
assert torch.allclose(module(x, 3)[1], expected, atol=1e-5)
"""


class Delegate(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.model = Model().eval()
        scripted = torch.jit.script(self.model)
        self.lowered = lower(scripted)

    def test_runs_as_the_module(self):
        x = torch.randn(5, 4)
        for n in (1, 3, 3, 0):
            with torch.no_grad():
                expected, actual = self.model(x, n), self.lowered.forward(x, n)
            self.assertTrue(torch.allclose(expected[0], actual[0], atol=1e-4))
            self.assertTrue(torch.allclose(expected[1], actual[1], atol=1e-5))
            self.assertEqual(expected[2], actual[2])

    def test_an_archive_loads_in_a_fresh_process(self):
        x = torch.randn(5, 4)
        with tempfile.TemporaryDirectory() as folder:
            module, data = os.path.join(folder, "module.pt"), os.path.join(folder, "data.pt")
            torch.jit.save(self.lowered, module)
            torch.save((x, self.lowered.forward(x, 3)[1]), data)
            subprocess.run([sys.executable, "-W", "ignore", "-c", LOAD, module, data], check=True)

    def test_the_lite_interpreter_says_what_it_lacks(self):
        archive = io.BytesIO(self.lowered._save_to_buffer_for_lite_interpreter())
        with self.assertRaisesRegex(RuntimeError, "no graph of a method 'forward'.*lite interpreter"):
            torch.jit.mobile._load_for_lite_interpreter(archive)

    def test_an_error_names_the_line(self):
        with self.assertRaisesRegex(RuntimeError, "linear.py"):
            self.lowered.forward(torch.randn(5, 7), 1)

    def test_results_of_all_kinds(self):
        lowered = lower(torch.jit.script(Results()))
        x = torch.ones(2)
        for _ in range(3):
            values, text, nothing, several, number = lowered.forward(x, "one")
            self.assertEqual({k: v.tolist() for k, v in values.items()}, {"one": [2, 2], "other": [2, 2]})
            self.assertEqual((text, nothing, number), ("one!", None, 0.5))
            self.assertEqual([v.tolist() for v in several], [[1, 1], [-1, -1]])
            values["one"].zero_()  # is nobody else's

    def test_a_part_of_a_module(self):
        model = Top().eval()
        x, y = torch.randn(2, 4), torch.randn(4, 3)
        with torch.no_grad():
            expected = model(x, y)
        scripted = torch.jit.script(model)
        selected = torch._C._jit_to_backend_selective(scripted, lower, ["outer.inner"])
        self.assertIn("__loweredModule__", selected.outer.inner.code)
        with torch.no_grad():
            torch.testing.assert_close(selected(x, y), expected)

    def test_writes_to_inputs_and_buffers(self):
        model = Counting()
        lowered = lower(torch.jit.script(copy.deepcopy(model)))
        for n in (1, 1, 1, 0, 0, 0):  # recorded, captured, replayed
            x = torch.randn(4, 3)
            both, several = (torch.randn(2), torch.randn(2)), [torch.randn(3), torch.randn(3)]
            given = copy.deepcopy((x, both, several))
            expected = model(x, both, several, n)
            torch.testing.assert_close(lowered.forward(*given, n), expected)
            torch.testing.assert_close(given, (x, both, several))
        self.assertEqual(expected[2].tolist(), [0, 6])

    def test_writes_to_memory_that_is_shared(self):
        lowered = lower(torch.jit.script(Counting()))
        x, y = torch.randn(4, 3), torch.randn(3)
        with self.assertRaisesRegex(RuntimeError, "shares memory"):
            lowered.forward(x, (y, y), [y + 1, y + 2], 0)

    def test_a_device_that_is_not_there(self):
        with self.assertRaisesRegex(RuntimeError, "no such thing"):
            lower(torch.jit.script(Outer()), "no such thing")

    def test_an_error_names_the_submodules(self):
        lowered = lower(torch.jit.script(Top()))
        with self.assertRaisesRegex(RuntimeError, r"test_delegate.py:\d+ in outer.inner\]"):
            lowered.forward(torch.randn(2, 4), torch.randn(5, 3))


if __name__ == "__main__":
    unittest.main()
