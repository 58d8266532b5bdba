# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The first load of a process, for bench.py: makes an instance of SMALL, so that device and context are there, then times one of MODULE with
the parameters of FILE, closing it, and closing everything. Prints the three as JSON, in seconds.

    first_load.py DEVICE SMALL MODULE FILE
"""
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import heddle_ctypes  # noqa: E402


def main(device, small, module, file):
    runtime = heddle_ctypes.Runtime()
    kept = runtime.open(small).instance(device)
    opened = runtime.open(module)
    times = [time.perf_counter()]
    instance = opened.instance(device, [file])
    times.append(time.perf_counter())
    del instance
    times.append(time.perf_counter())
    del kept, opened, runtime
    times.append(time.perf_counter())
    print(json.dumps([after - before for before, after in zip(times, times[1:])]))


main(*sys.argv[1:])
