#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the driver's tests, the runtime's, compiled kernels and a whole network under compute-sanitizer, several at once. Where that tool is
missing it says so.

usage: sanitizer.py FOLDER      (of the test programs)

Faults are left out: they are made on purpose. So are the cases that the tool itself disturbs: it makes calls that a capture forbids, and it
stretches times. So is the case that measures the whole device's memory, since others run beside it. racecheck looks at shared memory alone,
so that of the driver's cases it gets those with kernels that use some, and of the kernels all but the convolution of 512x512 pixels, which
does not end within five minutes. API errors are not reported, since some refusals are answers (is this memory pinned).
"""
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from heddle_command import DIGITS, heddle  # noqa: E402

MEMCHECK = ["--tool", "memcheck", "--report-api-errors", "no", "--leak-check", "no"]
RACECHECK = ["--tool", "racecheck", "--racecheck-report", "all"]
SHARDS = 4
# Tool, program, cases, shards.
RUNS = [
    (MEMCHECK, "gpu_driver_test", "-*Fault*:*Fork*:*Exhaust*:*BesideACapture*:*StatisticsAreHonest*:CudaProfile.Tells*", SHARDS),
    (MEMCHECK, "cuda_contraction_test", "*", 2 * SHARDS),
    (RACECHECK, "cuda_contraction_test", "-*FitsAQuantizedConvolutionIntoItsMemory*", 2 * SHARDS),
    (MEMCHECK, "cuda_test", "*", 2),
    (RACECHECK, "cuda_test", "*", 2),
    (RACECHECK, "gpu_driver_test", "*SharedMemory*:*ThroughATensorMap*", 1),
    (MEMCHECK, "gpu_runtime_test", "-*Fault*:*InTime*", 1),
]
SECONDS = 480  # of all: what runs then is killed, and its last lines are printed
PATIENCE = 3  # times as long as without the tool may a case take


def digits(folder):
    """The command that runs the network on a GPU, compiled here."""
    module, image = folder / "digits.heddle", folder / "image.npy"
    compiled = heddle("compile", DIGITS, "-o", module, "--target", "cuda")
    if compiled.code:
        sys.exit(f"sanitizer: compiling {DIGITS} failed: {compiled.stderr}")
    np.save(image, np.random.default_rng(7).random((360, 1, 8, 8), dtype=np.float32))
    return [pathlib.Path(os.environ["HEDDLE_BIN"]) / "heddle", "run", module, "--device", "cuda", "--input", f"image=@{image}", "--output",
            f"@{folder / 'scores.npy'}"]


def run(command, variables, deadline):
    """(what went wrong or an empty text, output)."""
    environment = {**os.environ, "HEDDLE_TEST_PATIENCE": str(PATIENCE), **variables}
    seconds = max(1, deadline - time.monotonic())
    try:
        result = subprocess.run(list(map(str, command)), env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds)
        output, wrong = result.stdout, f"failed with {result.returncode}" if result.returncode else ""
    except subprocess.TimeoutExpired as late:
        output, wrong = late.stdout or b"", f"killed after {seconds:.0f} s"
    lines = output.decode(errors="replace").splitlines()
    if not wrong and not any("SUMMARY" in line for line in lines):
        wrong = "the tool has no summary"
    return wrong, lines


def main():
    tool = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if tool is None:
        print("SKIP: compute-sanitizer is not installed")
        return 77
    folder = pathlib.Path(sys.argv[1])
    deadline = time.monotonic() + SECONDS
    failed = False
    with tempfile.TemporaryDirectory() as made, concurrent.futures.ThreadPoolExecutor(max(2, (os.cpu_count() or 2) - 3)) as pool:
        runs = []

        def add(name, checker, command, variables):
            runs.append((f"{checker[1]}, {name}", pool.submit(run, [tool, *checker, "--error-exitcode", "9", *command], variables, deadline)))

        add("heddle run of digits", [*MEMCHECK, "--target-processes", "all"], digits(pathlib.Path(made)), {})
        for checker, program, cases, shards in RUNS:
            for shard in range(shards):
                add(f"{program} {shard + 1} of {shards}", checker, [folder / program],
                    {"GTEST_TOTAL_SHARDS": str(shards), "GTEST_SHARD_INDEX": str(shard), "GTEST_FILTER": cases})
        for name, future in runs:
            wrong, lines = future.result()
            failed |= bool(wrong)
            said = [line for line in lines if line.startswith("=========") or "FAILED" in line]
            passed = [line for line in lines if "PASSED" in line or "listed below" in line]
            print(f"{name}: {wrong or 'passed'}")
            print("\n".join("  " + line for line in (said[:40] + ["the last lines:"] + lines[-20:] if wrong else passed + said[-1:])), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
