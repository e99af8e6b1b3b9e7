#!/bin/sh
# Runs Python for aarch64 under emulation. Usage: run.sh DEST PYTHON-ARGUMENTS...
dest=$(cd "$1" && pwd); shift
# One thread for linear algebra: starting many more costs more than the tests' sums.
export OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$dest/site:$PWD"
export CC="aarch64-linux-gnu-gcc --sysroot=$dest/root"
exec "$dest/python" "$@"
