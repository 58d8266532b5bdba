#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the driver's tests and compiled kernels under compute-sanitizer, several at once. Where that tool is missing it says so.

usage: sanitizer.py FOLDER      (of the test programs)

Faults are left out: they are made on purpose. So are the cases that the tool itself disturbs: it makes calls that a capture forbids, and it
stretches times. API errors are not reported, since some refusals are answers (is this memory pinned).
"""
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys

MEMCHECK = ["--tool", "memcheck", "--report-api-errors", "no", "--leak-check", "no"]
RACECHECK = ["--tool", "racecheck", "--racecheck-report", "all"]
SHARDS = 4
# Tool, program, cases, shards.
RUNS = [
    (MEMCHECK, "gpu_driver_test", "-*Fault*:*Fork*:*Exhaust*:*Capture*:CudaProfile*", SHARDS),
    (MEMCHECK, "cuda_test", "*", SHARDS),
    (RACECHECK, "gpu_driver_test", "*Dispatch*", 1),
    (RACECHECK, "cuda_test", "*", SHARDS),
]


def run(tool, checker, program, cases, shard, shards):
    environment = {**os.environ, "GTEST_TOTAL_SHARDS": str(shards), "GTEST_SHARD_INDEX": str(shard), "GTEST_FILTER": cases}
    return subprocess.run([tool, *checker, "--error-exitcode", "9", program], env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace")


def main():
    tool = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if tool is None:
        print("SKIP: compute-sanitizer is not installed")
        return 0
    folder = pathlib.Path(sys.argv[1])
    failed = False
    with concurrent.futures.ThreadPoolExecutor(max(2, (os.cpu_count() or 2) - 3)) as pool:
        runs = [(checker, name, shard, shards, pool.submit(run, tool, checker, folder / name, cases, shard, shards))
                for checker, name, cases, shards in RUNS for shard in range(shards)]
        for checker, name, shard, shards, future in runs:
            result = future.result()
            failed |= result.returncode != 0
            lines = result.stdout.splitlines()
            said = [line for line in lines if line.startswith("=========") or "FAILED" in line]
            passed = [line for line in lines if "PASSED" in line]
            print(f"{checker[1]}, {name} {shard + 1} of {shards}: {'passed' if result.returncode == 0 else f'failed with {result.returncode}'}")
            print("\n".join("  " + line for line in (said[:40] + said[-3:] if result.returncode else passed + said[-1:])), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
