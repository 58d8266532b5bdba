# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loading weights that a GGUF file stores in blocks, beside the same weights as bf16 in a safetensors file, and beside reading the files alone.

    gguf_load.py [--device cuda:0] [--gigabytes 8] [--type bf16] [--formats bf16,Q8_0,Q4_K] [--cold] [--use rows|products] [--kept] [--mmap]

--gigabytes is the size of the values in the model's type. All files are in the page cache or, with --cold, not: their pages are dropped before each
measurement. `read` is the time in which several threads read the file by
pread, each over and over into a megabyte of ordinary memory of its own, and nothing else; it alternates with `load`, which is the creation of an instance,
from call to ready. `kept` is the same reading, in pieces of 4 MiB, into new memory that has the whole file afterwards, as a program needs that uses it: in
pages of 4 KiB, and in huge pages. `first` is the first load of the process, in which a GPU's driver also pins its memory and compiles the kernels that
decode. With PyTorch, `copy` is the time in which the file's bytes are copied from pinned memory to the GPU. Two rows of each weight, or their products with
a vector, are compared with NumPy's values.

`first call` is the first one after a load, `call` one after it; `ready` is (load + first call) / (read + call), for which pages that a load leaves to the
first call count.

--use products multiplies --batch rows with every weight, instead of looking a row up in each. --kept compiles the module for the blocks of the file (`--params-in`), which its kernels read; else it takes
values. Without --method, the driver chooses how to read: heddle.cpu maps files where it can keep their contents. --mmap is --method mmap,buffered.
"""
import argparse
import concurrent.futures
import json
import mmap
import os
import pathlib
import statistics
import struct
import subprocess
import tempfile
import time

import numpy as np

import heddle_ctypes

COLUMNS, TENSORS = 4096, 16
TILE_ROWS = 1024  # rows of a tensor repeat the first ones
GGUF_TYPES = {"Q8_0": (8, 32, 34), "Q4_K": (12, 256, 144)}  # number, elements and bytes of a block
clock = time.perf_counter  # --cpu-time: time.process_time
heddle_ctypes.DTYPES.setdefault(0x100D, np.dtype(np.uint16))  # bf16, where ml_dtypes is not installed
WIDTHS = {"f32": 4, "f16": 2, "bf16": 2}


def tile(name, random):
    """The bytes of TILE_ROWS rows: random, with scales that are normal numbers."""
    if name == "bf16":
        return (random.standard_normal(TILE_ROWS * COLUMNS, dtype=np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    _, elements, size = GGUF_TYPES[name]
    blocks = random.integers(0, 256, (TILE_ROWS * COLUMNS // elements, size), dtype=np.uint8)
    for at in range(0, 2 if name == "Q8_0" else 4, 2):
        blocks[:, at:at + 2] = (0.5 + random.random((len(blocks), 1))).astype(np.float16).view(np.uint8)
    return blocks.reshape(-1)


def row_values(name, content, row):
    """f32 values of one row, by the definitions of the types."""
    if name == "bf16":
        return (content.view(np.uint16)[row * COLUMNS:(row + 1) * COLUMNS].astype(np.uint32) << 16).view(np.float32)
    _, elements, size = GGUF_TYPES[name]
    count = COLUMNS // elements
    blocks = content.reshape(-1, size)[row * count:(row + 1) * count]
    d = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    if name == "Q8_0":
        return (blocks[:, 2:].view(np.int8).astype(np.float32) * d).reshape(-1)
    m, packed, q = blocks[:, 2:4].copy().view(np.float16).astype(np.float32), blocks[:, 4:16], blocks[:, 16:].reshape(-1, 4, 32)
    scales = np.concatenate([packed[:, :4] & 63, (packed[:, 8:] & 15) | (packed[:, :4] >> 6) << 4], 1).astype(np.float32)
    minima = np.concatenate([packed[:, 4:8] & 63, (packed[:, 8:] >> 4) | (packed[:, 4:8] >> 6) << 4], 1).astype(np.float32)
    values = np.stack([q & 15, q >> 4], 2).reshape(-1, 8, 32).astype(np.float32)
    return ((d * scales)[:, :, None] * values - (m * minima)[:, :, None]).reshape(-1)


def rounded(values, dtype):
    """Bits of the values in the model's type; bf16 by hand, since NumPy does not have it."""
    if dtype == "f32":
        return values.view(np.uint32)
    if dtype == "f16":
        with np.errstate(over="ignore"):
            return values.astype(np.float16).view(np.uint16)
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def write_file(path, name, rows, content):
    row_bytes = len(content) // TILE_ROWS
    size = rows * row_bytes
    if name == "bf16":
        header = {f"w{i}": {"dtype": "BF16", "shape": [rows, COLUMNS], "data_offsets": [i * size, (i + 1) * size]} for i in range(TENSORS)}
        text = json.dumps(header).encode()
        text += b" " * (-(8 + len(text)) % 64)
        head = struct.pack("<Q", len(text)) + text
    else:
        head = b"GGUF" + struct.pack("<IQQ", 3, TENSORS, 0)
        padded = size + -size % 32
        for i in range(TENSORS):
            label = f"w{i}".encode()
            head += struct.pack("<Q", len(label)) + label + struct.pack("<IQQIQ", 2, COLUMNS, rows, GGUF_TYPES[name][0], i * padded)
        head += b"\0" * (-len(head) % 32)
    with open(path, "wb") as file:
        file.write(head)
        for _ in range(TENSORS):
            for first in range(0, rows, TILE_ROWS):
                file.write(content[:min(TILE_ROWS, rows - first) * row_bytes])
            if name != "bf16":
                file.write(b"\0" * (-size % 32))


