# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shows that random graphs find miscompiles: plants faults in a copy of the compiler, and runs graphs against each one until it is found.

    planted_faults.py [--build FOLDER [--only N ...] [--count N]]

Without --build it only says whether the table below still fits the sources. FOLDER is for the copy and its build, which is made once: HEDDLE_PLANTED says
which fault a process has. A second run in the same folder builds only what has changed. A fault is found if a graph is wrong that is right without it.
Exits with 1 if one is not found.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
GRAPHS = ROOT / "tests" / "random_graphs" / "random_graphs.py"
HEADER = pathlib.Path("compiler/planted.h")
# What compiles and runs a graph on the CPU.
TARGETS = ["heddle", "heddle_compiler", "heddle_probe", "heddle_cpu", "heddle_pool"]
GRAPHS_WITHOUT_FAULT = 200


class Fault(NamedTuple):
    """`right` is an expression that is in the file once, `wrong` one of the same type."""
    what: str
    file: str
    right: str
    wrong: str
    arguments: tuple = ()  # of random_graphs.py, where the fault needs more than graphs of f32


FAULTS = [
    # import
    Fault("a negative axis is the last one, whichever it counts to", "compiler/import/onnx_graph.cpp",
          "value < 0 ? value + rank : value", "value < 0 ? rank - 1 : value"),
    Fault("a slice that goes backwards to the front leaves the first element out", "compiler/import/onnx_slice.cpp",
          "std::clamp<int64_t>(end, -1, extent - 1)", "std::clamp<int64_t>(end, 0, extent - 1)"),
    # passes
    Fault("casts to i8 and back are only kept inside its range, also where numbers are not whole", "compiler/passes/fold_casts.cpp",
          "!is_whole(value)", "false"),
    Fault("of two offsets a channel that become one, the first is forgotten", "compiler/passes/fold_scales.cpp",
          "broadcast_last(rewriter, op.getLoc(), type, merged)", "broadcast_last(rewriter, op.getLoc(), type, outer)"),
    Fault("a softmax that a transpose moves behind keeps the number of its axis", "compiler/passes/propagate_transposes.cpp",
          "transpose.getPermutation()[op.getAxis()]", "static_cast<int64_t>(op.getAxis())"),
    Fault("a look-up of quantized elements subtracts their scale, not their zero", "compiler/passes/keep_quantized.cpp",
          "factor(*quantized->zero)", "factor(*quantized->scale)"),
    # stages
    Fault("a cumulative sum that is both reverse and exclusive has the element itself, too", "compiler/stage/root_fold.cpp",
          "!cumsum.getExclusive()", "!cumsum.getExclusive() || cumsum.getReverse()"),
    Fault("a mean over several axes is divided by the extent of the last one alone", "compiler/stage/root_fold.cpp",
          "count * extents[axis]", "extents[axis]"),
    Fault("a convolution of several columns a group takes the channels of another group", "compiler/stage/root_contract.cpp",
          "column.floorDiv(group_columns) * filter[spatial] + channel", "(column % groups) * filter[spatial] + channel", ("--type", "float64")),
    Fault("a scatter leaves updates of negative indices out", "compiler/stage/root_order.cpp",
          "b.create<arith::AddIOp>(location, index, size)", "b.create<arith::AddIOp>(location, index, index)"),
    Fault("the highest bit is a sign where integers without one are sorted", "compiler/stage/root_order.cpp",
          "no_sign ? arith::CmpIPredicate::ult : arith::CmpIPredicate::slt", "arith::CmpIPredicate::slt"),
    # what all targets emit
    Fault("rows that are gone through side by side keep their elements in the same memory", "compiler/targets/rows.cpp",
          "lanes * static_cast<int64_t>(point)", "int64_t{0}", ("--type", "float16")),
    Fault("a pad along two dimensions fills only what is outside along the inner one", "compiler/targets/element_evaluator.cpp",
          "both(condition, k_.splat(bounds.uniform, lanes))", "condition"),
    Fault("tanh goes by its series up to 0.75, not 0.25", "compiler/targets/expand_math.cpp",
          "compare(arith::CmpFPredicate::OLT, size, constant(0.25))", "compare(arith::CmpFPredicate::OLT, size, constant(0.75))"),
    # x86-64
    Fault("the second vector of a tile gets the bias of the first, where the tail of the product is long", "compiler/targets/x86_64/microkernel.cpp",
          "operands[j]", "operands[0]"),
    Fault("at the left border of a depthwise convolution the filter begins with its first column", "compiler/targets/x86_64/depthwise.cpp",
          "k_.make<vector::FMAOp>(element, load_filter(tap, s, channel, mask), inner[0])",
          "k_.make<vector::FMAOp>(element, load_filter(tap, k_.sub(s, from), channel, mask), inner[0])"),
    Fault("attention leaves the value of the last key out", "compiler/targets/x86_64/attention.cpp",
          "multiply(count, layout_.scores, padded_keys_, keys_, layout_.value_panels, layout_.sums, k_.index(layout_.sums_ldc), unit, units)",
          "multiply(count, layout_.scores, padded_keys_, k_.sub(keys_, k_.index(1)), layout_.value_panels, layout_.sums, k_.index(layout_.sums_ldc), unit, "
          "units)"),
    Fault("where tiles of Winograd's algorithm reach beyond the image, the rows of their results are taken for columns", "compiler/targets/x86_64/winograd.cpp",
          "k_.add(row, k_.div(p, k_.index(2)))", "k_.add(row, k_.rem(p, k_.index(2)))"),
    # host programs
    Fault("a number of workgroups that symbols say is rounded down", "compiler/emit/registers.cpp",
          "module_format::Op::CeilDiv", "module_format::Op::FloorDiv"),
    Fault("regions that differ in attributes alone have one kernel", "compiler/emit/kernels.cpp",
          "op.getAttrDictionary()", "DictionaryAttr::get(op.getContext())"),
]

