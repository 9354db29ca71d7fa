"""The package as pip has installed it: the backend by its name, and other versions of PyTorch."""

import subprocess
import sys

import torch

model, x = torch.nn.Linear(4, 2), torch.randn(3, 4)
compiled = torch.compile(model, backend="hammock", fullgraph=True)
for _ in range(3):
    torch.testing.assert_close(compiled(x), model(x))

import hammock_torch  # noqa: E402
import hammock_torch.device  # noqa: E402, F401

assert hammock_torch.fallbacks() == {}
assert torch.ones(3, device="hammock").sum().item() == 3

OTHER = 'import torch; torch.__version__ = "2.1.0"; import hammock_torch'
refused = subprocess.run([sys.executable, "-c", OTHER], capture_output=True, text=True)
assert refused.returncode != 0, "another version of PyTorch is taken"
assert "and does not work with 2.1.0: install it again" in refused.stderr, refused.stderr
print("installed by pip:", hammock_torch.__file__)
