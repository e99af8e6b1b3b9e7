#!/bin/sh
# Runs Python for aarch64 under emulation. Usage: run.sh DEST PYTHON-ARGUMENTS...
here=$(cd "$(dirname "$0")" && pwd)
dest=$(cd "$1" && pwd); shift
# One thread for linear algebra: starting many more costs more than the tests' sums.
export OPENBLAS_NUM_THREADS=1 PYTHONPATH="$dest/site:$PWD:$here:$dest/more"
# Compiling a module takes longer here than running it: what is compiled is kept, out of the tree.
export PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX="$dest/bytecode"
export CC="aarch64-linux-gnu-gcc --sysroot=$dest/root"
exec nice -n 10 "$dest/python" "$@"