PLANTED = """// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Written by tests/random_graphs/planted_faults.py, for a copy of the tree alone.
#pragma once

#include <cstdlib>

namespace heddle {

// Whether the compiler of this process has the fault.
inline bool planted(int number) {
  static const int chosen = [] {
    const char* text = std::getenv("HEDDLE_PLANTED");
    return text ? std::atoi(text) : 0;
  }();
  return chosen == number;
}

}  // namespace heddle
"""


def planted_sources():
    """The text of each file that has faults, with all of them."""
    sources = {}
    for number, fault in enumerate(FAULTS, 1):
        path = pathlib.Path(fault.file)
        source = (ROOT / path).read_text() if (ROOT / path).is_file() else ""
        text = sources.get(path) or f'#include "{HEADER}"\n' + source
        found = text.count(fault.right)
        if found != 1:
            sys.exit(f"planted_faults.py: fault {number} ({fault.what}) is planted where {fault.file} has `{fault.right}`, which it has {found} times; 1 was "
                     "expected. Mend the table")
        sources[path] = text.replace(fault.right, f"(heddle::planted({number}) ? ({fault.wrong}) : ({fault.right}))")
    return sources


def copy_tree(folder, sources):
    """The files that git does not ignore, with the faults; what is there already is not written again, so that only what has changed is built."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    contents = {HEADER: PLANTED.encode(), **{path: text.encode() for path, text in sources.items()}}
    for path in {HEADER, *(pathlib.Path(name) for name in listed if name)}:
        source, target = ROOT / path, folder / path
        if path not in contents and (not source.is_file() or source.is_relative_to(folder)):  # removed, and not yet for git; or a copy itself
            continue
        content = contents[path] if path in contents else source.read_bytes()
        if target.is_file() and target.read_bytes() == content:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        if source.is_file():
            shutil.copymode(source, target)


def build(folder):
    """The folder of its programs."""
    made = folder / "build" / "release"
    subprocess.run(["cmake", "--preset", "release", "-DHEDDLE_TESTS=OFF", f"-DHEDDLE_PYTHON={sys.executable}"], cwd=folder, check=True)
    jobs = os.environ.get("HEDDLE_JOBS", str(os.cpu_count()))
    subprocess.run(["cmake", "--build", str(made), "-j", jobs, "--target", *TARGETS], check=True)
    return made / "bin"


def run_graphs(bin_folder, number, *arguments):
    """random_graphs.py against the fault, or against none if it is 0."""
    environment = {**os.environ, "HEDDLE_BIN": str(bin_folder), "HEDDLE_PLANTED": str(number)}
    return subprocess.run([sys.executable, "-B", GRAPHS, *arguments], env=environment, text=True, capture_output=True)


def check(bin_folder, number, fault, count):
    """(verdict, graphs)."""
    process = run_graphs(bin_folder, number, "--seed", "0", "--count", str(count), "--until-found", *fault.arguments)
    wrong = re.search(r"^seed (\d+): wrong\b", process.stdout, re.MULTILINE)
    if " graphs from seed " not in process.stdout:  # its last line
        print(process.stdout[-2000:] + process.stderr[-2000:], file=sys.stderr)
        return f"NOT FOUND: it ended with {process.returncode}", 0
    if not wrong:
        failed = len(re.findall(r"^seed \d+: failed\b(?!, after)", process.stdout, re.MULTILINE))
        return "NOT FOUND" + (f": {failed} graphs were refused" if failed else ""), count
    seed = int(wrong[1])
    if run_graphs(bin_folder, 0, "--seed", str(seed), "--count", "1", *fault.arguments).returncode != 0:
        return f"NOT FOUND: seed {seed} is not right without it", seed + 1
    return "found", seed + 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, metavar="FOLDER", help="for the copy of the tree and its build")
    parser.add_argument("--only", type=int, nargs="+", metavar="N", choices=range(1, len(FAULTS) + 1), help="these faults")
    parser.add_argument("--count", type=int, default=2000, help="graphs for each fault, at most")
    arguments = parser.parse_args()
    sources = planted_sources()
    if not arguments.build:
        print(f"all {len(FAULTS)} faults fit the sources")
        return 0
    folder = arguments.build.resolve()
    copy_tree(folder, sources)
    bin_folder = build(folder)
    chosen = [(number, FAULTS[number - 1]) for number in arguments.only or range(1, len(FAULTS) + 1)]
    for types in sorted({fault.arguments for _, fault in chosen} | {()}):
        process = run_graphs(bin_folder, 0, "--count", str(GRAPHS_WITHOUT_FAULT), *types)
        print(process.stdout + process.stderr, end="", flush=True)
        if process.returncode != 0:
            sys.exit("planted_faults.py: graphs are not right without a fault")
    print("\n| fault | what is wrong | | graphs | s |\n| ---: | --- | --- | ---: | ---: |", flush=True)
    missed = 0
    for number, fault in chosen:
        start = time.monotonic()
        verdict, graphs = check(bin_folder, number, fault, arguments.count)
        missed += verdict != "found"
        what = f"{fault.what} ({fault.arguments[-1]})" if fault.arguments else fault.what
        print(f"| {number} | {what} | {verdict} | {graphs} | {time.monotonic() - start:.0f} |", flush=True)
    print(f"\n{len(chosen) - missed} of {len(chosen)} found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
