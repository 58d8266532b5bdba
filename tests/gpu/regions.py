#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the tests of compiled regions on a GPU, several at once, and says what failed.

usage: regions.py FOLDER      (of the test programs)

A kernel that faults ends its process's context, so every shard of a program is a process of its own.
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys

PROGRAMS = ("contraction_test", "elemental_test", "reduction_test", "transpose_test", "cuda_test", "cuda_contraction_test", "generic_test", "threads_test", "attention_test")
SHARDS = 4
NOISE = ("[ RUN      ]", "[       OK ]", "[----------]", "Note: Google Test", "Note: This is test shard", "Running main()")


def run(program, shard):
    environment = {**os.environ, "GTEST_TOTAL_SHARDS": str(SHARDS), "GTEST_SHARD_INDEX": str(shard)}
    return subprocess.run([program], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")


def main():
    folder = pathlib.Path(sys.argv[1])
    failed = False
    with concurrent.futures.ThreadPoolExecutor(max(2, (os.cpu_count() or 2) - 2)) as pool:
        shards = [(name, shard, pool.submit(run, folder / name, shard)) for name in PROGRAMS for shard in range(SHARDS)]
        for name, shard, future in shards:
            result = future.result()
            failed |= result.returncode != 0
            lines = [line for line in result.stdout.splitlines() if line and not line.startswith(NOISE)]
            print(f"{name} {shard + 1} of {SHARDS}: {'passed' if result.returncode == 0 else f'failed with {result.returncode}'}")
            passed = [line for line in lines if "PASSED" in line or "SKIPPED ]" in line and "listed below" in line]
            # The first failures say most.
            print("\n".join("  " + line for line in (lines[:60] if result.returncode else passed)), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
