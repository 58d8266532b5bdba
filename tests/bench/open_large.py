# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Opening and closing a module with many large weights from Python, beside one with a single weight of a page.

    open_large.py [--device cuda:0] [--tensors 1000] [--megabytes 100]

The weights are one sparse file of zeros, which takes no space on the disk. Every function reads one row of each tensor. On a CPU device the file is
mapped; on others the parameters are loaded in the background, and what is measured besides opening is closing while they load and, with --load, after.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLUMNS = 1024


def write_weights(path, count, rows):
    """A safetensors file of zeros: only its header takes space."""
    size, header = rows * COLUMNS * 4, {}
    for i in range(count):
        header[f"w{i}"] = {"dtype": "F32", "shape": [rows, COLUMNS], "data_offsets": [i * size, (i + 1) * size]}
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 64)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + count * size)


def write_model(path, count, rows):
    """y = the sum of one row of each tensor, in the tx dialect."""
    table, row = f"tensor<{rows}x{COLUMNS}xf32>", f"tensor<1x{COLUMNS}xf32>"
    lines = [f'module {{\n  func.func @main(%ids: tensor<1xi64> {{tx.name = "ids"}}) -> ({row} {{tx.name = "y"}}) {{']
    for i in range(count):
        lines.append(f'    %w{i} = tx.parameter "w{i}" : {table}')
        lines.append(f"    %g{i} = tx.gather %w{i}, %ids {{axis = 0 : i64}} : {table}, tensor<1xi64> -> {row}")
        lines.append(f"    %s{i} = tx.add %s{i - 1}, %g{i} : {row}" if i > 1 else f"    %s{i} = tx.add %g0, %g{i} : {row}" if i else "")
    lines.append(f"    return %{'s' if count > 1 else 'g'}{count - 1} : {row}\n  }}\n}}")
    path.write_text("\n".join(lines) + "\n")


def times(heddle, runtime, folder, name, device, background, load):
    """Milliseconds: opening, loading, the first call, closing."""
    stamps = [time.perf_counter()]
    module = heddle.open(folder / f"{name}.heddle", device, parameters=folder / f"{name}.safetensors", runtime=runtime, background=background)
    stamps.append(time.perf_counter())
    if load:
        module.wait()
    stamps.append(time.perf_counter())
    if load:
        module(np.array([1])).numpy()
    stamps.append(time.perf_counter())
    module.close()
    stamps.append(time.perf_counter())
    return [(after - before) * 1e3 for before, after in zip(stamps, stamps[1:])]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu:0")
    parser.add_argument("--tensors", type=int, default=1000)
    parser.add_argument("--megabytes", type=int, default=100, help="of each tensor")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--load", action="store_true", help="also wait until all is loaded, and call")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--modules", type=pathlib.Path, help="use the modules in this directory, or put them there if there are none")
    options = parser.parse_args()
    sys.path.insert(0, str(options.build / "python"))
    import heddle

    on_cpu = options.device.startswith("cpu")
    with tempfile.TemporaryDirectory(prefix="heddle-bench-") as temporary:
        folder = options.modules or pathlib.Path(temporary)
        sizes = {"empty": (1, 1), "full": (options.tensors, options.megabytes * 1_000_000 // (COLUMNS * 4))}
        for name, (count, rows) in sizes.items():
            write_weights(folder / f"{name}.safetensors", count, rows)
            if (folder / f"{name}.heddle").exists():
                continue
            write_model(folder / f"{name}.mlir", count, rows)
            subprocess.run([options.build / "bin" / "heddle", "compile", folder / f"{name}.mlir", "-o", folder / f"{name}.heddle", "--target",
                            "cpu,cuda:sm_90a"], check=True, stderr=subprocess.DEVNULL)
        runtime = heddle.Runtime(config_text='[param_io]\nmethod = ["mmap"]\n' if on_cpu else "")
        heddle.open(folder / "empty.heddle", options.device, parameters=folder / "empty.safetensors", runtime=runtime).close()
        rows = {name: [] for name in sizes}
        for _ in range(options.rounds):
            for name in sizes:
                rows[name].append(times(heddle, runtime, folder, name, options.device, not on_cpu, options.load))
        total = options.tensors * options.megabytes / 1000
        print(f"{options.device}: {options.tensors} tensors, {total:g} GB; medians of {options.rounds} rounds, ms")
        print("| module | open | load | first call | close |\n| --- | ---: | ---: | ---: | ---: |")
        medians = {name: [statistics.median(column) for column in zip(*rows[name])] for name in sizes}
        for name in sizes:
            print(f"| {name} | " + " | ".join(f"{value:.2f}" for value in medians[name]) + " |")
        print("| difference | " + " | ".join(f"{full - empty:.2f}" for empty, full in zip(*medians.values())) + " |")
        best = {name: [min(column) for column in zip(*rows[name])] for name in sizes}  # with a core for itself, on a busy machine
        print("| difference of the best | " + " | ".join(f"{full - empty:.2f}" for empty, full in zip(*best.values())) + " |")


if __name__ == "__main__":
    main()
