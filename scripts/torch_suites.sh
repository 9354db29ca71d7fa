#!/bin/bash
# Runs PyTorch's own tests of lazy tensors and of delegates on Hammock in strict mode, and compares with
# bridge/torch/tests/suites/expected_*.txt.
#
#   scripts/torch_suites.sh BUILD          with Debian's PyTorch 1.13; exits with 77 (skipped) without it
#   scripts/torch_suites.sh BUILD --pypi   with PyTorch 2 from PyPI: those of 1.13.1 that it can run
#
# The tests are Debian's source package of 1.13.1 (18 MB), downloaded into BUILD/torch-source once.
set -euo pipefail

build=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
suites=$here/../bridge/torch/tests/suites
if [ "${2:-}" = --pypi ]; then
  folder=$build/torch-pypi python=${HAMMOCK_TORCH_ENV:-$build/torch-env}/bin/python expected=$suites/expected_2.txt
else
  folder=$build/torch-debian python=/usr/bin/python3 expected=$suites/expected_1.13.txt
fi
[ -e "$folder/python/hammock_torch/libhammock_torch.so" ] || "$here/torch_bridge.sh" "$@"

packages=$build/torch-packages  # which PyTorch's tests need
[ -e "$packages/expecttest" ] || "$python" -m pip install --quiet --target "$packages" expecttest
export PYTHONPATH=$packages

archive=pytorch_1.13.1+dfsg.orig.tar.xz
source=$build/torch-source${2:-}
if [ ! -e "$source/test" ]; then
  mkdir -p "$source"
  trap 'rm -rf "$source"' ERR
  curl --fail --silent --show-error --output "$source/$archive" "https://deb.debian.org/debian/pool/main/p/pytorch/$archive"
  echo "d0355588b8528566d477e6ebf1b4d9d036a6fd75711339f66b27472ce5879dc7  $source/$archive" | sha256sum --check --quiet
  tar -xf "$source/$archive" -C "$source" --strip-components=1 --wildcards '*/test/cpp' '*/test/lazy' '*/test/jit' \
    '*/ts_native_functions.yaml'
  if [ "${2:-}" = --pypi ]; then  # what PyTorch 2 no longer has
    sed -i -e 's/torch::qr(/torch::linalg_qr(/' -e 's/torch::cholesky(/torch::linalg_cholesky(/' \
      -e 's/torch::symeig(\(.*\), eigenvectors, upper)/torch::_linalg_eigh(\1, upper ? "U" : "L", eigenvectors)/' \
      -e 's/torch::frobenius_norm(\(\w*\))/torch::frobenius_norm(\1, torch::IntArrayRef{})/' \
      -e 's/isIntegralType(type)/isIntegralType(type, true)/' "$source/test/cpp/lazy/test_lazy_ops.cpp"
    sed -i -e 's/torch::profiler::impl::getTime/c10::getTime/' -e 's/unsafeGetTensorImpl()->data_ptr_impl/mutable_data_ptr/' \
      "$source/test/cpp/jit/test_backend_compiler_lib.cpp"
  fi
  trap - ERR
fi

cmake "-DHAMMOCK_TORCH_SUITES=$source" "$folder" > "$build/torch-configure.log" || { cat "$build/torch-configure.log"; exit 1; }
cmake --build "$folder" --target hammock_torch torch_suites
"$python" "$suites/run.py" "$source" "$folder" "$expected"
