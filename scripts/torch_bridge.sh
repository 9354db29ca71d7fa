#!/bin/bash
# Builds bridge/torch against an installed PyTorch and runs its tests.
#
#   scripts/torch_bridge.sh BUILD          Debian's PyTorch 1.13; exits with 77 (skipped) without it
#   scripts/torch_bridge.sh BUILD --pypi   PyTorch 2 from PyPI, in an environment in BUILD/torch-env (5 GB);
#                                          tries `pip install` too
#   scripts/torch_bridge.sh BUILD --here   that of `python3`; downloads nothing
#
# BUILD is a build folder of this repository with libhammock in it.
set -euo pipefail

build=$(realpath "$1")
source=$(dirname "$(dirname "$(realpath "$0")")")
options=(-G Ninja "-DHAMMOCK_BUILD_DIR=$build" "-DCMAKE_CXX_FLAGS_RELEASE=-O1")
if command -v ccache > /dev/null; then options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi

if [ "${2:-}" = --pypi ] || [ "${2:-}" = --here ]; then
  if [ "$2" = --pypi ]; then
    environment=${HAMMOCK_TORCH_ENV:-$build/torch-env}
    python=$environment/bin/python
    packages="torch torchvision transformers numpy pytest"
    [ -x "$python" ] || python3 -m venv "$environment"
    "$python" -c "import ${packages// /, }" 2> /dev/null || "$python" -m pip install --quiet $packages
  else
    python=$(command -v python3)
  fi
  root=$("$python" -c "import torch, os; print(os.path.dirname(torch.__file__))")
  folder=$build/torch${2/--/-}
  options+=("-DTORCH_ROOT=$root" -DHAMMOCK_TORCH_PYTHON=ON "-DPython_EXECUTABLE=$python"
            "-DHAMMOCK_TORCH_TEST_PYTHON=$python")
else
  if [ ! -e /usr/include/torch/csrc/lazy/backend/backend_interface.h ]; then
    echo "torch: skipped: libtorch-dev is not installed"
    exit 77
  fi
  folder=$build/torch-debian
fi

cmake -S "$source/bridge/torch" -B "$folder" "${options[@]}" > "$build/torch-configure.log" ||
  { cat "$build/torch-configure.log"; exit 1; }
grep -E "PyTorch|skipped" "$build/torch-configure.log"
cmake --build "$folder"
ctest --test-dir "$folder" --output-on-failure

# As users install it: by pip, from the sources, and used from another folder.
[ "${2:-}" = --pypi ] || exit 0
installed=$folder/installed
define="HAMMOCK_BUILD_DIR=$build;CMAKE_CXX_FLAGS_RELEASE=-O1"
if command -v ccache > /dev/null; then define+=";CMAKE_CXX_COMPILER_LAUNCHER=ccache"; fi
rm -rf "$installed"
SKBUILD_CMAKE_DEFINE=$define "$python" -m pip install --quiet --no-deps --target "$installed" "$source/bridge/torch"
(cd / && PYTHONPATH=$installed "$python" "$source/bridge/torch/tests/python/installed.py")
