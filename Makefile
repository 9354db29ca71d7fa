# The commands people type. CMakePresets.json has the details; `make help` lists the targets.
JOBS ?= $(shell nproc)

.PHONY: help demo test bench python python_asan python_torch wheel array-api opencl torch torch_suites asan asan_parts tsan faults soak minimal aarch64 format build deps
.NOTPARALLEL:

help:  ## list the targets
	@sed -n 's/^\([a-z0-9_-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

demo: demo_deps  ## install what is missing, build what the demo needs, run it
	@cmake --preset release
	cmake --build --preset release --target demo -j $(JOBS)
	@build/examples/demo

test: test_deps build  ## install what is missing, build, run all tests, also without optional dependencies
	ctest --preset release -j $(JOBS)
	ctest --preset plain -j $(JOBS)

bench: bench_deps build  ## build and run the benchmarks
	@cmake --build build --target trace_bench cpu_bench -j $(JOBS)
	@scripts/run_bench.sh build

python: build  ## make the Python package in build/python
	@scripts/python_package.sh build

python_asan: build  ## run the tests of the Python package with its extension under the address sanitizer
	@SANITIZE=address,undefined tests/python/run.sh build

python_torch: build  ## run the tests of the Python package beside PyTorch, JAX, SciPy, scikit-learn and einops (an environment of 6 GB)
	@EXTRA_PACKAGES="torch jax scipy scikit-learn einops" tests/python/run.sh build

wheel: deps  ## make a wheel in build/wheels and try it; PYTHON=python3.13 DEBIAN=trixie: also in a bare Debian 13
	@scripts/wheel.sh

array-api: build  ## run the array API standard's own tests on the Python package
	@tests/python/array_api.sh build

opencl: build  ## judge the OpenCL plug-in: conform, the whole golden suites, training runs, measurements
	@scripts/opencl.sh build

torch: build  ## build bridge/torch for PyTorch 2 from PyPI (an environment of 5 GB), run its tests
	@scripts/torch_bridge.sh build --pypi

torch_suites: build  ## run PyTorch's own tests of lazy tensors and delegates on Hammock, with Debian's PyTorch 1.13 where it is installed and with 2 from PyPI
	@scripts/torch_suites.sh build || [ $$? -eq 77 ]
	@scripts/torch_suites.sh build --pypi

asan:  ## run all tests with the address and undefined-behaviour sanitizers
	$(call check,asan)

asan_parts:  ## the same for the parts that read files, record and run, without optional dependencies
	$(call check,asan_parts)

tsan:  ## run all tests with the thread sanitizer
	$(call check,tsan)

ROUNDS ?= 100
faults: build  ## ranks that die, hang, throw or disagree, 100 times each (ROUNDS)
	build/tests/distributed/distributed_tests --gtest_filter='*Faults*:*Divergence*:*WhenOneIsKilled*' --gtest_repeat=$(ROUNDS) \
	  --gtest_break_on_failure --gtest_brief=1
	build/tests/parallel/parallel_tests --gtest_filter='*WhenOneIsKilled*' --gtest_repeat=$(ROUNDS) --gtest_break_on_failure \
	  --gtest_brief=1

soak: build  ## random models, sizes, threads, faults and exits for 30 minutes, then 500 exits of each kind at random moments
	build/tests/trials/soak 30
	EXIT_ROUNDS=500 build/tests/runtime/exit_tests --gtest_filter='Exit.IsClean*' --gtest_brief=1

minimal:  ## build without optional dependencies, run all tests
	$(call check,minimal)

aarch64: aarch64_deps  ## cross-compile for 64-bit ARM, run the tests of the core under emulation
	$(call check,aarch64)

format:  ## format all C++ files
	@scripts/format.sh

build: deps
	@cmake --preset release
	cmake --build --preset release -j $(JOBS)

deps:
	@scripts/install_deps.sh required demo optional

.PHONY: aarch64_deps bench_deps demo_deps test_deps
aarch64_deps:
	@scripts/install_deps.sh required aarch64

demo_deps:
	@scripts/install_deps.sh required demo

test_deps:
	@scripts/install_deps.sh test

bench_deps:
	@scripts/install_deps.sh bench

define check
@cmake --preset $(1)
cmake --build --preset $(1) -j $(JOBS)
ctest --preset $(1) -j $(JOBS)
endef
