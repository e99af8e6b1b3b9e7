#!/bin/bash
# Builds the extension with AddressSanitizer and UndefinedBehaviorSanitizer, apart from the one in
# use, and runs its unit tests on it; or a plain one, and uses each of its classes under valgrind.
# Usage: sanitize.sh PYTHON DEST sanitizers|valgrind [pytest's options]
set -euo pipefail
python=$1; dest=$(mkdir -p "$2" && cd "$2" && pwd); how=$3; shift 3
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
if [ "$how" = sanitizers ]; then
  # Leaks are counted by tests of their own: an interpreter leaves too much at its end. Left out is
  # what puts a shim of its own in front of every library, where the sanitizer must be.
  export ASAN_OPTIONS=detect_leaks=0:abort_on_error=1 UBSAN_OPTIONS=print_stacktrace=1
  LD_PRELOAD=$(gcc -print-file-name=libasan.so)
  export LD_PRELOAD
  "$python" "$repository/tests/extension_uses.py"
  "$python" -m pytest -p no:cacheprovider -c "$repository/pyproject.toml" \
    -k "not unbound_driver" "$repository"/tests/unit/test_{phase_ring,sampler,actuator}*.py "$@"
else
  log=$dest/valgrind.txt
  valgrind --log-file="$log" --num-callers=30 "$python" "$repository/tests/extension_uses.py"
  # What an interpreter does with memory looks wrong to valgrind; ours has a frame of the extension.
  awk 'BEGIN {RS = "\n==[0-9]+== \n"; wrong = 0}
       /\((phases|sampler|actuator)\.c:/ {print; wrong++}
       END {print wrong " errors with the extension on the stack"; exit wrong > 0}' "$log"
fi
