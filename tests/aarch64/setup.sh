#!/bin/bash
# Builds what `make test-aarch64` needs: an arm64 root with Python and headers, the packages' arm64
# wheels, and the extension, cross-compiled beside the host's own. Usage: setup.sh DEST PYTHON [all]
# With `all`, also the large packages (torch, scikit-learn) that only a few of the tests need.
# A minute or two the first time; only the extension, in seconds, when DEST is there already.
set -euo pipefail
dest=$(mkdir -p "$1" && cd "$1" && pwd)
python=$2
version=3.11 # of Debian bookworm
packages=(mmdebstrap qemu-user-static gcc-aarch64-linux-gnu)
if ! dpkg -s "${packages[@]}" >/dev/null 2>&1; then
  if ! command -v apt-get >/dev/null; then
    echo "missing: apt-get; this needs Debian 12 (${packages[*]})" >&2
    exit 1
  fi
  install=(apt-get install -qy --no-install-recommends "${packages[@]}")
  if [ "$(id -u)" != 0 ]; then
    echo "missing packages; install them with: sudo ${install[*]}" >&2
    exit 1
  fi
  { apt-get update -q && "${install[@]}" -o DPkg::Lock::Timeout=600; } >/dev/null
fi
wheels() { # DEST-FOLDER PIP-ARGUMENTS...
  "$python" -m pip install -q --target "$1" --only-binary=:all: --implementation cp \
    --python-version $version --platform manylinux2014_aarch64 --platform manylinux_2_28_aarch64 \
    "${@:2}"
}
root=$dest/root
if [ ! -e "$dest/root.done" ]; then
  rm -rf "$root"
  mmdebstrap -q --variant=extract --architectures=arm64 bookworm "$root" --include=\
python$version-minimal,libpython$version-stdlib,libpython$version-dev,libc6-dev,libstdc++6
  touch "$dest/root.done"
fi
if [ ! -e "$dest/site.done" ]; then
  rm -rf "$dest/site" "$dest/tools"
  wheels "$dest/site" numpy psutil rich pyarrow pytest pytest-timeout hypothesis
  "$python" -m pip install -q --target "$dest/tools" cython setuptools
  touch "$dest/site.done"
fi
if [ "${3-}" = all ] && [ ! -e "$dest/more.done" ]; then
  rm -rf "$dest/more"
  # The last torch whose arm64 wheel is for processors alone; of what it requires, that which it loads.
  wheels "$dest/more" --no-deps torch==2.9.1 filelock typing_extensions sympy mpmath networkx fsspec
  wheels "$dest/more" scikit-learn pyte jinja2
  touch "$dest/more.done"
fi
# An emulated process cannot start another by its own name: programs go by this script's.
cat > "$dest/python" <<END
#!/bin/sh
exec qemu-aarch64-static -L "$root" "$root/usr/bin/python$version" "\$@"
END
chmod +x "$dest/python"
echo "import sys; sys.executable = '$dest/python'" > "$dest/site/sitecustomize.py"
PYTHONPATH=$dest/tools "$python" setup.py -q --version >/dev/null # generates the C sources
for source in build/cython/ext/*.c; do
  name=$(basename "$source" .c)
  aarch64-linux-gnu-gcc "--sysroot=$root" "-I$root/usr/include/python$version" -shared -fPIC -O2 \
    -o "orin_gov/_$name.cpython-${version/./}-aarch64-linux-gnu.so" "$source" -lpthread
done
