"""Lazy tensors of an unchanged PyTorch program on Hammock (strict mode by the environment)."""

import unittest

import hammock_torch
import torch
import torch._lazy

hammock_torch.lazy.init()


def train(device):
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.BatchNorm2d(4), torch.nn.ReLU(),
        torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Dropout(0.2), torch.nn.Linear(64, 3),
    )  # fmt: skip
    x, y = torch.randn(6, 1, 8, 8), torch.tensor([0, 1, 2, 0, 1, 2])
    model, x, y = model.to(device), x.to(device), y.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        if device == "lazy":
            torch._lazy.mark_step()
        losses.append(loss.item())
    return losses


class Lazy(unittest.TestCase):
    def test_training_is_that_of_the_cpu(self):
        for expected, actual in zip(train("cpu"), train("lazy")):
            self.assertAlmostEqual(expected, actual, delta=1e-3)
        self.assertEqual(hammock_torch.fallbacks(), {})

    def test_report(self):
        (torch.ones(3).to("lazy") * 2).cpu()
        self.assertIn("graphs lowered", hammock_torch.lazy.report())
        self.assertIn("aten::mul", hammock_torch.lazy.last_graph())

    def test_unknown_device(self):
        with self.assertRaisesRegex(RuntimeError, "no such thing"):
            hammock_torch.lazy.init("no such thing")

    def test_strict_mode(self):
        self.assertTrue(hammock_torch.strict())


if __name__ == "__main__":
    unittest.main()
