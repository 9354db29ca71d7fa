#!/bin/bash
# Makes the Python package in a build tree, against the library that was built there: a virtual environment, the
# extension, and links to the package's files. Takes seconds where nothing changed.
#
#   python_package.sh BUILD        then: PYTHONPATH=BUILD/python/package BUILD/python/venv/bin/python
#
# PYTHON names another interpreter than python3. SANITIZE=address,undefined makes the extension with sanitizers, against the same
# library, in BUILD/python-sanitized. EXTRA_PACKAGES="torch jax" makes a second environment, BUILD/python/venv-extra, which has these
# too; the extension is the same. Exits with 77 where there is no Python with headers, or where neither
# an index nor an earlier run has the packages that it needs.
set -uo pipefail

root="$(cd "$(dirname "$0")/.." && pwd)"
build="$(cd "${1:?needs the build directory}" && pwd)"
python="${PYTHON:-python3}"
folder="$build/python${SANITIZE:+-sanitized}"
venv="$build/python/venv"
packages=(nanobind numpy pytest hypothesis mypy pyright nbclient ipykernel "onnx==1.22.0" onnxruntime sympy)

skip() { echo "the Python package is skipped: $1"; exit 77; }

command -v "$python" > /dev/null || skip "there is no $python"
headers="$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')"
[ -f "$headers/Python.h" ] || skip "$python has no headers (Python.h)"
[ -f "$build/libhammock.so" ] || skip "there is no $build/libhammock.so"

mkdir -p "$folder"
if [ ! -x "$venv/bin/python" ]; then
  "$python" -m venv "$venv" > /dev/null || skip "$python cannot make a virtual environment"
fi
if ! "$venv/bin/python" -c "import $(IFS=,; echo "${packages[*]%%=*}")" 2> /dev/null; then
  "$venv/bin/python" -m pip install -q --disable-pip-version-check "${packages[@]}" > "$folder/pip.log" 2>&1 ||
    skip "pip finds no index with ${packages[*]}; see $folder/pip.log"
fi

if [ -n "${EXTRA_PACKAGES:-}" ]; then
  read -r -a extra <<< "$EXTRA_PACKAGES"
  [ -x "$venv-extra/bin/python" ] || "$python" -m venv "$venv-extra" > /dev/null || exit 1
  "$venv-extra/bin/python" -m pip install -q --disable-pip-version-check "${packages[@]}" "${extra[@]}" || exit 1
fi

set -e
package="$folder/package/hammock"
mkdir -p "$package"
find "$package" -type l -delete
cp -rs "$root/python/hammock/." "$package/"
generator=()
if command -v ninja > /dev/null; then generator=(-G Ninja); fi
cmake -S "$root/python" -B "$folder/extension" "${generator[@]}" -DPython_EXECUTABLE="$venv/bin/python" \
  -DHAMMOCK_LIBRARY="$build/libhammock.so" -DCMAKE_LIBRARY_OUTPUT_DIRECTORY="$package" -DHAMMOCK_SANITIZE="${SANITIZE:-}" > "$folder/cmake.log" 2>&1 ||
  { cat "$folder/cmake.log"; exit 1; }
cmake --build "$folder/extension" -j "${JOBS:-$(nproc)}" > "$folder/build.log" 2>&1 || { cat "$folder/build.log"; exit 1; }
