# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Where things are, for the scripts beside this one; sourced, never run.
# HEDDLE_VENV may name another Python environment, HEDDLE_PRESET another preset, HEDDLE_JOBS a number of jobs.
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
preset="${HEDDLE_PRESET:-release}"
build="$root/build/$preset"
venv="${HEDDLE_VENV:-$root/.venv}"

# A compile of MLIR headers takes up to 2 GiB: jobs are bounded by memory as well as by cores.
jobs="${HEDDLE_JOBS:-}"
if [ -z "$jobs" ]; then
  cores="$(nproc)"
  by_memory="$(awk '/^MemAvailable:/ { n = int($2 / 2097152); print (n < 1 ? 1 : n) }' /proc/meminfo)"
  jobs="$((cores < by_memory ? cores : by_memory))"
fi

say() { printf '== %s\n' "$*"; }

# For a script that has none: --help shows what its head says, anything else is a mistake.
no_arguments() {
  local script="tools/dev/$(basename "$0")"
  if [ "$1" = --help ] || [ "$1" = -h ]; then
    echo "usage: $script"
    sed -n '3,/^[^#]/{s/^# //p}' "$root/$script"
    exit 0
  fi
  echo "$(basename "$0"): unknown argument '$1'; usage: $script" >&2
  exit 2
}
