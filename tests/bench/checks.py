# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the checks of values cost (docs/compiler.md): a model beside the same one without its checks, calls in turns.

    checks.py MODEL.onnx ...    and always a gather of 128 rows, of which nearly all the work is reading and checking indices

The second module is compiled from the imported IR, from whose function the verdicts are removed; the compiler then drops what computes them.
"""
import argparse
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper

import heddle_ctypes
import turns

ROWS, COLUMNS, INDICES = 30522, 384, 128


def gather(path):
    graph = helper.make_graph([helper.make_node("Gather", ["table", "ids"], ["rows"], name="rows")], "gather",
                              [helper.make_tensor_value_info("ids", TensorProto.INT64, [INDICES]),
                               helper.make_tensor_value_info("table", TensorProto.FLOAT, [ROWS, COLUMNS])],
                              [helper.make_tensor_value_info("rows", TensorProto.FLOAT, [INDICES, COLUMNS])])
    path.write_bytes(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    return path


def run(*command):
    process = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if process.returncode != 0:
        sys.exit(f"checks: {' '.join(map(str, command))} failed with exit code {process.returncode}:\n{process.stderr[-2000:]}")
    return process.stdout


def without_checks(text):
    """(IR without verdicts, how many there were): they are the last results of the function, one scalar i64 each (tx.checks)."""
    lines = text.split("\n")
    head = next(i for i, line in enumerate(lines) if "func.func @main" in line)
    count = lines[head].count('kind = "')
    if count == 0 or "tx.checks" not in lines[head]:
        sys.exit("checks: the model has no checks; name one with an index or a divisor from an input")
    lines[head] = re.sub(r"tx\.checks = \[.*?\](, )?", "", lines[head])
    lines[head] = re.sub(r"(, tensor<i64>){%d}\)" % count, ")", lines[head])
    end = max(i for i, line in enumerate(lines) if line.lstrip().startswith("return "))
    values, types = lines[end].split(" : ")
    names = values.strip()[len("return "):].split(", ")
    types = re.findall(r"tensor<[^>]*>", types)
    lines[end] = f"    return {', '.join(names[:-count])} : {', '.join(types[:-count])}"
    return "\n".join(lines), count


def inputs(model):
    """Ones of the shapes that the model declares: a valid index, a mask that hides nothing."""
    graph = onnx.load(model, load_external_data=False).graph
    stored = {tensor.name for tensor in graph.initializer}
    return [np.ones([d.dim_value for d in value.type.tensor_type.shape.dim], helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
            for value in graph.input if value.name not in stored]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", type=pathlib.Path, help="of known shapes, with an index or a divisor that the model computes or is given")
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    programs = heddle_ctypes.command_path().parent
    rows = []
    with tempfile.TemporaryDirectory(prefix="heddle-bench-") as name:
        folder = pathlib.Path(name)
        runtime = heddle_ctypes.Runtime()
        for model in [gather(folder / "gather.onnx"), *options.models]:
            weights = folder / "weights.safetensors"
            run(programs / "heddle", "compile", model, "-o", folder / "model.heddle", "--params-out", weights)
            checked = run(programs / "heddle-import", model.resolve())
            bare, count = without_checks(checked)
            calls = {}
            for label, text in {"with": checked, "without": bare}.items():
                source, module = folder / f"{label}.mlir", folder / f"{label}.heddle"
                source.write_text(text)
                run(programs / "heddle", "compile", source, "-o", module)
                calls[label], _ = runtime.open(module).instance("cpu:0", [weights]).function().prepare(*inputs(model))
            medians = turns.measure(calls, options.rounds)
            rows.append((model.stem, count, *(f"{statistics.median(medians[label]) * 1e6:.1f}" for label in calls), f"{turns.ratio(medians, 'with', 'without'):.4f}"))
    print(turns.machine())
    print(turns.table(["model", "checks", "with, us a call", "without", "with / without"], rows))


if __name__ == "__main__":
    main()
