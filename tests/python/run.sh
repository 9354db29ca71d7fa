#!/bin/bash
# Makes the Python package of a build tree and runs its tests: run.sh BUILD [arguments of pytest]
#
# PYTHON=python3.13 runs them with that interpreter.
# EXTRA_PACKAGES="torch jax scipy" runs them where these are installed too: tests of an exchange with a library are skipped without it.
# SANITIZE=address,undefined runs them with the extension under sanitizers, but for tests that start programs which cannot
# have these loaded into them.
set -uo pipefail
root="$(cd "$(dirname "$0")/../.." && pwd)"
build="$(cd "$1" && pwd)"
shift
base="$("$root/scripts/python_package.sh" "$build")" || exit $?
cd "$root"
export PYTHONPATH="$base${SANITIZE:+/sanitized}/package" PYTHONDONTWRITEBYTECODE=1 HAMMOCK_CHECK_BORROWED=true \
  TOY_BACKEND="$build/tests/golden/libgolden_toy_backend.so" ONNX_SUITE="$build/tools/onnx_suite/hammock-onnx-suite"
options=(-p no:cacheprovider)
if [ -n "${SANITIZE:-}" ]; then
  # The interpreter keeps what it has interned. It has no C++ of its own: exceptions are intercepted in libstdc++. Memory that there
  # is not is an error of Hammock's.
  export LD_PRELOAD="$(g++ -print-file-name=libasan.so):$(g++ -print-file-name=libstdc++.so)" ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1
  options+=(-k "not type_checkers and not notebook and not leak_nothing and not Runtime")
fi
exec "$base/venv${EXTRA_PACKAGES:+-extra}/bin/python" -m pytest "${options[@]}" "${@:-tests/python}"
