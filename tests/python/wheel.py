"""Tries an installed wheel: wheel.py COMMAND, where COMMAND is its program `hammock`. Run by scripts/wheel.sh."""

import os
import re
import subprocess
import sys
import tempfile

import hammock as hm

package = os.path.dirname(os.path.abspath(hm.__file__))
assert "site-packages" in package, package
assert "numpy" not in sys.modules, "Hammock needs no NumPy"

# Kernels by LLVM, matmuls by oneDNN, factors by LAPACK, gradients.
x = hm.randn(64, 64)
w = hm.randn(64, 64, requires_grad=True)
hm.tanh(x @ w).sum().backward()
expected = (1 - hm.tanh(x @ w) ** 2)
assert hm.allclose(w.grad, x.mT @ expected.detach(), atol=1e-4)
assert hm.allclose(hm.linalg_inv(x) @ x, hm.eye(64), atol=1e-2)

# Every library is the wheel's own, or one of a plain system.
text = open("/proc/self/maps").read()
loaded = set(re.findall(r"(/\S+\.so[\w.-]*)$", text, re.M))
named = [path for path in loaded if re.search(r"lib(hammock|dnnl|fmt|spdlog|lapack|openblas|blas|LLVM)", path)]
assert named and all(path.startswith(package + os.sep) for path in named), named

command = [sys.argv[1]]
devices = subprocess.run([*command, "devices"], capture_output=True, text=True, check=True).stdout
assert re.search(r"compiler +LLVM 19", devices) and re.search(r"matmuls +oneDNN", devices), devices
assert subprocess.run([*command, "--version"], capture_output=True, text=True, check=True).stdout.split()[1] == hm.__version__

# The plug-in for ONNX opens: what it says of a broken file is its own error.
with tempfile.TemporaryDirectory() as folder:
    broken = os.path.join(folder, "broken.onnx")
    open(broken, "wb").write(b"\xff\xff\xff")
    answer = subprocess.run([*command, "run", broken], capture_output=True, text=True)
    assert answer.returncode != 0 and "the bytes are no ONNX file" in answer.stderr, answer.stderr
print(f"the wheel works: Python {sys.version.split()[0]}, {len(named)} libraries of its own")
