# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX files beside ONNX Runtime, OpenVINO and PyTorch's Inductor, in turns, in one process.

    exported_networks.py FILE.onnx ...

Whoever is installed takes part; Inductor does with --inductor, which makes the network anew as export_networks.py did. Each FILE has a FILE.npz beside it, as export_networks.py writes it: inputs (in:...) and what the results are (out:...). Prints a Markdown table: compile
seconds, milliseconds of a call with all cores and with one, and the ratio to the best of the others (below 1 is faster). A result that is
wrong is an error. Products are of true f32 everywhere.
"""
import argparse
import pathlib
import statistics
import sys
import tempfile

import numpy as np

import heddle_ctypes
import peers
import turns


def bench(heddle, runtime, model, folder, arguments):
    data = np.load(model.with_suffix(".npz"))
    inputs = {name[3:]: data[name] for name in data.files if name.startswith("in:")}
    module = folder / f"{model.stem}.heddle"
    compile_s = peers.compile_network(heddle, model, module)
    opened, contenders = runtime.open(module), {}
    for which, threads, device in (("all", turns.cores(), arguments.device), ("one", 1, "one")):
        contenders[f"ours {which}"], results = opened.instance(device).function().prepare(*inputs.values())
        for result, name in zip(results, (name for name in data.files if name.startswith("out:")), strict=True):
            if not peers.agree(result.numpy(), data[name]):
                raise RuntimeError(f"{model.name}, {which} cores: {name[4:]} is wrong")
        contenders[f"ORT {which}"] = peers.onnx_runtime_call(model, inputs, threads)
        if peers.openvino:
            contenders[f"OpenVINO {which}"] = peers.openvino_call(model, inputs, threads)
        if arguments.inductor:
            contenders[f"Inductor {which}"] = peers.inductor_call(model, inputs, threads)
    medians = turns.measure(contenders, arguments.rounds, arguments.seconds)
    row, ratios = [model.stem, f"{compile_s:.2f}"], []
    for which in ("all", "one"):
        others = [name for name in contenders if name.endswith(which) and not name.startswith("ours")]
        best = min(others, key=lambda name: statistics.median(medians[name]))
        ratios.append(turns.ratio(medians, f"ours {which}", best))
        row += [turns.milliseconds(medians[name]) for name in (f"ours {which}", *others)] + [f"{ratios[-1]:.2f}"]
    return row, ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0.5, help="time for each contender in each round")
    parser.add_argument("--device", default="cpu", help="Heddle's device for all cores")
    parser.add_argument("--inductor", action="store_true", help="time torch.compile as well; needs what export_networks.py needs")
    arguments = parser.parse_args()
    heddle, runtime = str(heddle_ctypes.command_path()), heddle_ctypes.Runtime(heddle_ctypes.one_core_config())
    rows, ratios = [], []
    with tempfile.TemporaryDirectory(prefix="heddle-bench-") as folder:
        for model in arguments.models:
            row, pair = bench(heddle, runtime, model, pathlib.Path(folder), arguments)
            print("; ".join(row), file=sys.stderr, flush=True)  # kept if a later one fails
            rows.append(row)
            ratios.append(pair)
    others = ["ONNX Runtime"] + (["OpenVINO"] if peers.openvino else []) + (["Inductor"] if arguments.inductor else [])
    print(f"{turns.machine()}; {peers.versions()}; f32; {arguments.rounds} rounds in turns, medians\n")
    headings = ["network", "compile s"]
    for which in (f"{turns.cores()} cores", "1 core"):
        headings += [f"{name} ms, {which}" for name in ["Heddle"] + others] + ["ratio"]
    print(turns.table(headings, rows))
    means = [statistics.geometric_mean(column) for column in zip(*ratios, strict=True)]
    print(f"\ngeometric mean of the ratios to the best one: {means[0]:.2f} with all cores, {means[1]:.2f} with one")
    return 0


if __name__ == "__main__":
    sys.exit(main())
