#!/bin/bash
# Builds what a machine with a GPU is needed for, runs it and prints a table last. Needs nvcc's
# toolkit, CMake, Ninja, g++, GoogleTest, fmt and nlohmann-json; nothing is downloaded. Parts:
# device fuzz golden programs records sanitizer bench peers (all, if none is named).
#   scripts/gpu_check.sh [part...]
set -uo pipefail
cd "$(dirname "$0")/.."

build=build/minimal
logs="${GPU_CHECK_LOGS:-$build/gpu_check}"
jobs=$(nproc)
parts=("$@")
rows=()
failed=0

wanted() {
  [ ${#parts[@]} -eq 0 ] && return 0
  local part
  for part in "${parts[@]}"; do [ "$part" = "$1" ] && return 0; done
  return 1
}

# check NAME COMMAND...: runs it with its output in a log and notes how it went.
check() {
  local name=$1 start=$SECONDS status
  shift
  echo "$name" >&2
  "$@" >"$logs/$name.log" 2>&1
  status=$?
  if [ $status -eq 0 ]; then
    rows+=("$(printf '%-14s passed %5ds  %s' "$name" $((SECONDS - start)) "$(tail -n 1 "$logs/$name.log")")")
  else
    rows+=("$(printf '%-14s FAILED %5ds  %s' "$name" $((SECONDS - start)) "status $status")")
    failed=1
    echo "== $name"
    grep -v '^\[ *\(OK\|RUN\)' "$logs/$name.log" | tail -n "${GPU_CHECK_LINES:-40}"
  fi
}

# The groups of the golden suite, shared out over processes.
golden() {
  local suite=$build/golden_suite out=$logs/golden
  mkdir -p "$suite" "$out"
  [ -e "$suite/manifest.jsonl" ] || tar xf tests/golden/golden.tar.xz -C "$suite"
  grep -v '^#' tests/golden/expected_ops.txt | awk 'NF {print $1}' >"$out/ops"
  split -n "r/$((2 * jobs))" "$out/ops" "$out/part."
  ls "$out"/part.* | xargs -P "$jobs" -I{} sh -c \
    "$build/tools/golden/hammock-golden $suite --device cuda --isolate --op \$(paste -sd, {}) \
      --known tests/golden/known_failures.txt --known tests/golden/known_failures_cuda.txt \
      >{}.log 2>&1 || echo {} >>$out/bad"
  cat "$out"/part.*.log
  [ ! -e "$out/bad" ]
}

mkdir -p "$logs"
nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader || true
start=$SECONDS
cmake --preset minimal >"$logs/configure.log" 2>&1 || { cat "$logs/configure.log"; exit 1; }
cmake --build $build -j "$jobs" --target cuda_backend_tests cuda_fuzz_tests hammock-golden \
  random_program_tests autograd_tests gpu_bench >"$logs/build.log" 2>&1 ||
  { grep -E 'error|FAILED' -A3 "$logs/build.log" | head -60; exit 1; }
rows+=("$(printf '%-14s passed %5ds' build $((SECONDS - start)))")

export HAMMOCK_LOG_LEVEL=error
wanted device && check device $build/tests/backends/cuda/cuda_backend_tests
wanted fuzz && CUDA_FUZZ_GRAPHS=${CUDA_FUZZ_GRAPHS:-200} \
  check fuzz $build/tests/backends/cuda/cuda_fuzz_tests --gtest_filter='*OnAGpu*'
wanted golden && check golden golden
wanted programs && RANDOM_PROGRAMS=${RANDOM_PROGRAMS:-200} HAMMOCK_DEVICE=cuda \
  check programs $build/tests/lazy/random_program_tests --gtest_filter='RandomProgram.Gives*'
wanted records && HAMMOCK_DEVICE=cuda \
  check records timeout 180 $build/tests/autograd/autograd_tests --gtest_filter='*EveryOp*'
wanted sanitizer && for tool in memcheck racecheck; do
  check $tool timeout 120 compute-sanitizer --tool $tool --error-exitcode 9 \
    $build/tests/backends/cuda/cuda_backend_tests --gtest_filter='CudaDevice.Runs*:CudaDevice.Trains*'
done
if wanted bench && ! wanted peers; then  # peers print it too
  check bench $build/bench/gpu/gpu_bench
  cat "$logs/bench.log"
fi
if wanted peers; then
  check peers python3 bench/gpu/peers.py --ours $build/bench/gpu/gpu_bench
  cat "$logs/peers.log"
fi
printf '%s\n' "${rows[@]}"
exit $failed
