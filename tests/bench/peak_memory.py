# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Peak anonymous memory of a process that opens a network and calls it five times: Heddle, ONNX Runtime and OpenVINO, each in a process of its own.

    peak_memory.py FILE.onnx ...

Files are those of export_networks.py, with FILE.npz beside. Prints a Markdown table of MiB above what the process has with Python, NumPy and the inputs alone, sampled
every millisecond, and the ratio to the better of the two others. Memory that maps a file is not counted: the system takes it back when it needs it.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

import turns

RUNTIMES = ("Heddle", "ONNX Runtime", "OpenVINO")


def anonymous_kib(process="self"):
    with open(f"/proc/{process}/status", encoding="utf-8") as file:
        return next((int(line.split()[1]) for line in file if line.startswith("RssAnon")), 0)


def child(runtime, model, module):
    data = np.load(model.with_suffix(".npz"))
    inputs = {name[3:]: data[name] for name in data.files if name.startswith("in:")}
    print(anonymous_kib(), flush=True)
    if runtime == "Heddle":
        import heddle_ctypes
        call, _ = heddle_ctypes.Runtime().open(module).instance("cpu:0").function().prepare(*inputs.values())
    elif runtime == "ONNX Runtime":
        import peers
        call = peers.onnx_runtime_call(model, inputs, turns.cores())
    else:
        import peers
        call = peers.openvino_call(model, inputs, turns.cores())
    for _ in range(5):
        call()


def peak_mib(runtime, model, module):
    process = subprocess.Popen([sys.executable, "-B", __file__, "--child", runtime, str(model), str(module)], stdout=subprocess.PIPE, text=True)
    start = int(process.stdout.readline())
    peak = start
    while process.poll() is None:
        try:
            peak = max(peak, anonymous_kib(process.pid))
        except (FileNotFoundError, ProcessLookupError):
            break
        time.sleep(0.001)
    if process.wait() != 0:
        raise RuntimeError(f"{runtime} failed on {model}")
    return (peak - start) / 1024


def main():
    if sys.argv[1:2] == ["--child"]:
        return child(sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4])
    import heddle_ctypes
    from peers import compile_network
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=pathlib.Path, metavar="FILE.onnx")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for model in arguments.models:
            module = pathlib.Path(folder) / f"{model.stem}.heddle"
            compile_network(heddle_ctypes.command_path(), model, module)
            peaks = [peak_mib(runtime, model, module) for runtime in RUNTIMES]
            rows.append([model.stem, *(f"{peak:.0f}" for peak in peaks), f"{peaks[0] / min(peaks[1:]):.2f}"])
            print(*rows[-1], flush=True)
            module.unlink()
    print(turns.table(["network", *(f"{name} MiB" for name in RUNTIMES), "ratio to the better"], rows))


if __name__ == "__main__":
    main()
