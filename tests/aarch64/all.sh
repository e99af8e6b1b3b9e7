#!/bin/bash
# Runs every unit test for aarch64 that can run there, a process for each file, since the emulator
# keeps memory of each thread that ended. Usage: all.sh DEST
here=$(cd "$(dirname "$0")" && pwd)
export ORIN_GOV_TEST_ALL=1
failed=
for file in tests/unit/test_*.py; do
  "$here/run.sh" "$1" -m pytest -q -p no:cacheprovider -p left_out -o timeout=1800 "$file"
  case $? in 0 | 5) ;; *) failed="$failed $file" ;; esac # 5: all of it is left out
done
test -z "$failed" || { echo "failed:$failed" >&2; exit 1; }
