#!/usr/bin/env python3
"""Writes the names of PyTorch's functions that docs/pytorch-names.md has a verdict for.

    scripts/torch_names.py OPS > tests/ops/names/torch_names.txt     # needs torch

OPS is a file with one op of PyTorch's sample lists a line. Then write a verdict for each name that is new and has no
record into tests/ops/names/verdicts.txt, and run `UPDATE_DOCS=1 op_names_tests`.
"""

import sys
import types
import warnings

import torch
import torch.nn.functional

HELPERS = {"Callable", "Optional", "assert_int_or_pair", "boolean_dispatch", "handle_torch_function"}


def functions(module, names):
    for name in sorted(set(names)):
        value = getattr(module, name, None)
        private = name.startswith("_") or name in HELPERS or name.startswith("has_torch_function")
        if callable(value) and not private and not isinstance(value, (type, types.ModuleType)):
            yield name


def main():
    warnings.simplefilter("ignore")
    print(f"# Functions of PyTorch {torch.__version__.partition('+')[0]}, by scripts/torch_names.py.")
    modules = {"torch": (torch, torch.__all__), "fft": (torch.fft, dir(torch.fft)),
               "linalg": (torch.linalg, dir(torch.linalg)), "special": (torch.special, dir(torch.special)),
               "sparse": (torch.sparse, torch.sparse.__all__),
               "F": (torch.nn.functional, dir(torch.nn.functional))}
    for prefix, (module, names) in modules.items():
        for name in functions(module, names):
            print(f"{prefix}.{name}")
    for name in sorted(dir(torch.Tensor)):
        if not name.startswith("_"):
            print(f"Tensor.{name}")
    for line in open(sys.argv[1]):
        name = line.split("#")[0].strip().removeprefix("F.").removeprefix("torch.").removeprefix("Tensor.")
        if name:
            print(f"samples.{name}")


if __name__ == "__main__":
    main()
