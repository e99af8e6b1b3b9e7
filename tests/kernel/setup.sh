#!/bin/bash
# Builds the rig: a User-Mode Linux kernel with the unmodified ina3221 and devfreq drivers, and the
# modules that play the board. Usage: setup.sh DEST
# About 3 minutes on 2 cores the first time; only the modules, in seconds, when DEST is there already.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dest=$(mkdir -p "$1" && cd "$1" && pwd)
packages=(linux-source-6.1 flex bison bc libelf-dev device-tree-compiler kmod busybox-static gcc xz-utils)
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
source=$dest/linux-source-6.1
kernel=(make -s -C "$source" ARCH=um "O=$dest/build")
config=$(sha256sum < "$here/uml.config")
if [ "$(cat "$dest/config" 2>/dev/null)" != "$config" ]; then
  [ -d "$source" ] || tar -C "$dest" -xf /usr/src/linux-source-6.1.tar.xz
  "${kernel[@]}" allnoconfig KCONFIG_ALLCONFIG="$here/uml.config"
  "${kernel[@]}" -j"$(nproc)"
  strip -o "$dest/linux" "$dest/build/linux"
  echo "$config" > "$dest/config"
fi
mkdir -p "$dest/module"
cp "$here"/module/* "$dest/module/"
"${kernel[@]}" "M=$dest/module" modules
cp "$dest"/module/*.ko "$dest/"
dtc -q -I dts -O dtb -o "$dest/orin.dtb" "$here/orin.dts"
