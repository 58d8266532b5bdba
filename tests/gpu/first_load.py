# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The first load of a process, for bench.py: makes an instance of SMALL, so that device and context are there, then times one of MODULE with
the parameters of FILES, and closing each thing by itself: that instance, its module, the instance of SMALL, the runtime. Prints them as JSON, in
seconds by name.

    first_load.py DEVICE SMALL MODULE [FILES]
"""
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import heddle_ctypes  # noqa: E402


def main(device, small, module, *files):
    held = {"runtime": heddle_ctypes.Runtime()}
    held["small"] = held["runtime"].open(small).instance(device)
    held["module"] = held["runtime"].open(module)
    times = {}
    started = time.perf_counter()
    held["instance"] = held["module"].instance(device, list(files))
    times["load"] = time.perf_counter() - started
    for name in ("instance", "module", "small", "runtime"):
        started = time.perf_counter()
        del held[name]  # nothing else has it: it is closed here
        times[name] = time.perf_counter() - started
    print(json.dumps(times))


main(*sys.argv[1:])
