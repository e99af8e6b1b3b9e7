#!/bin/bash
# Boots the rig and runs a command in it as root, over the host's file tree (read-only; /run
# and /dev/shm are fresh and in memory). Prints what the command prints; exits with its status.
# Usage: run.sh DEST [--virtual-time] [--out DIR] -- COMMAND...
#   --virtual-time   time jumps over idle waits: minutes of control loops run in seconds
#   --out DIR        a folder of the host, writable in the rig as /run/out
set -euo pipefail
dest=$(cd "$1" && pwd); shift
time=(); out=
while [ "$1" != -- ]; do
  case $1 in
    --virtual-time) time=(time-travel=inf-cpu);;
    --out) shift; mkdir -p "$1"; out=$(cd "$1" && pwd);;
    *) echo "run.sh: unknown option $1" >&2; exit 2;;
  esac
  shift
done
shift
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
[ -n "$out" ] || out=$work
init=$work/init
{
  echo '#!/bin/bash'
  echo 'mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev'
  echo 'mount -t debugfs debug /sys/kernel/debug; mount -t tmpfs tmpfs /run'
  printf 'mkdir -p /run/out /run/rig /dev/pts /dev/shm; cp %q/*.ko /run/rig\n' "$dest"
  printf 'mount -t hostfs -o %q none /run/out\n' "$out"
  printf 'export PATH=%q HOME=/run RIG=/run/rig; cd %q\n' "$PATH" "$PWD"
  printf 'export PYTHONPATH=%q PYTHONDONTWRITEBYTECODE=1\n' "${PYTHONPATH:-}"
  # The repository may itself lie in the host's /tmp, so the temporary folder is another one.
  echo 'mkdir /run/tmp; export TMPDIR=/run/tmp'
  echo 'mount -t devpts pts /dev/pts; mount -t tmpfs shm /dev/shm'
  echo 'for name in nvhost_podgov orin_sim; do insmod /run/rig/$name.ko || exit; done'
  printf '%q ' "$@"; echo
  echo 'echo "rig-exit-status $?"'
  echo '/bin/busybox poweroff -f'
} > "$init"
chmod 755 "$work" "$init"
timeout "${RIG_TIMEOUT:-300}" "$dest/linux" mem="${RIG_MEM:-1G}" root=/dev/root rootfstype=hostfs \
  rootflags=/ ro dtb="$dest/orin.dtb" init="$init" con=null con0=fd:0,fd:1 quiet \
  uml_dir="$work/" "${time[@]}" \
  </dev/null 2>&1 | awk -W interactive '
    {sub(/\r/, "")}
    /^rig-exit-status /{status=$2; seen=1; next}
    /channel type|setup_one_line|^reboot: System halted/{next}
    {print; fflush()}
    END{exit seen ? status : 70}'
