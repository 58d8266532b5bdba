#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares where the interpreter has the elements of matrices with AMD's matrix instruction calculator.

  against_calculator.py CALCULATOR [--run BUILD/tests/amdgpu-run]

CALCULATOR is a checkout of https://github.com/ROCm/amd_matrix_instruction_calculator, which is not part of this tree; it needs no package for this. For
every instruction of CDNA2, CDNA3, RDNA3 and RDNA4 that the calculator lists and that is not sparse, with every cbsz, abid, blgp and op_sel that it takes,
for waves of 32 and of 64, the register, the bits in it and the lanes of every element of A, B, C and D are compared. Ends with 1 if something differs, or
if either side does not know an instruction of the other.
"""
import argparse
import importlib.util
import pathlib
import re
import subprocess
import sys
import types

PROCESSORS = {"gfx90a": "cdna2", "gfx942": "cdna3", "gfx1100": "rdna3", "gfx1201": "rdna4"}


def load(folder):
    """The calculator's module. It imports a package to draw tables, which is not needed here."""
    path = pathlib.Path(folder) / "matrix_calculator.py"
    if not path.exists():
        raise SystemExit(f"against_calculator: {path} does not exist; give a checkout of the calculator's repository")
    if importlib.util.find_spec("tabulate") is None:
        stand_in = types.ModuleType("tabulate")
        stand_in.tabulate = None
        sys.modules["tabulate"] = stand_in
    spec = importlib.util.spec_from_file_location("matrix_calculator", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["matrix_calculator"] = module
    spec.loader.exec_module(module)
    return module


def questions_of(module):
    """(processor, wave, mnemonic, description, modifiers): cbsz, abid, blgp, op_sel."""
    for processor, architecture in PROCESSORS.items():
        is_cdna = architecture.startswith("cdna")
        for name, info in module.dict_insts[architecture].items():
            if info["sparse"]:
                continue
            groups = [(0, 0)]
            if is_cdna and info["cbsz_abid"]:
                groups = [(cbsz, abid) for cbsz in range(5) if 1 << cbsz <= info["blocks"] for abid in range(1 << cbsz)]
            # Of f64, blgp is the signs of the operands.
            patterns = range(8) if is_cdna and info["blgp"] and info["in_type"] != "fp64" else [0]
            halves = [0, 4] if info["cd_opsel"] else [0]
            for wave in [64] if is_cdna else [32, 64]:
                for cbsz, abid in groups:
                    for blgp in patterns:
                        for half in halves:
                            yield processor, wave, name, info, (cbsz, abid, blgp, half)


def register_of(text):
    """'v3.[15:8]' or 'v[3:2]' as the first bit, and the number of bits."""
    if match := re.fullmatch(r"v(\d+)(?:\.\[(\d+):(\d+)\])?", text):
        high, low = (int(match[2]), int(match[3])) if match[2] else (31, 0)
        return int(match[1]) * 32 + low, high - low + 1
    match = re.fullmatch(r"v\[(\d+):(\d+)\]", text)
    return int(match[2]) * 32, 32 * (int(match[1]) - int(match[2]) + 1)


def places_of(calculator, info, matrix, modifiers):
    """The calculator's places, in the order in which amdgpu-run prints them: (first bit, bits, lanes)."""
    rows, columns, depth = info["m"], info["n"], info["k"]
    for block in range(info["blocks"]):
        if matrix == "a":
            indices = ((i, 0, k) for i in range(rows) for k in range(depth))
        elif matrix == "b":
            indices = ((0, j, k) for k in range(depth) for j in range(columns))
        else:
            indices = ((i, j, 0) for i in range(rows) for j in range(columns))
        cbsz, abid, blgp, half = modifiers
        # Each modifier moves one matrix; the calculator's functions take them for all.
        own = (cbsz, abid, 0) if matrix == "a" else (0, 0, blgp) if matrix == "b" else (0, 0, 0)
        for i, j, k in indices:
            _, register, lanes = calculator._get_reg_lanes(matrix, i, j, k, block, *own, half)  # pylint: disable=protected-access
            yield (*register_of(register), sorted(lanes))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("calculator", metavar="CALCULATOR")
    parser.add_argument("--run", default="build/release/tests/amdgpu-run", metavar="FILE", help="amdgpu-run (build/release/tests/amdgpu-run)")
    options = parser.parse_args()
    module = load(options.calculator)
    classes = {"gfx90a": module.InstCalcGfx9, "gfx942": module.InstCalcGfx9, "gfx1100": module.InstCalcGfx11, "gfx1201": module.InstCalcGfx12}
    questions = list(questions_of(module))
    text = "".join(f"{processor} {wave} {name} {m[0]} {m[1]} {m[2]} {m[3]}\n" for processor, wave, name, _, m in questions)
    answers = subprocess.run([options.run, "--layouts"], input=text, capture_output=True, text=True, check=True).stdout.splitlines()
    if len(answers) != len(questions):
        raise SystemExit(f"against_calculator: {len(questions)} questions, {len(answers)} answers")
    names, counts, wrong = {}, {}, 0
    for (processor, wave, name, info, modifiers), answer in zip(questions, answers):
        what = f"{processor} {name}, waves of {wave}, cbsz {modifiers[0]}, abid {modifiers[1]}, blgp {modifiers[2]}, op_sel {modifiers[3]}"
        if answer == "unknown":
            print(f"{what}: the interpreter does not know it")
            wrong += 1
            continue
        names.setdefault(processor, set()).add(name)
        bits, *lists = answer.split(" ;")
        bits_ab, bits_d = map(int, bits.split())
        calculator = classes[processor](name, info, wave)
        # RDNA3 has A and B in every 16 lanes.
        repeats = processor == "gfx1100"
        for matrix in "abcd":
            own = lists["abd".index(matrix if matrix != "c" else "d")].split()
            expected = list(places_of(calculator, info, matrix, modifiers))
            size = bits_ab if matrix in "ab" else bits_d
            differences = 0
            for got, (first, count, lanes) in zip(own, expected):
                lane, element = map(int, got.split("."))
                own_lanes = [lane + 16 * n for n in range(wave // 16)] if repeats and matrix in "ab" else [lane]
                if (element * size, size, own_lanes) != (first, count, lanes):
                    differences += 1
                    if differences == 1:
                        print(f"{what}, {matrix.upper()}: bit {element * size} of {size} in lanes {own_lanes}; "
                              f"the calculator says bit {first} of {count} in lanes {lanes}")
            if differences or len(own) != len(expected):
                print(f"{what}, {matrix.upper()}: {differences} of {len(expected)} places differ, {len(own)} are known")
                wrong += 1
            counts[processor] = counts.get(processor, 0) + len(expected)
    for processor in PROCESSORS:
        print(f"{processor}: {len(names.get(processor, ()))} instructions, {counts.get(processor, 0):,} places")
    print(f"{sum(map(len, names.values()))} instructions, {len(questions)} forms of them, {sum(counts.values()):,} places; {wrong} differ")
    return 1 if wrong or not counts else 0


if __name__ == "__main__":
    sys.exit(main())
