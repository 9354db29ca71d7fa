"""The delegate "hammock": branches, loops, results of all kinds, archives, errors with their line."""

import os
import subprocess
import sys
import tempfile
import unittest
import warnings

import hammock_torch
import torch

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
        self.lowered = torch._C._jit_to_backend("hammock", scripted, {"forward": {"device": "cpu"}})

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

    def test_an_error_names_the_line(self):
        with self.assertRaisesRegex(RuntimeError, "linear.py"):
            self.lowered.forward(torch.randn(5, 7), 1)


if __name__ == "__main__":
    unittest.main()
