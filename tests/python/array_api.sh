#!/bin/bash
# Runs the array API standard's own suite (data-apis/array-api-tests) on Hammock, on `cpu`, once for each seed, and
# compares what fails with array_api_fails.txt: array_api.sh BUILD [arguments of pytest]
#
# Functions of SciPy, scikit-learn and einops run on Hammock's arrays first. The suite is that in ARRAY_API_TESTS, or a clone in BUILD/array-api-tests. SEEDS names the seeds.
set -uo pipefail
root="$(cd "$(dirname "$0")/../.." && pwd)"
build="$(cd "$1" && pwd)"
shift
suite="${ARRAY_API_TESTS:-$build/array-api-tests}"
version=55fcc60
python="$build/python/venv/bin/python"

"$root/scripts/python_package.sh" "$build" || exit $?
if [ ! -d "$suite/array_api_tests" ]; then
  echo "cloning the suite into $suite"
  git clone -q https://github.com/data-apis/array-api-tests "$suite" && git -C "$suite" checkout -q "$version" &&
    git -C "$suite" submodule -q update --init ||
    { rm -rf "$suite"; echo "the suite cannot be had: name a copy of it in ARRAY_API_TESTS"; exit 1; }
fi
"$python" -c 'import ndindex, pytest_jsonreport, scipy, sklearn, einops' 2> /dev/null ||
  "$python" -m pip install -q --disable-pip-version-check ndindex pytest-json-report scipy scikit-learn einops || exit 1

export PYTHONPATH="$build/python/package" PYTHONDONTWRITEBYTECODE=1
export ARRAY_API_TESTS_MODULE=hammock.array_api HAMMOCK_DEVICE=cpu
(cd "$root" && "$python" -m pytest -p no:cacheprovider tests/python/test_array_api.py) || exit 1
options=(-q -p no:cacheprovider --disable-deadline)
if ! "$python" -c 'import hammock.array_api as xp; xp.fft' 2> /dev/null; then
  echo "the extension fft is left out: there is no hm.fft"
  options+=(--disable-extension fft --deselect 'array_api_tests/test_has_names.py::test_has_names[fft-')
fi
reports=()
cd "$suite" || exit 1
for seed in ${SEEDS:-1 2 3}; do
  report="$build/array-api-$seed.json"
  rm -f "$report"
  "$python" -m pytest "${options[@]}" --hypothesis-seed="$seed" --json-report --json-report-file="$report" \
    "${@:-array_api_tests}" > "$build/array-api-$seed.log" 2>&1
  tail -n 1 "$build/array-api-$seed.log"
  reports+=("$report")
done
exec "$python" "$root/tests/python/array_api_fails.py" "$root/tests/python/array_api_fails.txt" "${reports[@]}"
