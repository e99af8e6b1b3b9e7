#!/bin/bash
# Builds the extension with AddressSanitizer and UndefinedBehaviorSanitizer, apart from the one in
# use, and runs its unit tests on it; then, or only, a few of them under valgrind.
# Usage: sanitize.sh PYTHON DEST [sanitizers|valgrind] [pytest's options]
set -euo pipefail
python=$1; dest=$(mkdir -p "$2" && cd "$2" && pwd); how=${3:-sanitizers}; shift; shift; shift || true
repository=$(cd "$(dirname "$0")/.." && pwd)
cd "$repository"
if [ "$how" = sanitizers ]; then
  flags="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -O1 -g"
else
  flags="-O1 -g"
fi
CFLAGS=$flags LDFLAGS=$flags "$python" setup.py -q build --force \
  --build-base "$dest/$how" --build-lib "$dest/$how/lib" >"$dest/$how.log" 2>&1 ||
  { cat "$dest/$how.log" >&2; exit 1; }
cd "$dest/$how/lib"
export PYTHONPATH=$PWD PYTHONMALLOC=malloc PYTHONDONTWRITEBYTECODE=1
tests=()
for name in phase_ring sampler actuator extension_leaks; do
  tests+=("$repository/tests/unit/test_$name.py")
done
run=("$python" -X dev -m pytest -c "$repository/pyproject.toml" -p no:cacheprovider "${tests[@]}")
if [ "$how" = sanitizers ]; then
  # Leaks are counted by tests of their own: an interpreter leaves too much at its end.
  ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0:abort_on_error=1 \
    UBSAN_OPTIONS=print_stacktrace=1 \
    LD_PRELOAD="$(gcc -print-file-name=libasan.so)" "${run[@]}" "$@"
else
  valgrind --quiet --error-exitcode=70 \
    --child-silent-after-fork=yes "${run[@]}" "$@"
fi
