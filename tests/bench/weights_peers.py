# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loading a safetensors file on a CPU, beside IREE's ParameterIndex and safetensors' own loader: until the weights can be used, the first result, and
closing. Needs iree-base-runtime, iree-base-compiler and safetensors from PyPI (tools/dev/setup --bench).

    weights_peers.py [--tensors 20] [--megabytes 100]

The file is in the page cache. The result is the sum of the rows of all tensors, times an argument, which reads every value once. IREE runs on local-task
with all cores; safetensors' tensors are summed by NumPy on one.
"""
import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import heddle_ctypes
import turns
from open_large import COLUMNS, write_weights

ONES = np.ones(COLUMNS, "f4")  # an argument, so that neither compiler computes the result when the weights are loaded


def heddle_source(count, rows):
    table, row = f"tensor<{rows}x{COLUMNS}xf32>", f"tensor<{COLUMNS}xf32>"
    lines = [f'module {{\n  func.func @main(%x: {row} {{tx.name = "x"}}) -> ({row} {{tx.name = "y"}}) {{',
             f"    %b = tx.broadcast %x {{dimensions = array<i64: 1>}} : {row} -> {table}"]
    for i in range(count):
        lines.append(f'    %w{i} = tx.parameter "w{i}" : {table}')
        lines.append(f"    %p{i} = tx.mul %w{i}, %b : {table}")
        lines.append(f"    %r{i} = tx.reduce sum %p{i} {{axes = array<i64: 0>}} : {table} -> {row}")
        lines.append(f"    %s{i} = tx.add %{'s' if i > 1 else 'r'}{i - 1}, %r{i} : {row}" if i else "")
    return "\n".join([*lines, f"    return %{'s' if count > 1 else 'r'}{count - 1} : {row}\n  }}\n}}\n"])


def iree_source(count, rows):
    table, row = f"tensor<{rows}x{COLUMNS}xf32>", f"tensor<{COLUMNS}xf32>"
    lines = ["module @m {"]
    lines += [f'  util.global private @w{i} = #flow.parameter.named<"model"::"w{i}"> : {table}' for i in range(count)]
    lines.append(f"  func.func @main(%x: {row}) -> {row} {{\n    %zero = arith.constant 0.0 : f32\n    %empty = tensor.empty() : {row}")
    lines.append(f"    %s0 = linalg.fill ins(%zero : f32) outs(%empty : {row}) -> {row}")
    for i in range(count):
        lines.append(f"    %w{i} = util.global.load @w{i} : {table}")
        lines.append(f'    %s{i + 1} = linalg.generic {{indexing_maps = [affine_map<(c, r) -> (r, c)>, affine_map<(c, r) -> (c)>, affine_map<(c, r) -> (c)>], '
                     f'iterator_types = ["parallel", "reduction"]}} ins(%w{i}, %x : {table}, {row}) outs(%s{i} : {row}) {{\n'
                     f"    ^bb0(%w: f32, %a: f32, %s: f32):\n      %p = arith.mulf %w, %a : f32\n      %t = arith.addf %s, %p : f32\n"
                     f"      linalg.yield %t : f32\n    }} -> {row}")
    return "\n".join([*lines, f"    return %s{count} : {row}\n  }}\n}}\n"])


class Heddle:
    def __init__(self, module, weights, method):
        self.runtime = heddle_ctypes.Runtime(f'[param_io]\nmethod = ["{method}"]\n' if method else "")
        self.module, self.weights = self.runtime.open(module), weights

    def load(self):
        self.function = self.module.instance("cpu:0", [self.weights]).function()

    def result(self):
        _, (result,) = self.function.prepare(ONES)
        return result.numpy()

    def close(self):
        del self.function


class Iree:
    def __init__(self, vmfb, weights, mode):
        import iree.runtime

        self.iree, self.weights, self.mode = iree.runtime, weights, mode
        self.instance = iree.runtime.VmInstance()
        self.device = iree.runtime.get_device("local-task")
        self.flat = vmfb.read_bytes()

    def load(self):
        index = self.iree.ParameterIndex()
        index.load(str(self.weights), format="safetensors", **({"mode": "file_async"} if self.mode == "file" else {"mmap": True}))
        parameters = self.iree.create_io_parameters_module(self.instance, index.create_provider(scope="model"))
        self.context = self.iree.SystemContext(vm_modules=[
            parameters, self.iree.create_hal_module(self.instance, self.device), self.iree.VmModule.copy_buffer(self.instance, self.flat)],
            config=self.iree.Config(device=self.device))

    def result(self):
        return np.asarray(self.context.modules.m["main"](ONES))

    def close(self):
        del self.context


class Safetensors:
    def __init__(self, weights):
        import safetensors.numpy

        self.load_file, self.weights = safetensors.numpy.load_file, weights

    def load(self):
        self.tensors = self.load_file(self.weights)

    def result(self):
        return sum(tensor.sum(axis=0) * ONES for tensor in self.tensors.values())

    def close(self):
        del self.tensors


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tensors", type=int, default=20)
    parser.add_argument("--megabytes", type=int, default=100, help="of each tensor")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    rows = options.megabytes * 1_000_000 // (COLUMNS * 4)
    with tempfile.TemporaryDirectory(prefix="heddle-bench-") as name:
        folder = pathlib.Path(name)
        weights, module, vmfb = folder / "w.safetensors", folder / "m.heddle", folder / "m.vmfb"
        write_weights(weights, options.tensors, rows)
        with open(weights, "r+b") as file:  # ones instead of the holes of a sparse file
            start = 8 + int.from_bytes(file.read(8), "little")
            file.seek(start)
            for _ in range(options.tensors):
                file.write(np.ones(rows * COLUMNS, "f4").tobytes())
        (folder / "m.mlir").write_text(heddle_source(options.tensors, rows))
        subprocess.run([heddle_ctypes.command_path(), "compile", folder / "m.mlir", "-o", module], check=True, stderr=subprocess.DEVNULL)
        (folder / "i.mlir").write_text(iree_source(options.tensors, rows))
        subprocess.run([pathlib.Path(sys.executable).parent / "iree-compile", folder / "i.mlir", "-o", vmfb, "--iree-hal-target-device=local",
                        "--iree-hal-local-target-device-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=host"], check=True)
        contenders = {
            "Heddle, default": Heddle(module, weights, ""), "Heddle, mapped": Heddle(module, weights, "mmap"),
            "IREE, mapped": Iree(vmfb, weights, "mmap"), "IREE, file handle": Iree(vmfb, weights, "file"),
            "safetensors": Safetensors(weights),
        }
        times = {label: [] for label in contenders}
        for turn in range(options.rounds):
            for label in list(contenders)[turn % len(contenders):] + list(contenders)[:turn % len(contenders)]:
                contender, stamps = contenders[label], [time.perf_counter()]
                contender.load()
                stamps.append(time.perf_counter())
                result = contender.result()
                stamps.append(time.perf_counter())
                contender.close()
                stamps.append(time.perf_counter())
                if not np.array_equal(result, np.full(COLUMNS, options.tensors * rows, "f4")):
                    sys.exit(f"weights_peers: {label} computed {result[:4]}, not {options.tensors * rows}")
                times[label].append([after - before for before, after in zip(stamps, stamps[1:])])
        print(turns.machine())
        print(f"{options.tensors * options.megabytes / 1000:g} GB in {options.tensors} tensors; medians of {options.rounds} rounds, ms")
        rows = []
        for label, all_ in times.items():
            rows.append((label, *(f"{statistics.median(column) * 1e3:.1f}" for column in zip(*all_)), f"{statistics.median(map(sum, all_)) * 1e3:.1f}"))
        print(turns.table(["loader", "load", "first result", "close", "all"], rows))


if __name__ == "__main__":
    main()
