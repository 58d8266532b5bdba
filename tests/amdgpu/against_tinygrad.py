#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Repeats dispatches that the interpreter has recorded in tinygrad's emulator of AMD GPUs, and compares the memory after them.

  mkdir records && HEDDLE_AMDGPU_RECORD=records build/release/tests/amdgpu_test --gtest_filter='*AmdgpuKernels*'
  python3 tests/amdgpu/against_tinygrad.py TINYGRAD records

TINYGRAD is a checkout of tinygrad's repository, whose test/mockgpu/amd has the emulator; packages of tinygrad lack it. It needs clang, and compiles
each instruction once: minutes for a test's kernels.
"""

import argparse
import collections
import contextlib
import ctypes
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import threading

# CDNA is the emulator's CDNA4, which has most instructions of the ones before.
ARCHITECTURES = {"gfx90a": "cdna", "gfx942": "cdna", "gfx1100": "rdna3", "gfx1201": "rdna4"}
# The name, how struct reads it, its bytes, and the largest difference that counts as close, as a part of the larger value and the block's median.
FLOATS = (("f32", "f", 4, 1e-5), ("f16", "e", 2, 2e-3), ("f64", "d", 8, 1e-12))
# Instructions that write caches back or invalidate them, which the emulator does not know: buffer_gl0_inv and buffer_gl1_inv of gfx1100, and of gfx1201
# global_inv, global_wb and global_wbinv with each scope. It gets as many s_nop instead.
CACHES = {"gfx1100": [struct.pack("<2I", word, 0) for word in (0xE0AC0000, 0xE0B00000)],
          "gfx1201": [struct.pack("<3I", word, scope << 18, 0) for word in (0xEE0AC07C, 0xEE0B007C, 0xEE13C07C) for scope in range(4)]}
NOTHING = struct.pack("<I", 0xBF800000)


LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Memory:
    """Bytes at an address, which may be given, with the rest of the last page behind them. They end with the object."""

    def __init__(self, data, address=None):
        self.size, self.mapped = len(data), len(data) + 4096
        # Readable and writable; private, anonymous, and at the address, if that is free.
        self.address = LIBC.mmap(address, self.mapped, 3, 0x22 | (0x100000 if address else 0), -1, 0)
        if self.address in (None, ctypes.c_void_p(-1).value):
            raise OSError(ctypes.get_errno(), f"mapping {len(data)} bytes at {address}")
        ctypes.memmove(self.address, data, len(data))

    def bytes(self):
        return ctypes.string_at(self.address, self.size)

    def __del__(self):
        LIBC.munmap(self.address, self.mapped)


def read(path):
    """The header, image and arguments of a record, and the bytes of each block before and after."""
    with open(path, "rb") as file:
        header = json.loads(file.readline())
        image, kernarg = file.read(header["image"]), bytearray(file.read(header["kernarg"]))
        blocks = [(address, file.read(size), file.read(size)) for address, size in header["blocks"]]
    return header, image, kernarg, blocks


def user_registers(header, kernarg_address, packet_address):
    """The scalar registers that the descriptor asks for, in the order of LLVM's User Guide for AMDGPU Backend, "Initial Kernel Execution State"."""
    values = []
    private = header["private_bytes"]
    for bit, count, value in ((1, 4, 0), (2, 2, packet_address), (4, 2, 0), (8, 2, kernarg_address), (16, 2, 1), (32, 2, 0), (64, 1, private)):
        if header["properties"] & bit:
            values += [value >> 32 * n & 0xFFFFFFFF for n in range(count)]
    return values + [0] * ((header["rsrc2"] >> 1 & 31) - len(values))


def reason_against(header):
    """Why the emulator cannot run a dispatch, or None."""
    architecture = ARCHITECTURES[header["processor"]]
    if header["wave_size"] != (64 if architecture == "cdna" else 32):
        return f"it has no waves of {header['wave_size']} on {architecture}"
    if any(grid % block for grid, block in zip(header["grid"], header["block"])):
        return "it has no workgroups that are smaller than the others"
    if header["private_bytes"] and header["processor"] == "gfx90a":
        return "private memory of gfx90a is addressed by buffer descriptors, which it does not swizzle"
    return None


