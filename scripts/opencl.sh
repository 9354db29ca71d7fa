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

# What the driver keeps, and the plug-in's kernels, which depend on the driver's flags.
keep_kernels() {
  export POCL_CACHE_DIR="$build/opencl-cache/$1/driver" HAMMOCK_OPENCL_KERNEL_CACHE="$build/opencl-cache/$1/kernels"
  mkdir -p "$POCL_CACHE_DIR"
}

unpack() {
  mkdir -p "$build/opencl-suites/$1"
  (cd "$build/opencl-suites/$1" && cmake -E tar xf "$root/tests/golden/$1.tar.xz")
}

failed=0
# Thousands of kernels run once: PoCL compiles each once for all group sizes, without optimisation.
keep_kernels light
export POCL_WORK_GROUP_SPECIALIZATION=0 POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable
# The rule `golden` replays the whole suite here, in place of the installed sample.
unpack golden
cp "$root/tests/golden/known_failures.txt" "$build/opencl-suites/golden"
"$build/tools/hammock/hammock" conform --plugin "$plugin" \
  --level gold --golden "$build/opencl-suites/golden" --timeout 3600 || failed=1
export HAMMOCK_PLUGINS="$plugin"
for suite in golden_complex golden_fft golden_names golden_quantized golden_types; do
  unpack $suite
  echo "== $suite"
  "$build/tools/golden/hammock-golden" "$build/opencl-suites/$suite" --device opencl || failed=1
done

keep_kernels optimised
unset POCL_WORK_GROUP_SPECIALIZATION POCL_EXTRA_BUILD_FLAGS
echo "== measurements"
"$build/tools/hammock/hammock" conform --plugin "$plugin" --rule loads --measure || failed=1
if [ -x "$build/tools/training/hammock-training" ]; then
  echo "== training"
  "$build/tools/training/hammock-training" "$root/tests/training" --device opencl --steps "${STEPS:-200}" || failed=1
fi
exit $failed
