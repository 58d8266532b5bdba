# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Paths for the scripts in this directory; sourced, never run.
# HEDDLE_PRESET names another preset, HEDDLE_BUILD another build directory, HEDDLE_VENV another Python environment, HEDDLE_JOBS a number of
# jobs.
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
preset="${HEDDLE_PRESET:-release}"
build="$root/build/$preset"
[ -z "${HEDDLE_BUILD:-}" ] || build="$(realpath -m -- "$HEDDLE_BUILD")"
if [ -z "${HEDDLE_BUILD:-}" ] && [ ! -w "$root" ]; then
  echo "$(basename "$0"): writing to $root failed: it is read-only for this user; set HEDDLE_BUILD to a directory to build in" >&2
  exit 1
fi
# In the source tree, or in the build directory if the sources are read-only. CMake looks for Python there as well.
venv="$root/.venv"
[ -w "$root" ] || [ -w "$venv" ] || venv="$build/.venv"
[ -z "${HEDDLE_VENV:-}" ] || venv="$(realpath -ms -- "$HEDDLE_VENV")"
export HEDDLE_VENV="$venv"

# A compile of MLIR headers takes up to 2 GiB, so jobs are limited by memory as well as by cores.
jobs="${HEDDLE_JOBS:-}"
if [ -z "$jobs" ]; then
  cores="$(nproc)"
  by_memory="$(awk '/^MemAvailable:/ { n = int($2 / 2097152); print (n < 1 ? 1 : n) }' /proc/meminfo)"
  jobs="$((cores < by_memory ? cores : by_memory))"
fi

say() { printf '== %s\n' "$*"; }

# For a script without arguments but those that it took itself and names in `takes`: --help prints its head comment, any other argument is an error.
no_arguments() {
  local script="tools/dev/$(basename "$0")${takes:+ $takes}"
  if [ "$1" = --help ] || [ "$1" = -h ]; then
    echo "usage: $script"
    sed -n '3,/^[^#]/{s/^# //p}' "$root/tools/dev/$(basename "$0")"
    exit 0
  fi
  echo "$(basename "$0"): unknown argument '$1'; usage: $script" >&2
  exit 2
}
