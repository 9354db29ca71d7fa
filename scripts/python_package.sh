#!/bin/bash
# Makes the Python package in a build tree, against the library that was built there: a virtual environment, the
# extension, and links to the package's files. Takes seconds where nothing changed.
#
#   python_package.sh BUILD        then: PYTHONPATH=BUILD/python/package BUILD/python/venv/bin/python
#
# Prints the folder, BUILD/python. PYTHON names another interpreter than python3: its folder is BUILD/python-3.13 or the like.
# SANITIZE=address,undefined makes the extension with sanitizers, against the same library, in the folder's `sanitized`.
# EXTRA_PACKAGES="torch jax" makes a second environment, `venv-extra`, which has these too; the extension is the same. Exits with 77
# where there is no Python with headers, or where neither an index nor an earlier run has the packages that it needs. Tests that
# need an optional package are skipped without it.
set -uo pipefail

root="$(cd "$(dirname "$0")/.." && pwd)"
build="$(cd "${1:?needs the build directory}" && pwd)"
python="${PYTHON:-python3}"
required=(nanobind numpy pytest hypothesis)
optional=(mypy pyright nbclient ipykernel "onnx==1.22.0" onnxruntime sympy)

skip() { echo "the Python package is skipped: $1" >&2; exit 77; }

command -v "$python" > /dev/null || skip "there is no $python"
version="$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
base="$build/python${PYTHON:+-$version}"
folder="$base${SANITIZE:+/sanitized}"
venv="$base/venv"

has() { "$1/bin/python" -c "import $(IFS=,; shift; echo "${*%%=*}")" 2> /dev/null; }
install() { "$1/bin/python" -m pip install -q --disable-pip-version-check "${@:2}" >> "$base/pip.log" 2>&1; }
# Makes an environment with the packages that tests need, where it is not there or of another version of Python.
environment() {
  if [ "$("$1/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2> /dev/null)" != "$version" ]; then
    rm -rf "$base"/{,sanitized/}{extension,package}
    "$python" -m venv --clear "$1" > /dev/null || skip "$python cannot make a virtual environment"
  fi
  has "$1" "${required[@]}" || install "$1" "${required[@]}" ||
    skip "pip finds no index with ${required[*]}; see $base/pip.log"
  has "$1" "${optional[@]}" || install "$1" "${optional[@]}" && return
  for package in "${optional[@]}"; do
    has "$1" "$package" || install "$1" --retries 0 "$package" || echo "tests that need $package are skipped: see $base/pip.log" >&2
  done
}

headers="$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')"
[ -f "$headers/Python.h" ] || skip "$python has no headers (Python.h)"
[ -f "$build/libhammock.so" ] || skip "there is no $build/libhammock.so"

mkdir -p "$folder"
rm -f "$base/pip.log"
environment "$venv"
if [ -n "${EXTRA_PACKAGES:-}" ]; then
  read -r -a extra <<< "$EXTRA_PACKAGES"
  environment "$venv-extra"
  install "$venv-extra" "${extra[@]}" || { cat "$base/pip.log" >&2; exit 1; }
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
  { cat "$folder/cmake.log" >&2; exit 1; }
cmake --build "$folder/extension" -j "${JOBS:-$(nproc)}" > "$folder/build.log" 2>&1 || { cat "$folder/build.log" >&2; exit 1; }
echo "$base"
