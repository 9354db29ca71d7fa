#!/bin/bash
# Runs every benchmark program of a build folder, one after the other.
set -euo pipefail

build="${1:-build}"
for program in "$build"/bench/*_bench; do
  [ -x "$program" ] || continue
  echo "== ${program##*/}"
  arguments=()
  if [ "${program##*/}" = cpu_bench ]; then arguments=(--quick); fi
  "$program" "${arguments[@]}"
done
