#!/bin/bash
# Formats all C++ and CUDA files of the repository, or with --check fails when one is not formatted.
# The output depends on clang-format's version, so only major version 14 is used; with another one
# --check exits with 77, which CTest reports as skipped.
set -euo pipefail

cd "$(dirname "$0")/.."
tool=$(command -v clang-format-14 || command -v clang-format || true)
version=$([ -z "$tool" ] || "$tool" --version | sed -n 's/.*version \([0-9]*\).*/\1/p')
if [ "$version" != 14 ]; then
  echo "format: skipped: needs clang-format 14, found ${version:-none}"
  exit 77
fi

arguments=(-i)
if [ "${1:-}" = --check ]; then arguments=(--dry-run -Werror); fi
if git rev-parse --is-inside-work-tree > /dev/null 2>&1; then
  files=(git ls-files -z --cached --others --exclude-standard -- '*.h' '*.cpp' '*.cuh')
else
  files=(find . -path ./build -prune -o \( -name '*.h' -o -name '*.cpp' -o -name '*.cuh' \) -print0)
fi
"${files[@]}" | xargs -0 -r -n 50 "$tool" "${arguments[@]}"