def write_products(path, rows, batch, blocks):
    """Products with each tensor, transposed, in the tx dialect: an ONNX file would contain the weights."""
    x, weight, y = f"tensor<{batch}x{COLUMNS}xf32>", f"tensor<{rows}x{COLUMNS}xf32>", f"tensor<{batch}x{rows}xf32>"
    results = ", ".join(f'{y} {{tx.name = "y{i}"}}' for i in range(TENSORS))
    lines = [f'module {{\n  func.func @main(%x: {x} {{tx.name = "x"}}) -> ({results}) {{']
    for i in range(TENSORS):
        lines.append(f'    %w{i} = tx.parameter "w{i}" {blocks}: {weight}')
        lines.append(f"    %y{i} = tx.matmul %x, %w{i} {{transpose_rhs}} : {x}, {weight} -> {y}")
    lines.append(f"    return {', '.join(f'%y{i}' for i in range(TENSORS))} : {', '.join([y] * TENSORS)}\n  }}\n}}")
    path.write_text("\n".join(lines) + "\n")


def write_model(path, rows, dtype, blocks):
    """One row of each tensor, in the tx dialect: an ONNX file would contain the weights."""
    table, row = f"tensor<{rows}x{COLUMNS}x{dtype}>", f"tensor<1x{COLUMNS}x{dtype}>"
    results = ", ".join(f'{row} {{tx.name = "y{i}"}}' for i in range(TENSORS))
    lines = [f'module {{\n  func.func @main(%ids: tensor<1xi64> {{tx.name = "ids"}}) -> ({results}) {{']
    for i in range(TENSORS):
        lines.append(f'    %w{i} = tx.parameter "w{i}" {blocks}: {table}')
        lines.append(f"    %g{i} = tx.gather %w{i}, %ids {{axis = 0 : i64}} : {table}, tensor<1xi64> -> {row}")
    lines.append(f"    return {', '.join(f'%g{i}' for i in range(TENSORS))} : {', '.join([row] * TENSORS)}\n  }}\n}}")
    path.write_text("\n".join(lines) + "\n")


def read_alone(path, threads, piece=1 << 20):
    size, memory = path.stat().st_size, mmap.mmap(-1, threads * piece)
    memory.write(bytes(threads * piece))
    descriptor = os.open(path, os.O_RDONLY)

    def part(index):
        view = memoryview(memory)[index * piece:(index + 1) * piece]
        for offset in range(index * piece, size, threads * piece):
            os.preadv(descriptor, [view], offset)

    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda _: time.sleep(0.01), range(threads)))  # starts them
        started = clock()
        list(pool.map(part, range(threads)))
        elapsed = clock() - started
    os.close(descriptor)
    return elapsed


