# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How long calls take while others use the same cores.

    concurrent_calls.py FILE.onnx ...

Files are those of export_networks.py, with FILE.npz beside. For each a Markdown table: the median and the 99th percentile of a call alone, alone on half of the
cores, with a second instance called at the same time (in the same process, in another), while the file is loaded again and again by another runtime, while the same
runtime loads another file again and again (a copy, or the one of --loaded), and beside matrix products of PyTorch on all cores, if it is installed; each p99 also as a
multiple of the median on half of the cores, which is what a call may expect that shares the machine with one other. Calls that are "started" are waited for with a limit,
which leaves them to the driver's threads, and come 1 ms one behind the other. Then the processor time of a process that has stopped calling.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

import heddle_ctypes
import peers
import turns


def half_config():
    cpus = sorted(os.sched_getaffinity(0))
    cpus = ",".join(map(str, cpus[:max(len(cpus) // 2, 1)]))
    return f'version = 1\n[device.half]\ndriver = "heddle.cpu"\nselect = {{ ordinal = 0 }}\naffinity = {{ cpus = "{cpus}" }}\n'


def inputs_of(model):
    data = np.load(model.with_suffix(".npz"))
    return [data[name] for name in data.files if name.startswith("in:")]


def open_call(module, model, device="cpu:0", config=""):
    return heddle_ctypes.Runtime(config).open(module).instance(device).function().prepare(*inputs_of(model))[0]


def open_started_call(opened, model, device="cpu:0"):
    """A call that the driver's threads run: who waits with a limit does not help."""
    function = opened.instance(device).function()
    arguments = [function.tensor(index, array) for index, array in enumerate(inputs_of(model))]
    first, results = function.start(arguments)
    first.wait()
    return lambda: function.start(arguments, results)[0].wait(600 * 10**9)


def times_of(call, seconds, pause=0):
    for _ in range(5):
        call()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        if pause:
            time.sleep(pause)
        before = time.perf_counter()
        call()
        times.append(time.perf_counter() - before)
    return times


class Beside:
    """Calls `work` over and over in a thread while it is entered."""

    def __init__(self, work):
        self.work, self.stop, self.failure = work, False, None
        self.thread = threading.Thread(target=self.loop)

    def loop(self):
        try:
            while not self.stop:
                self.work()
        except Exception as failure:  # without load the line would be wrong
            self.failure = failure

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.stop = True
        self.thread.join()
        if self.failure:
            raise self.failure


def child(module, model, seconds):
    call = open_call(module, pathlib.Path(model))
    call()
    print("ready", flush=True)
    times_of(call, seconds)


def bench(module, model, loaded, seconds):
    call = open_call(module, model)
    half = open_call(module, model, "half", half_config())
    rows = {"alone": times_of(call, seconds), "alone on half of the cores": times_of(half, seconds)}
    del half
    runtime = heddle_ctypes.Runtime()
    opened = runtime.open(module)
    second = opened.instance("cpu:0").function().prepare(*inputs_of(model))[0]
    with Beside(second):
        rows["with a second instance"] = times_of(call, seconds)
    del second
    other = subprocess.Popen([sys.executable, "-B", __file__, "--child", str(module), str(model), str(seconds + 2)], stdout=subprocess.PIPE, text=True)
    other.stdout.readline()
    rows["with a second process"] = times_of(call, seconds)
    other.communicate()
    with Beside(lambda: heddle_ctypes.Runtime().open(module).instance("cpu:0")):
        rows["while the file is loaded over and over"] = times_of(call, seconds)
    waited, started = opened.instance("cpu:0").function().prepare(*inputs_of(model))[0], open_started_call(opened, model)
    rows["started"] = times_of(started, seconds, 1e-3)
    with Beside(lambda: runtime.open(loaded).instance("cpu:0")):
        rows["while the same runtime loads over and over"] = times_of(waited, seconds)
        rows["started, while the same runtime loads over and over"] = times_of(started, seconds, 1e-3)
    try:
        import torch
    except ImportError:
        torch = None
    if torch:
        a = torch.randn(1024, 1024)
        with Beside(lambda: a @ a):
            rows["beside PyTorch"] = times_of(call, seconds)
    time.sleep(0.2)
    before = time.process_time()
    time.sleep(2)
    idle = time.process_time() - before
    fair = np.median(rows["alone on half of the cores"])
    table = [[name, len(times), f"{np.median(times) * 1e3:.2f}", f"{np.percentile(times, 99) * 1e3:.2f}", f"{np.percentile(times, 99) / fair:.2f}",
              f"{np.max(times) * 1e3:.2f}"]
             for name, times in rows.items()]
    print(turns.table([model.stem, "calls", "median ms", "p99 ms", "p99 / median on half of the cores", "slowest ms"], table))
    print(f"\nidle: {idle * 1e3:.1f} ms of processor time in 2 s\n", flush=True)


def main():
    if sys.argv[1:2] == ["--child"]:
        return child(sys.argv[2], sys.argv[3], float(sys.argv[4]))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=pathlib.Path, metavar="FILE.onnx")
    parser.add_argument("--loaded", type=pathlib.Path, metavar="FILE.onnx", help="what is loaded beside calls (default: the same again)")
    parser.add_argument("--seconds", type=float, default=5, help="of calls for each line")
    arguments = parser.parse_args()
    print(f"{turns.machine()}; f32\n")
    with tempfile.TemporaryDirectory(prefix="heddle-bench-") as folder:
        for model in arguments.models:
            module = pathlib.Path(folder, f"{model.stem}.heddle")
            peers.compile_network(str(heddle_ctypes.command_path()), model, module)
            loaded = module.with_name("loaded.heddle")
            if arguments.loaded:
                peers.compile_network(str(heddle_ctypes.command_path()), arguments.loaded, loaded)
            else:
                shutil.copyfile(module, loaded)  # of one file the runtime would share the weights, and read nothing
            bench(module, model, loaded, arguments.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
