#!/usr/bin/env python3
"""Prints the operators of an installed `onnx` package with the versions of their schemas, for tests/onnx/schemas.txt.

  python3 -m venv venv && venv/bin/pip install onnx==1.22
  venv/bin/python scripts/onnx_schemas.py > tests/onnx/schemas.txt
"""

import collections

from onnx import defs


def main():
    versions = collections.defaultdict(set)
    for schema in defs.get_all_schemas_with_history():
        if not schema.deprecated:
            versions[schema.domain or "ai.onnx", schema.name].add(schema.since_version)
    for (domain, name), since in sorted(versions.items()):
        print(domain, name, *sorted(since))


if __name__ == "__main__":
    main()
