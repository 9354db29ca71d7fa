#!/bin/bash
# Makes the Python package of a build tree and runs its tests: run.sh BUILD [arguments of pytest]
set -uo pipefail
root="$(cd "$(dirname "$0")/../.." && pwd)"
build="$(cd "$1" && pwd)"
shift
"$root/scripts/python_package.sh" "$build" || exit $?
cd "$root"
export PYTHONPATH="$build/python/package" PYTHONDONTWRITEBYTECODE=1 TOY_BACKEND="$build/tests/golden/libgolden_toy_backend.so" \
  ONNX_SUITE="$build/tools/onnx_suite/hammock-onnx-suite"
exec "$build/python/venv/bin/python" -m pytest -p no:cacheprovider "${@:-tests/python}"
