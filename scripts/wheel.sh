#!/bin/bash
# Makes a wheel in build/wheels and tries it: in a fresh virtual environment, and with DEBIAN=release in a bare Debian
# made by debootstrap (as root), where nothing that Hammock uses is installed.
#
#   wheel.sh                                       for python3
#   PYTHON=python3.13 DEBIAN=trixie wheel.sh       for the Python of Debian 13, tried there
#   wheel.sh --install                             instead: `pip install .` in a fresh environment, tried there
#
# It compiles all of Hammock in build/wheel, with ccache where that is installed.
set -euo pipefail

root="$(cd "$(dirname "$0")/.." && pwd)"
python="${PYTHON:-python3}"
folder="$root/build/wheel"
tag="$("$python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')"
mkdir -p "$folder"

if [ "${1:-}" = --install ]; then
  "$python" -m venv --clear "$folder/installed-$tag"
  (cd "$root" && "$folder/installed-$tag/bin/pip" install .)
  (cd / && "$folder/installed-$tag/bin/python" "$root/tests/python/wheel.py" "$folder/installed-$tag/bin/hammock")
  exit 0
fi

"$python" -m venv --clear "$folder/maker-$tag"
"$folder/maker-$tag/bin/pip" wheel "$root" -w "$root/build/wheels"
wheel="$(ls -t "$root/build/wheels/"hammock-*"-$tag-"*.whl | head -n 1)"
echo "made $wheel: $(stat -c %s "$wheel") bytes"

"$python" -m venv --clear "$folder/user-$tag"
"$folder/user-$tag/bin/pip" install -q --no-index "$wheel"
(cd / && "$folder/user-$tag/bin/python" "$root/tests/python/wheel.py" "$folder/user-$tag/bin/hammock")

[ -n "${DEBIAN:-}" ] || exit 0
debian="$folder/$DEBIAN"
if [ ! -e "$debian/complete" ]; then
  rm -rf "$debian"
  debootstrap --variant=minbase --include=python3,python3-venv "$DEBIAN" "$debian" > "$debian.log" 2>&1 ||
    { tail -n 5 "$debian.log"; exit 1; }
  touch "$debian/complete"
fi
rm -rf "$debian/wheel"
mkdir "$debian/wheel"
cp "$wheel" "$root/tests/python/wheel.py" "$debian/wheel"
try='cd /wheel && python3 -m venv v && v/bin/pip install -q --no-index hammock-*.whl && v/bin/python wheel.py v/bin/hammock'
# The loader finds libraries beside a program by /proc.
unshare --mount bash -c 'mount -t proc proc "$0/proc" && exec chroot "$0" bash -c "$1"' "$debian" "$try"
