#!/bin/bash
# Runs the array API standard's own suite (data-apis/array-api-tests) on Hammock, on `cpu`, once for each seed, and
# compares what fails with array_api_fails.txt, and with what array_api_strict on the newest NumPy passes in the same run:
# array_api.sh BUILD [arguments of pytest]
#
# Functions of SciPy, scikit-learn and einops run on Hammock's arrays first. The suite is that in ARRAY_API_TESTS, or a clone in
# BUILD/array-api-tests. SEEDS names the seeds.
set -uo pipefail
root="$(cd "$(dirname "$0")/../.." && pwd)"
build="$(cd "$1" && pwd)"
shift
suite="${ARRAY_API_TESTS:-$build/array-api-tests}"
version=55fcc60

base="$("$root/scripts/python_package.sh" "$build")" || exit $?
python="$base/venv/bin/python"
if [ ! -d "$suite/array_api_tests" ]; then
  echo "cloning the suite into $suite"
  git clone -q https://github.com/data-apis/array-api-tests "$suite" && git -C "$suite" checkout -q "$version" &&
    git -C "$suite" submodule -q update --init ||
    { rm -rf "$suite"; echo "the suite cannot be had: name a copy of it in ARRAY_API_TESTS"; exit 1; }
fi
"$python" -c 'import ndindex, pytest_jsonreport, scipy, sklearn, einops, array_api_strict' 2> /dev/null ||
  "$python" -m pip install -q --disable-pip-version-check ndindex pytest-json-report scipy scikit-learn einops array-api-strict || exit 1

export PYTHONPATH="$base/package" PYTHONDONTWRITEBYTECODE=1
export HAMMOCK_DEVICE=cpu
(cd "$root" && "$python" -m pytest -p no:cacheprovider tests/python/test_array_api.py) || exit 1
cd "$suite" || exit 1
reports=()  # by name: a run that ended without one is an error, and those of other seeds do not count
for module in hammock.array_api array_api_strict; do
  for seed in ${SEEDS:-1 2 3}; do
    report="$build/array-api-$module-$seed"
    rm -f "$report.json"
    ARRAY_API_TESTS_MODULE="$module" "$python" -m pytest -q -p no:cacheprovider --disable-deadline --hypothesis-seed="$seed" \
      --json-report --json-report-file="$report.json" "${@:-array_api_tests}" > "$report.log" 2>&1
    echo "$module, seed $seed: $(tail -n 1 "$report.log")"
    reports+=("$report.json")
  done
done
exec "$python" "$root/tests/python/array_api_fails.py" "$root/tests/python/array_api_fails.txt" "${reports[@]}"
