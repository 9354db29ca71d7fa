#!/bin/bash
# Judges the OpenCL plug-in of a build folder on the first OpenCL device: the rules of `hammock conform`, the whole
# golden suites, the training runs, and measurements beside `cpu`. Compiled kernels are kept in BUILD/opencl-cache.
set -euo pipefail

build=$(realpath "${1:-build}")
root=$(realpath "$(dirname "$0")/..")
plugin="$build/plugins/opencl/libhammock-opencl.so"
if [ ! -e "$plugin" ]; then
  echo "opencl: skipped: the plug-in was not built (ocl-icd-opencl-dev, opencl-headers)"
  exit 0
fi
if ! "$build/tools/hammock/hammock" --plugin "$plugin" devices | grep -q '^opencl:0'; then
  echo "opencl: skipped: there is no OpenCL device (pocl-opencl-icd is one)"
  exit 0
fi
export POCL_CACHE_DIR="$build/opencl-cache" HAMMOCK_OPENCL_KERNEL_CACHE="$build/opencl-cache/kernels"
mkdir -p "$POCL_CACHE_DIR"

failed=0
"$build/tools/hammock/hammock" conform --plugin "$plugin" --level gold --measure --timeout 3600 || failed=1
export HAMMOCK_PLUGINS="$plugin"
for suite in golden golden_complex golden_fft; do
  folder="$build/opencl-suites/$suite"
  mkdir -p "$folder"
  (cd "$folder" && cmake -E tar xf "$root/tests/golden/$suite.tar.xz")
  lists=()
  if [ "$suite" = golden ]; then
    lists=(--expect "$root/tests/golden/expected_ops.txt" --known "$root/tests/golden/known_failures.txt")
  fi
  echo "== $suite"
  "$build/tools/golden/hammock-golden" "$folder" --device opencl "${lists[@]}" || failed=1
done
if [ -x "$build/tools/training/hammock-training" ]; then
  echo "== training"
  "$build/tools/training/hammock-training" "$root/tests/training" --device opencl --steps "${STEPS:-200}" || failed=1
fi
exit $failed