def difference(got, expected):
    """'equal', 'close, ...' or 'different, ...'."""
    if got == expected:
        return "equal"
    texts = []
    for name, code, size, limit in FLOATS:
        if len(got) % size:
            continue
        wanted = [value for (value,) in struct.iter_unpack("<" + code, expected)]
        pairs = [(a, b) for (a,), b in zip(struct.iter_unpack("<" + code, got), wanted) if a != b]
        middle = sorted(abs(v) for v in wanted if math.isfinite(v))
        middle = middle[len(middle) // 2] if middle else 0.0
        largest = 0.0
        for a, b in pairs:
            if not (math.isnan(a) and math.isnan(b)):
                largest = max(largest, abs(a - b) / (max(abs(a), abs(b)) + middle) if math.isfinite(a) and math.isfinite(b) else math.inf)
        text = f"{len(pairs)} of {len(got) // size} {name} by at most {largest:.1e}"
        if largest <= limit and largest > 0:
            return "close, " + text
        if largest == 0:
            return f"equal but for NaNs or the sign of 0 as {name}"
        texts.append(text)
    return "different, " + " or ".join(texts)


def rank(result):
    return ("equal", "close", "different").index(result.split(",")[0].split(" ")[0])


def repeat(path, run_asm):
    """One record in the emulator: how its memory differs from that of the interpreter."""
    header, image, kernarg, blocks = read(path)
    why = reason_against(header)
    if why:
        return "not run: " + why
    for instruction in CACHES.get(header["processor"], ()):
        image = image.replace(instruction, NOTHING * (len(instruction) // 4))
    code = Memory(image, header["load_address"])
    copies = [(address, Memory(before), after) for address, before, after in blocks]
    for offset in header["pointers"]:
        (pointer,) = struct.unpack_from("<Q", kernarg, offset)
        for address, copy, after in copies:
            if address <= pointer < address + len(after):
                struct.pack_into("<Q", kernarg, offset, copy.address + pointer - address)
                break
    arguments = Memory(bytes(kernarg))
    grid, block = header["grid"], header["block"]
    packet = Memory(struct.pack("<6H5I4Q", 2, 3, *block, 0, *grid, header["private_bytes"], header["lds_bytes"], 0, arguments.address, 0, 0))
    # The descriptor leaves the size of LDS, in units of 512 bytes from bit 15 on, to the packet.
    rsrc2 = header["rsrc2"] & ~(0x1FF << 15) | (header["lds_bytes"] + 511) // 512 << 15
    groups = [all_items // items for all_items, items in zip(grid, block)]
    run_asm(code.address + header["entry"], len(image), *groups, *block, arguments.address, rsrc2, header["private_bytes"],
            ARCHITECTURES[header["processor"]], user_registers(header, arguments.address, packet.address))
    return max((difference(copy.bytes(), after) for _, copy, after in copies), key=rank, default="equal")


def work(paths):
    """In a process of its own, which a wild access may end: a line of JSON for each record."""
    from test.mockgpu.amd import emu  # pylint: disable=import-outside-toplevel,no-name-in-module

    # It flushes denormals of all types, as no mode of the hardware does. LLVM's kernels, and those of instruction_records.py, have them on.
    emu._MXCSRContext = contextlib.nullcontext  # pylint: disable=protected-access
    for path in paths:
        try:
            result = repeat(path, emu.run_asm)
        except Exception as error:  # pylint: disable=broad-exception-caught
            result = "not run: " + " ".join(str(error).split())[:200]
        print(json.dumps([path, result]), flush=True)


def results_of(options, paths):
    """Yields (path, result). A process that ends or says nothing is started again behind the record at fault."""
    folders = os.pathsep.join(filter(None, [options.tinygrad, os.environ.get("PYTHONPATH")]))
    path = os.pathsep.join([os.environ["PATH"], "/usr/lib/llvm-19/bin"])  # of clang
    left = list(paths)
    while left:
        command = [sys.executable, __file__, options.tinygrad, str(options.records), "--worker", *left]
        environment = {**os.environ, "PYTHONPATH": folders, "PATH": path, "DEV": "CPU"}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
            timer = None
            while left:
                timer = threading.Timer(options.seconds, process.kill)
                timer.start()
                line = process.stdout.readline()
                timer.cancel()
                if not line:
                    break
                done, result = json.loads(line)
                left.remove(done)
                yield done, result
            status = process.wait()
        if left:
            yield left.pop(0), f"not run: the emulator's process ended with {status}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tinygrad", help="a checkout of tinygrad's repository")
    parser.add_argument("records", type=pathlib.Path, help="the folder that HEDDLE_AMDGPU_RECORD named")
    parser.add_argument("--most", type=int, default=100_000, metavar="N", help="leave out dispatches of more than N instructions of waves (100,000)")
    parser.add_argument("--seconds", type=int, default=600, metavar="N", help="end a process of the emulator that says nothing for so long (600)")
    parser.add_argument("--worker", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker is not None:
        work(options.worker)
        return 0
    if not (pathlib.Path(options.tinygrad) / "test/mockgpu/amd/emu.py").exists():
        parser.error(f"{options.tinygrad} has no test/mockgpu/amd/emu.py; give a checkout of tinygrad's repository")
    headers = {}
    for path in options.records.glob("*.dispatch"):
        with open(path, "rb") as file:
            headers[str(path)] = json.loads(file.readline())
    if not headers:
        parser.error(f"{options.records} has no *.dispatch; run a test with HEDDLE_AMDGPU_RECORD={options.records}")
    chosen = [path for path in headers if headers[path]["instructions"] <= options.most]
    chosen.sort(key=lambda path: (headers[path]["processor"], headers[path]["kernel"], headers[path]["instructions"]))
    counts = collections.Counter()
    for path, result in results_of(options, chosen):
        header = headers[path]
        print(f"{header['processor']} {header['kernel']} grid {header['grid']} block {header['block']}: {result}", flush=True)
        counts[header["processor"], result.split(",")[0].split(":")[0].split(" but")[0]] += 1
    for (processor, result), count in sorted(counts.items()):
        print(f"{processor}: {count} {result}")
    print(f"{len(headers) - len(chosen)} of more than {options.most} instructions left out")
    return 1 if any(result == "different" for _, result in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
