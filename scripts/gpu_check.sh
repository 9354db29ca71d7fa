#!/bin/bash
# Builds what a machine with a GPU is needed for, runs it and prints a table last; about ten minutes
# on 16 cores. Needs nvcc's toolkit, CMake, Ninja, g++, GoogleTest, fmt and nlohmann-json; nothing is
# downloaded. Parts: device warm loss undo kernels fuzz golden golden_complex golden_types golden_fft
# golden_names golden_quantized sparse quantise programs records training ranks memcheck racecheck bench
# (all, if none is named). All but the last run side by side.
#   scripts/gpu_check.sh [part...]
# GPU_CHECK_LOGS: folder of logs. GPU_CHECK_DATA: folder of Fashion-MNIST, for the training runs.
set -uo pipefail
cd "$(dirname "$0")/.."

build="${GPU_CHECK_BUILD:-build/minimal}"
logs="${GPU_CHECK_LOGS:-$build/gpu_check}"
data="${GPU_CHECK_DATA:-/usr/share/datasets/fashion-mnist}"
jobs=$(nproc)
parts=("$@")
names=()

wanted() {
  [ ${#parts[@]} -eq 0 ] && return 0
  local part
  for part in "${parts[@]}"; do [ "$part" = "$1" ] && return 0; done
  return 1
}

# check NAME COMMAND...: runs it in the background with its output in a log, and notes its status
# and its seconds.
check() {
  local name=$1
  shift
  wanted "$name" || return 0
  names+=("$name")
  (
    start=$SECONDS
    "$@" >"$logs/$name.log" 2>&1
    status=$?
    # GoogleTest calls it a success if a filter selects nothing or all tests are skipped.
    grep -q '^\[  PASSED  \] 0 tests' "$logs/$name.log" && status=1
    echo $status $((SECONDS - start)) >"$logs/$name.result"
  ) &
}

# row NAME: a line of the table; 77 is the status of what had nothing to run.
row() {
  local status seconds word=FAILED text
  read -r status seconds <"$logs/$1.result"
  text=$(grep -v '^$' "$logs/$1.log" | tail -n 1 | cut -c 1-90)
  [ "$status" -eq 0 ] && word=passed
  [ "$status" -eq 77 ] && word=skipped
  [ $word = FAILED ] && text="status $status"
  printf '%-14s %-7s %4ds  %s\n' "$1" $word "$seconds" "$text"
  [ $word != FAILED ]
}

# by_seed, by_test COUNT COMMAND...: share i of COUNT has some seeds, or some tests, of each.
by_seed() { run_shares seed "$@"; }
by_test() { run_shares test "$@"; }
run_shares() {
  local by=$1 count=$2 i pids=() status=0
  shift 2
  for ((i = 0; i < count; ++i)); do
    if [ "$by" = seed ]; then
      SEED_SHARE=$i/$count "$@" &
    else
      GTEST_TOTAL_SHARDS=$count GTEST_SHARD_INDEX=$i "$@" &
    fi
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || status=1; done
  return $status
}

# golden NAME [option...]: the groups of a golden suite, shared out over processes.
golden() {
  local name=$1 suite=$build/$1_suite out=$logs/$1
  shift
  rm -rf "$out"
  mkdir -p "$suite" "$out"
  [ -e "$suite/manifest.jsonl" ] || tar xf "tests/golden/$name.tar.xz" -C "$suite"
  grep -o '"op": "[^"]*"' "$suite/manifest.jsonl" | cut -d '"' -f 4 | sort -u >"$out/ops"
  split -e -n "r/$((2 * jobs))" "$out/ops" "$out/part."
  ls "$out"/part.* | xargs -P "$jobs" -I{} sh -c \
    "$build/tools/golden/hammock-golden $suite --device cuda --isolate --op \$(paste -sd, {}) $* \
      >{}.log 2>&1 || echo {} >>$out/bad"
  cat "$out"/part.*.log
  awk '$1 == "total" {cases += $2; pass += $3} END {print pass " of " cases " cases pass"}' \
    "$out"/part.*.log | tee "$out/total"
  [ ! -e "$out/bad" ] && grep -q " of $(wc -l <"$suite/manifest.jsonl") cases" "$out/total"
}

# The build is without zlib, so the data is unpacked here.
training() {
  local folder=$build/fashion-mnist file
  if [ ! -e "$data/train-images-idx3-ubyte.gz" ]; then
    echo "no Fashion-MNIST in $data"
    return 77
  fi
  mkdir -p "$folder"
  for file in "$data"/*.gz; do gzip -dc "$file" >"$folder/$(basename "$file")"; done
  # docs/design/training_runs.md says why single precision is held to fewer steps.
  local run=($build/tools/training/hammock-training tests/training --device cuda --data "$folder")
  "${run[@]}" --precision f64 && "${run[@]}" --precision f32 --close 20
}

# Two ranks on one card, which NCCL connects where it takes them for ranks of two hosts.
ranks() {
  local store rank pid pids=() status=0
  if [ ! -e "$build/libhammock-gloo.so" ]; then
    echo "no Gloo"
    return 77
  fi
  store=$(mktemp -d)
  for rank in 0 1; do
    env RANK=$rank WORLD_SIZE=2 HAMMOCK_DEVICE=cuda NCCL_HOSTID=host$rank NCCL_NET=Socket \
      HAMMOCK_DISTRIBUTED_STORE="$store" HAMMOCK_DISTRIBUTED_TIMEOUT=60000 \
      timeout 180 "$build/tests/distributed/distributed_child" gpu_collectives &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || status=1; done
  rm -rf "$store"
  return $status
}

sanitizer() {
  local check=(timeout 180 compute-sanitizer --tool "$1" --error-exitcode 9)
  "${check[@]}" $build/tests/backends/cuda/cuda_backend_tests \
    --gtest_filter='CudaDevice.Runs*:CudaDevice.Trains*:CudaDevice.*Copies*:CudaDevice.Attention*' &&
    "${check[@]}" $build/tests/backends/cuda/cuda_fuzz_tests \
      --gtest_filter='CudaKernels.SortsShort*:CudaKernels.SortsRows*:CudaKernels.Finds*:CudaKernels.Scans*:CudaKernels.Scatters*:CudaKernels.Loops:CudaKernels.Transposes*'
}

mkdir -p "$logs"
rm -f "$logs"/*.result "$logs/table"
nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader || true
start=$SECONDS
gloo=OFF  # which the ranks meet by, where it is installed
[ -e /usr/include/gloo ] && gloo=ON
cmake --preset minimal -B "$build" -D HAMMOCK_WITH_GLOO=$gloo >"$logs/configure.log" 2>&1 ||
  { cat "$logs/configure.log"; exit 1; }
cmake --build "$build" -j "$jobs" --target cuda_backend_tests cuda_fuzz_tests hammock-golden \
  cuda_undo_tests sparse_tests quantize_tests random_program_tests autograd_tests hammock-training \
  gpu_bench thread_bench distributed_child >"$logs/build.log" 2>&1 ||
  { grep -E 'error|FAILED' -A3 "$logs/build.log" | head -60; exit 1; }
built=$((SECONDS - start))

export HAMMOCK_LOG_LEVEL=error
export CUDA_FUZZ_GRAPHS=${CUDA_FUZZ_GRAPHS:-200} RANDOM_PROGRAMS=${RANDOM_PROGRAMS:-200}
on_cuda=(env HAMMOCK_DEVICE=cuda)
check memcheck sanitizer memcheck
check racecheck sanitizer racecheck
check device $build/tests/backends/cuda/cuda_backend_tests
check warm $build/tests/backends/cuda/cuda_backend_tests --gtest_filter='CudaWarmStart.*/cuda'
check loss env LOSE_THE_GPU=1 $build/tests/backends/cuda/cuda_backend_tests \
  --gtest_filter='CudaCard.CanBeLost'
check kernels $build/tests/backends/cuda/cuda_fuzz_tests --gtest_filter='CudaKernels*'
check fuzz by_seed 4 $build/tests/backends/cuda/cuda_fuzz_tests --gtest_filter='*OnAGpu*'
check golden golden golden --expect tests/golden/expected_ops.txt --known tests/golden/known_failures.txt
for suite in golden_complex golden_types golden_fft golden_names golden_quantized; do
  check $suite golden $suite
done
check undo $build/tests/backends/cuda/cuda_undo_tests
check sparse "${on_cuda[@]}" $build/tests/ops/sparse_tests --gtest_filter='*OnDevice*'
check quantise "${on_cuda[@]}" $build/tests/ops/quantize_tests
check programs by_seed 4 "${on_cuda[@]}" $build/tests/runtime/random_program_tests \
  --gtest_filter='RandomProgram.Gives*'
check records by_test 4 "${on_cuda[@]}" $build/tests/autograd/autograd_tests \
  --gtest_filter='*EveryOp*'
check training training
check ranks ranks
wait
# This measures, so nothing runs beside it.
check bench env PYTHONUNBUFFERED=1 timeout 240 python3 bench/gpu/peers.py \
  --ours $build/bench/gpu/gpu_bench
wait
check threads timeout 120 $build/bench/gpu/thread_bench
wait

failed=0
for name in "${names[@]}"; do
  row "$name" >>"$logs/table" && continue
  failed=1
  echo "== $name"
  grep -v '^\[ *\(OK\|RUN\)' "$logs/$name.log" | tail -n "${GPU_CHECK_LINES:-40}"
done
wanted bench && cat "$logs/bench.log"
wanted threads && cat "$logs/threads.log"
printf '%-14s %-7s %4ds\n' build passed $built
cat "$logs/table"
printf '%-14s %-7s %4ds\n' all "$([ $failed = 0 ] && echo passed || echo FAILED)" $SECONDS
exit $failed
