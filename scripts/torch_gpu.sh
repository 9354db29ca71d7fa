#!/bin/bash
# PyTorch on Hammock on a machine with a GPU and an installed PyTorch 2, whose `python3` has it: builds
# libhammock without optional dependencies and bridge/torch, and runs the bridge's tests, those of
# tensors on the GPU among them. Nothing is downloaded. Some ten minutes on 16 cores.
#   scripts/torch_gpu.sh [build/minimal]
set -euo pipefail
cd "$(dirname "$0")/.."

build=${1:-build/minimal}
nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader
mkdir -p "$build"
cmake --preset minimal -B "$build" > "$build/configure.log" || { cat "$build/configure.log"; exit 1; }
cmake --build "$build" --target hammock hammock-tool
"$build/tools/hammock/hammock" devices
scripts/torch_bridge.sh "$build" --here
