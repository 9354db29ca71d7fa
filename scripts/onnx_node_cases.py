#!/usr/bin/env python3
"""Copies the node cases of an installed `onnx` package to a folder, for hammock-onnx-suite.

  python3 -m venv venv && venv/bin/pip install onnx==1.22
  venv/bin/python scripts/onnx_node_cases.py FOLDER [--every N]
"""

import argparse
import pathlib
import shutil

import onnx.backend.test


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--every", type=int, default=1, help="only one case in N, by name")
    options = parser.parse_args()
    data = pathlib.Path(onnx.backend.test.__file__).parent / "data" / "node"
    cases = sorted(folder for folder in data.iterdir() if (folder / "model.onnx").exists())
    options.folder.mkdir(parents=True, exist_ok=True)
    for folder in cases[:: options.every]:
        shutil.copytree(folder, options.folder / folder.name, dirs_exist_ok=True)
    print(f"{len(cases[:: options.every])} of {len(cases)} cases of onnx {onnx.__version__}")


if __name__ == "__main__":
    main()
