# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The nine `light` networks with random weights: Heddle beside ONNX Runtime and OpenVINO, if it is installed, in turns, in one process.

Prints a Markdown table: compile seconds, file size, milliseconds of a call with all cores and with one, and the ratio to the better of the others
(below 1 is faster). Every result is compared with ONNX Runtime's before it is timed.
"""
import argparse
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models"))
import heddle_ctypes
import light
import peers
import turns


def bench(name, heddle, folder, arguments):
    model, image = light.randomized(name), light.random_input(name)
    module = pathlib.Path(folder, f"{name}.heddle")
    compile_s = statistics.median(peers.compile_network(heddle, model, module) for _ in range(arguments.compiles))
    inputs, (expected,) = peers.expected_of(model, image)
    opened, contenders = heddle_ctypes.Runtime(heddle_ctypes.one_core_config()).open(module), {}
    for which, threads, device in (("all", turns.cores(), arguments.device), ("one", 1, "one")):
        contenders[f"Heddle {which}"], results = opened.instance(device).function().prepare(image)
        if not peers.agree(results[0].numpy(), expected):
            raise RuntimeError(f"{name}, {which} cores: the result differs from ONNX Runtime's")
        contenders[f"ONNX Runtime {which}"] = peers.onnx_runtime_call(model, inputs, threads)
        if peers.openvino:
            contenders[f"OpenVINO {which}"] = peers.openvino_call(model, inputs, threads)
    medians = turns.measure(contenders, arguments.rounds, arguments.seconds)
    row, ratios = [name, f"{compile_s:.2f}", f"{module.stat().st_size / 1e6:.1f}"], []
    for which in ("all", "one"):
        of_these = [one for one in contenders if one.endswith(which)]
        best = min(of_these[1:], key=lambda one: statistics.median(medians[one]))
        ratios.append(turns.ratio(medians, of_these[0], best))
        row += [turns.milliseconds(medians[one]) for one in of_these] + [f"{ratios[-1]:.2f}"]
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
            try:
                row, pair = bench(name, heddle, folder, arguments)
                ratios.append(pair)
            except RuntimeError as error:
                print(f"{name}: {error}", file=sys.stderr)
                row = [name, "failed"] + [""] * (9 if peers.openvino else 7)
            print("; ".join(row), file=sys.stderr, flush=True)  # kept if a later one is not reached
            rows.append(row)
    print(f"{turns.machine()}; {peers.versions()}; f32, batch 1; {arguments.rounds} rounds in turns, medians\n")
    count = f"{turns.cores()} cores"
    headings = ["network", "compile s", "file MB"]
    for which in (count, "1 core"):
        headings += [f"{one} ms, {which}" for one in ["Heddle", "ONNX Runtime"] + (["OpenVINO"] if peers.openvino else [])] + ["ratio"]
    print(turns.table(headings, rows))
    if ratios:
        means = [statistics.geometric_mean(column) for column in zip(*ratios)]
        print(f"\ngeometric mean of the ratios to the better one: {means[0]:.2f} with {count}, {means[1]:.2f} with one")
    return 0 if len(ratios) == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
