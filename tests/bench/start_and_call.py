# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Start and small calls beside IREE: a whole process that runs one add, one call, 100 dependent 4x4 matmuls; other commands; sizes.

Needs iree-base-runtime and iree-base-compiler from PyPI (tools/dev/setup --bench). IREE runs on
local-sync, Heddle with one core. Whole processes are timed in turns; calls by each side's own
benchmark program, also in turns.
"""
import argparse
import importlib.metadata
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np
from onnx import TensorProto, helper

import heddle_ctypes
import turns

MATMULS = 100
STRIPPED_LIMIT = 2_500_000
# What an installation that only runs modules consists of, relative to the build folder.
SHIPPED = ("lib/libheddle.so*", "lib/heddle/plugins.d/*.so", "bin/heddle", "bin/heddle-*")
NOT_SHIPPED = ("libheddle_cuda.so", "heddle-compile", "heddle-tune", "heddle-page", "heddle-params", "heddle-profile", "heddle-import", "heddle-opt", "heddle-conformance")
# Fake and misbehaving plugins of the tests are never in plugins.d.


def value(name, shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def onnx_file(path, nodes, inputs, output):
    graph = helper.make_graph(nodes, path.stem, inputs, [output])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    path.write_bytes(model.SerializeToString())
    return path


def add_models(folder):
    model = onnx_file(folder / "add.onnx", [helper.make_node("Add", ["x", "y"], ["z"], name="add")],
                      [value("x", [4]), value("y", [4])], value("z", [4]))
    mlir = folder / "add.mlir"
    mlir.write_text(
        "func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {\n"
        "  %z = arith.addf %x, %y : tensor<4xf32>\n  return %z : tensor<4xf32>\n}\n"
    )
    return model, mlir


def matmul_models(folder):
    """y0 = x; y(i+1) = y(i) w, with w an argument: nothing can be computed ahead."""
    nodes = [
        helper.make_node("MatMul", ["x" if i == 0 else f"y{i}", "w"], [f"y{i + 1}"], name=f"matmul{i}")
        for i in range(MATMULS)
    ]
    model = onnx_file(folder / "matmuls.onnx", nodes, [value("x", [4, 4]), value("w", [4, 4])],
                      value(f"y{MATMULS}", [4, 4]))
    tensor = "tensor<4x4xf32>"
    lines = [f"func.func @main(%y0: {tensor}, %w: {tensor}) -> {tensor} {{",
             "  %zero = arith.constant 0.0 : f32", f"  %empty = tensor.empty() : {tensor}",
             f"  %init = linalg.fill ins(%zero : f32) outs(%empty : {tensor}) -> {tensor}"]
    lines += [f"  %y{i + 1} = linalg.matmul ins(%y{i}, %w : {tensor}, {tensor}) outs(%init : {tensor}) -> {tensor}"
              for i in range(MATMULS)]
    mlir = folder / "matmuls.mlir"
    mlir.write_text("\n".join([*lines, f"  return %y{MATMULS} : {tensor}", "}\n"]))
    return model, mlir


def run(*command):
    process = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if process.returncode != 0:
        sys.exit(f"start_and_call: {' '.join(map(str, command))} failed with exit code {process.returncode}:\n{process.stderr[-2000:]}")
    return process.stdout


def silent(*command):
    """A function that runs a whole process and looks at nothing but its exit code."""
    command = list(map(str, command))

    def call():
        process = os.posix_spawn(command[0], command, os.environ, file_actions=[
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0), (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)])
        if os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) != 0:
            raise RuntimeError(f"{' '.join(command)} failed")

    return call


class Iree:
    def __init__(self, folder):
        import iree.runtime

        self.programs = pathlib.Path(iree.runtime.__file__).parents[1] / "_runtime_libs"
        self.scripts = pathlib.Path(sys.executable).parent
        self.folder = folder
        self.version = importlib.metadata.version("iree-base-runtime")

    def compile(self, mlir):
        module = mlir.with_suffix(".vmfb")
        run(self.scripts / "iree-compile", mlir, "-o", module, "--iree-hal-target-device=local",
            "--iree-hal-local-target-device-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3")
        return module

    def run_command(self, module, inputs):
        return [self.programs / "iree-run-module", f"--module={module}", "--device=local-sync", "--function=main",
                *(f"--input={text}" for text in inputs)]

    def call_seconds(self, module, inputs):
        report = json.loads(run(
            self.programs / "iree-benchmark-module", f"--module={module}", "--device=local-sync", "--function=main",
            *(f"--input={text}" for text in inputs), "--benchmark_format=json", "--benchmark_min_time=0.2s",
        ))
        entry = report["benchmarks"][0]
        return entry["real_time"] * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}[entry["time_unit"]]


def other_commands(heddle, folder, config, rounds):
    """[(command, median ms, lowest median of a round)] of whole processes that run nothing; explain has ResNet-50."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models"))
    import light

    module = folder / "resnet50.heddle"
    run(heddle, "compile", light.randomized("resnet50"), "-o", module)
    commands = {"explain": ["explain", module], "devices": ["devices"], "plugins": ["plugins"], "config check": ["config", "check", config]}
    medians = turns.measure({name: silent(heddle, *command) for name, command in commands.items()}, rounds, 0.3, 20, 0.0)
    return [(f"`heddle {name}`", f"{statistics.median(all_) * 1e3:.2f}", f"{min(all_) * 1e3:.2f}") for name, all_ in medians.items()]


