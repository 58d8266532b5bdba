# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The nine `light` networks with random weights: Heddle beside ONNX Runtime, in turns, in one process.

Prints a Markdown table: compile seconds, file size, time of a call with all cores and with one, ONNX
Runtime's times and the ratios (ours / theirs: below 1 is faster). Every result is compared with ONNX
Runtime's before it is timed.
"""
import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models"))
import heddle_ctypes
import light
import turns


def compile_network(heddle, model, module):
    started = time.perf_counter()
    process = subprocess.run([heddle, "compile", model, "-o", module], capture_output=True, text=True)
    if process.returncode != 0:
        raise RuntimeError(f"compiling {model} failed with exit code {process.returncode}: {process.stderr.strip()}")
    return time.perf_counter() - started


def onnx_runtime_call(model, image, threads):
    """(call, result): one run with inputs and results bound ahead, as Heddle's are."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    (value,) = session.get_inputs()
    (output,) = session.get_outputs()
    binding = session.io_binding()
    given = onnxruntime.OrtValue.ortvalue_from_numpy(image)
    binding.bind_ortvalue_input(value.name, given)
    expected = session.run(None, {value.name: image})[0]
    result = onnxruntime.OrtValue.ortvalue_from_shape_and_type(expected.shape, np.float32)
    binding.bind_ortvalue_output(output.name, result)
    return lambda keep=(given, result): session.run_with_iobinding(binding), expected


def agree(got, expected):
    return bool((np.abs(got - expected) <= 1e-3 * np.abs(expected) + 1e-4 * np.abs(expected).max()).all())


def bench(name, heddle, folder, arguments):
    model, image = str(light.randomized(name)), light.random_input(name)
    module = pathlib.Path(folder, f"{name}.heddle")
    compile_s = statistics.median(compile_network(heddle, model, module) for _ in range(arguments.compiles))
    contenders, expected = {}, None
    contenders["theirs all"], expected = onnx_runtime_call(model, image, turns.cores())
    contenders["theirs one"], _ = onnx_runtime_call(model, image, 1)
    runtime = heddle_ctypes.Runtime(heddle_ctypes.one_core_config())
    opened = runtime.open(module)
    for label, device in (("ours all", arguments.device), ("ours one", "one")):
        contenders[label], results = opened.instance(device).function().prepare(image)
        if not agree(results[0].numpy(), expected):
            raise RuntimeError(f"{name}, {label} cores: the result differs from ONNX Runtime's")
    medians = turns.measure(contenders, arguments.rounds, arguments.seconds)
    row = [name, f"{compile_s:.2f}", f"{module.stat().st_size / 1e6:.1f}"]
    ratios = []
    for which in ("all", "one"):
        ratios.append(turns.ratio(medians, f"ours {which}", f"theirs {which}"))
        row += [turns.milliseconds(medians[f"{side} {which}"]) for side in ("ours", "theirs")] + [f"{ratios[-1]:.2f}"]
    return row, ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=light.NAMES, help="networks (default: all nine)")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0.5, help="time for each contender in each round")
    parser.add_argument("--compiles", type=int, default=1, help="compile so often and take the median")
    parser.add_argument("--device", default="cpu", help="Heddle's device for all cores")
    arguments = parser.parse_args()
    heddle = str(heddle_ctypes.command_path())
    rows, ratios = [], []
    with tempfile.TemporaryDirectory(prefix="heddle-bench-") as folder:
        for name in arguments.names:
            print(f"{name} ...", file=sys.stderr)
            try:
                row, pair = bench(name, heddle, folder, arguments)
                ratios.append(pair)
            except RuntimeError as error:
                print(f"{name}: {error}", file=sys.stderr)
                row = [name, "failed"] + [""] * 7
            rows.append(row)
    print(f"{turns.machine()}; ONNX Runtime {onnxruntime.__version__}; f32, batch 1; {arguments.rounds} rounds in turns, medians\n")
    count = f"{turns.cores()} cores"
    headings = ["network", "compile s", "file MB"]
    for which in (count, "1 core"):
        headings += [f"Heddle ms, {which}", f"ONNX Runtime ms, {which}", "ratio"]
    print(turns.table(headings, rows))
    if ratios:
        means = [statistics.geometric_mean(column) for column in zip(*ratios)]
        print(f"\ngeometric mean of the ratios: {means[0]:.2f} with {count}, {means[1]:.2f} with one")
    return 0 if len(ratios) == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