def read_and_keep(path, threads, huge, piece=4 << 20):
    size = path.stat().st_size
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE if huge else mmap.MADV_NOHUGEPAGE)
    descriptor, whole = os.open(path, os.O_RDONLY), memoryview(memory)

    def part(index):
        for offset in range(index * piece, size, threads * piece):
            done, end = offset, min(offset + piece, size)
            while done < end:
                done += os.preadv(descriptor, [whole[done:end]], done)

    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda _: time.sleep(0.01), range(threads)))  # starts them
        started = clock()
        list(pool.map(part, range(threads)))
        elapsed = clock() - started
    os.close(descriptor)
    return elapsed


def drop(path):
    """Removes the file's pages from the page cache."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def copy_alone(size):
    """Seconds for as many bytes from pinned memory, in copies of 16 MiB; None without PyTorch and its GPU."""
    try:
        import torch

        pinned, there = torch.empty(1 << 24, dtype=torch.uint8, pin_memory=True), torch.empty(1 << 24, dtype=torch.uint8, device="cuda")
    except (ImportError, RuntimeError, AssertionError):
        return None
    there.copy_(pinned)
    torch.cuda.synchronize()
    started = clock()
    for _ in range(size >> 24):
        there.copy_(pinned, non_blocking=True)
    torch.cuda.synchronize()
    return clock() - started


def check(instance, name, content, rows, dtype):
    for row in (0, rows - 1):
        call, results = instance.function().prepare(np.array([row], np.int64))
        call()
        expected = rounded(row_values(name, content, row % TILE_ROWS), dtype)
        for i, result in enumerate(results):
            got = result.numpy().reshape(-1).view(expected.dtype)
            if not np.array_equal(got, expected):
                at = int(np.flatnonzero(got != expected)[0])
                raise SystemExit(f"{name}: value {at} of row {row} of w{i} is 0x{got[at]:x}, expected 0x{expected[at]:x}")


def check_products(instance, name, content, rows, x):
    _, results = instance.function().prepare(x)  # and calls
    for row in (0, rows - 1):
        values = row_values(name, content, row % TILE_ROWS).astype(np.float64)
        for i, result in enumerate(results):
            got, expected, scale = result.numpy()[:, row], x @ values, np.abs(x) @ np.abs(values)
            if np.max(np.abs(got - expected) / scale) > 1e-5:
                raise SystemExit(f"{name}: product {i} with row {row} is {got}, expected {expected}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu:0")
    parser.add_argument("--gigabytes", type=float, default=8)
    parser.add_argument("--type", choices=WIDTHS, default="bf16", help="of the values on the device")
    parser.add_argument("--formats", default="bf16,Q8_0,Q4_K")
    parser.add_argument("--cold", action="store_true", help="drop the file from the page cache before each measurement")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=min(16, len(os.sched_getaffinity(0))), help="of reading alone")
    parser.add_argument("--config", default="", help="more of heddle.toml")
    parser.add_argument("--use", choices=("rows", "products"), default="rows", help="of the weights")
    parser.add_argument("--batch", type=int, default=1, help="rows that are multiplied")
    parser.add_argument("--kept", action="store_true", help="the module reads blocks as the file has them; the type is f32")
    parser.add_argument("--method", default="", help="param_io.method, such as buffered or mmap,buffered")
    parser.add_argument("--cpu-time", action="store_true", help="of all threads of the process instead of the elapsed time, which other work changes")
    parser.add_argument("--mmap", action="store_true", help="--method mmap,buffered")
    options = parser.parse_args()
    if options.cpu_time:
        global clock
        clock = time.process_time
    if options.kept or options.use == "products":
        options.type = "f32"
    method = "mmap,buffered" if options.mmap else options.method
    if method:
        options.config += f"\nparam_io.method = {json.dumps(method.split(','))}\n"
    rows = max(TILE_ROWS, int(options.gigabytes * 1e9) // (TENSORS * COLUMNS * WIDTHS[options.type]))
    with tempfile.TemporaryDirectory(prefix="heddle-bench-") as temporary:
        folder = pathlib.Path(temporary)
        target = "cpu,cuda" if "cuda" in options.device else "cpu"
        x = np.random.default_rng(2).standard_normal((options.batch, COLUMNS), dtype=np.float32)
        runtime = heddle_ctypes.Runtime(f"version = 1\n{options.config}")

        def compiled(name):
            """A module for the file, or for files of any type."""
            blocks = f'{{scope = "", blocks = "{name}"}} ' if options.kept and name in GGUF_TYPES else ""
            if options.use == "products":
                write_products(folder / "model.mlir", rows, options.batch, blocks)
            else:
                write_model(folder / "model.mlir", rows, options.type, blocks)
            subprocess.run([heddle_ctypes.command_path(), "compile", folder / "model.mlir", "-o", folder / "model.heddle", "--target", target], check=True,
                           stderr=subprocess.DEVNULL)
            return runtime.open(folder / "model.heddle")

        print(f"{options.device}: {TENSORS} weights {options.type}[{rows},{COLUMNS}], {TENSORS * rows * COLUMNS * WIDTHS[options.type] / 1e9:.2f} GB; "
              f"{options.threads} threads read; {'cold' if options.cold else 'cached'}; method {method or 'by default'}; "
              f"medians of the {'CPU' if options.cpu_time else 'elapsed'} times of {options.rounds} rounds, ms")
        print("| file | GB | read | kept | kept, huge | copy | first | load | load / read | load / kept, huge | load / max(read, copy) | first call | call | "
              "ready |\n| --- |" + " ---: |" * 13)
        for name in options.formats.split(","):
            if name == "bf16" and options.type != "bf16":
                continue
            path, content = folder / ("bf16.safetensors" if name == "bf16" else f"{name}.gguf"), tile(name, np.random.default_rng(1))
            module = compiled(name)
            write_file(path, name, rows, content)
            read_alone(path, options.threads)

            def ready():
                if options.cold:
                    drop(path)

            def load():
                ready()
                started = clock()
                instance = module.instance(options.device, [path])
                return clock() - started, instance

            first, instance = load()
            if options.use == "products":
                check_products(instance, name, content, rows, x)
            else:
                check(instance, name, content, rows, options.type)
            del instance
            argument = x if options.use == "products" else np.array([rows - 1], np.int64)
            reads, kepts, huges, loads, copies, first_calls, calls = ([] for _ in range(7))
            for _ in range(options.rounds):
                ready()
                reads.append(read_alone(path, options.threads))
                for times, huge in ((kepts, False), (huges, True)):
                    ready()
                    times.append(read_and_keep(path, options.threads, huge))
                elapsed, instance = load()
                loads.append(elapsed)
                for of_calls in (first_calls, calls):
                    started = clock()
                    if of_calls is first_calls:
                        call, _ = instance.function().prepare(argument)  # and calls
                    else:
                        call()
                    of_calls.append(clock() - started)
                del call, instance
                copies.append(copy_alone(path.stat().st_size) if "cuda" in options.device else None)
            read, kept, huge, loaded, first_call, call = map(statistics.median, (reads, kepts, huges, loads, first_calls, calls))
            copy = None if None in copies else statistics.median(copies)
            copied = "" if copy is None else f"{copy * 1e3:.1f}"
            print(f"| {name} | {path.stat().st_size / 1e9:.2f} | {read * 1e3:.1f} | {kept * 1e3:.1f} | {huge * 1e3:.1f} | {copied} | {first * 1e3:.1f} | "
                  f"{loaded * 1e3:.1f} | {loaded / read:.2f} | {loaded / huge:.2f} | {loaded / max(read, copy or 0):.2f} | {first_call * 1e3:.1f} | "
                  f"{call * 1e3:.2f} | {(loaded + first_call) / (read + call):.2f} |", flush=True)
            path.unlink()


if __name__ == "__main__":
    main()