def runs(heddle, folder, rounds):
    """Rows about `heddle run` of ResNet-50, a whole process, and about its call alone."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models"))
    import light

    rows = []
    for label, model in {"weights made by nodes": light.published_path("resnet50"), "random weights in the file": light.randomized("resnet50")}.items():
        module = folder / "run.heddle"
        run(heddle, "compile", model, "-o", module)
        whole = turns.measure({"run": silent(heddle, "run", module, "--input", "1x3x224x224xf32=0.5")}, rounds, 0.3, 5, 0.0)["run"]
        calls = [json.loads(run(heddle, "bench", module, "--format", "json"))["median_ns"] * 1e-9 for _ in range(3)]
        median, call = statistics.median(whole) * 1e3, statistics.median(calls) * 1e3
        rows.append((label, f"{median:.1f}", f"{min(whole) * 1e3:.1f}", f"{call:.1f}", f"{median - call:.1f}"))
    return rows


def sizes(build, folder):
    """[(path, bytes stripped)] of what a machine needs that only runs modules, and the libraries these ask for."""
    rows, needed = [], set()
    for pattern in SHIPPED:
        for path in sorted(build.glob(pattern)):
            if path.is_symlink() or path.name in NOT_SHIPPED or not path.is_file():
                continue
            stripped = folder / path.name
            run("strip", "-o", stripped, path)
            rows.append((path.relative_to(build), stripped.stat().st_size))
            needed |= {line.split("[")[1].rstrip("]\n") for line in run("readelf", "-d", path).splitlines() if "(NEEDED)" in line}
    return rows, sorted(needed - {path.name for path, _ in rows})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    build = pathlib.Path(heddle_ctypes.library_path()).parent.parent
    heddle = build / "bin" / "heddle"
    with tempfile.TemporaryDirectory(prefix="heddle-bench-") as name:
        folder = pathlib.Path(name)
        iree = Iree(folder)
        rows = []
        add_onnx, add_mlir = add_models(folder)
        matmuls_onnx, matmuls_mlir = matmul_models(folder)
        turned = np.linalg.qr(np.random.default_rng(1).standard_normal((4, 4)))[0].astype(np.float32)
        numbers = ",".join(f"{x:.6f}" for x in turned.ravel())
        cases = {
            "add of 4 floats": (add_onnx, add_mlir, ["4xf32=1,2,3,4", "4xf32=5,6,7,8"]),
            f"{MATMULS} dependent 4x4 matmuls": (matmuls_onnx, matmuls_mlir, [f"4x4xf32={numbers}"] * 2),
        }
        config = folder / "one.toml"
        config.write_text(heddle_ctypes.one_core_config())
        calls = []
        for label, (model, mlir, inputs) in cases.items():
            module, vmfb = model.with_suffix(".heddle"), iree.compile(mlir)
            run(heddle, "compile", model, "-o", module)
            flags = [part for text in inputs for part in ("--input", text)]
            if "add" in label:
                run(heddle, "run", module, *flags)
                whole = turns.measure({
                    "ours": silent(heddle, "run", module, *flags),
                    "theirs": silent(*iree.run_command(vmfb, inputs)),
                }, rounds, 0.3, 20, 0.0)
                rows.append(["`heddle run` of one add, whole process, ms", *row(whole, "ours", 1e3, 2)])
            calls.append((label, module, vmfb, inputs, flags))
        for label, module, vmfb, inputs, flags in calls:
            both = {"ours": [], "theirs": []}
            for _ in range(rounds):
                report = json.loads(run(heddle, "bench", module, *flags, "--config", config, "--device", "one", "--format", "json"))
                both["ours"].append(report["median_ns"] * 1e-9)
                both["theirs"].append(iree.call_seconds(vmfb, inputs))
            rows.append([f"{label}, one call, µs", *row(both, "ours", 1e6, 2)])
        statistics_text = dispatches(calls[1][1], turned)
        print(f"{turns.machine()}; IREE {iree.version} on local-sync; {rounds} rounds in turns, medians\n")
        print(turns.table(["", "Heddle", "IREE", "ratio"], rows))
        print(f"\nstatistics of one call of the {MATMULS} matmuls: {statistics_text}")
        print("\n" + turns.table(["whole process, ms", "median", "lowest round"], other_commands(heddle, folder, config, rounds)))
        print("\n" + turns.table(["`heddle run` of ResNet-50, ms", "median", "lowest round", "a call", "beside it"], runs(heddle, folder, rounds)))
        files, needed = sizes(build, folder)
        total = sum(size for _, size in files)
        print("\n" + turns.table(["file, stripped", "bytes"], [*files, ("in all", total)]))
        print(f"\nlimit {STRIPPED_LIMIT}: {'kept' if total <= STRIPPED_LIMIT else 'EXCEEDED'}; other libraries: {', '.join(needed)}")
        theirs = iree.programs / "iree-run-module"
        print(f"IREE's iree-run-module: {theirs.stat().st_size} bytes")


def row(medians, ours, scale, digits):
    mine, theirs = (statistics.median(medians[name]) * scale for name in (ours, "theirs"))
    return [f"{mine:.{digits}f}", f"{theirs:.{digits}f}", f"{turns.ratio(medians, ours, 'theirs'):.2f}"]


def dispatches(module, matrix):
    """What the instance's statistics say after exactly one call; also checks the product."""
    instance = heddle_ctypes.Runtime(heddle_ctypes.one_core_config()).open(module).instance("one")
    _, (result,) = instance.function().prepare(matrix, matrix)
    expected = np.linalg.matrix_power(matrix.astype(np.float64), MATMULS + 1)
    if np.abs(result.numpy() - expected).max() > 1e-3:
        raise RuntimeError("the matmuls' result is wrong")
    return instance.report("statistics")


if __name__ == "__main__":
    main()
