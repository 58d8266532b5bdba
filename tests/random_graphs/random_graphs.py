# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles and runs random graphs, and compares their results with ONNX Runtime's.

    random_graphs.py [--seed N] [--count N] [--type float32|float16|bfloat16|float64|mixed] [--target LIST] [--device ALIAS] [--control] [--keep FOLDER]
                     [--interpret N] [--until-found] [--progress N]

Each seed is one graph (graph.py). A result that is not ONNX Runtime's, within what f32 allows, is held against the same graph in f64: wrong is what
is much farther from that than ONNX Runtime is. A graph whose f64 results change as much when its inputs change in the last bits, as
behind a floor or a comparison, or when what nodes give does, decides nothing, and is tried with other inputs. With --interpret the regions of each Nth graph are also interpreted (interpret_graph.cpp), and those results
are judged in the same way. With --until-found the first graph that is wrong is the last one. Exits with 1 if a graph is wrong, or is not compiled.
"""
import argparse
import ctypes
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))
import heddle_ctypes
from exact import REFUSALS, NotEvaluated, bf16_results, disturbed_results, evaluated, f64_results, session_options
from graph import Graph
from pieces import BFLOAT16, is_float

RIGHT, EMPTY, UNDECIDED, WRONG, FAILED = "right", "without a node", "undecided", "wrong", "failed"
# How many sets of inputs a graph is tried with, until one decides.
MOST_INPUTS = 5
# How much inputs are changed to see what hangs on their last bits.
LAST_BITS = {np.dtype(np.float32): 1e-6, np.dtype(np.float16): 2e-3, BFLOAT16: 1.6e-2, np.dtype(np.float64): 1e-14}
# By how much kernels may round what a node gives.
ROUNDING = {np.dtype(np.float32): 2e-7, np.dtype(np.float16): 1e-3, BFLOAT16: 8e-3, np.dtype(np.float64): 4e-16}
# The types of graphs by their seeds.
MIXED = [np.dtype(np.float32)] * 7 + [np.dtype(np.float64), np.dtype(np.float16), BFLOAT16]
# How far a result may be from ONNX Runtime's before f64 is asked, and from that in the end: of the value, and of the largest one.
TOLERANCE = {np.dtype(np.float32): 1e-5, np.dtype(np.float16): 4e-3, BFLOAT16: 3e-2, np.dtype(np.float64): 1e-11}


class Heddle:
    def __init__(self, target, device):
        self.runtime, self.device, self.target = heddle_ctypes.Runtime(), device, target
        self.compiler = ctypes.CDLL(str(heddle_ctypes.library_path().with_name("libheddle_compiler.so")))

    def compile(self, model, module, **options):
        self.runtime.library.compile(self.compiler, model, module, **{"target": self.target, **options})

    def run(self, module, names, feeds):
        function = self.runtime.open(module).instance(self.device).function()
        call, results = function.prepare(*(feeds[name] for name in names))
        call()
        return [result.numpy() for result in results]


class Interpreter:
    """The results of a graph by the stages of its regions, in f64; None for what is left out."""

    def __init__(self, heddle):
        self.heddle, self.interpreted, self.left_out = heddle, 0, 0
        program = heddle_ctypes.library_path().parents[1] / "tests" / "interpret_graph"
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, path, folder, names, feeds, wanted):
        text = folder / "regions.mlir"
        # Weights are panels for the CPU, in an order of its own.
        self.heddle.compile(path, folder / "other.heddle", target="cuda:sm_80", dump_after="heddle-form-dispatches", dump_path=text)
        for index, name in enumerate(names):
            (folder / f"{index}.in").write_bytes(feeds[name].astype(np.float64).tobytes())
        print(text, folder, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().strip()
        if answer.startswith("left out"):
            self.left_out += 1
            return None
        if answer != "done":
            raise RuntimeError(f"interpret_graph ended with {self.process.wait()}")
        self.interpreted += 1
        return [np.fromfile(folder / f"{index}.out").reshape(one.shape) for index, one in enumerate(wanted)]


def distance(got, wanted):
    """The largest error, of each value and of the largest one; infinity where only one of them is finite, or another shape."""
    if got.shape != wanted.shape:
        return np.inf
    got, wanted = got.astype(np.float64), wanted.astype(np.float64)
    odd = ~np.isfinite(wanted) | ~np.isfinite(got)
    if not np.array_equal(np.where(odd, got, 0), np.where(odd, wanted, 0), equal_nan=True):
        return np.inf
    got, wanted = np.where(odd, 0, got), np.where(odd, 0, wanted)
    scale = np.maximum(np.abs(wanted), 0.05 * np.abs(wanted).max(initial=0) + 1e-6)
    return float((np.abs(got - wanted) / scale).max(initial=0))


def changed(feeds, random, by):
    """The inputs, changed in the last bits."""
    return {name: array.astype(np.float64) * (1 + random.uniform(-by, by, array.shape)) if is_float(array.dtype) else array for name, array in feeds.items()}


def disturbed_often(model, feeds, by, seed):
    try:
        return [disturbed_results(model, feeds, by, seed + i) for i in range(8)]
    except NotEvaluated:
        return []


def depends_on_rounding(got, exact, index, model, feeds):
    """Whether every element of a result of integers or bools is the one of f64, or the one evaluated in the model's own types: then only rounding sets them apart."""
    if is_float(got.dtype) or got.shape != exact.shape:
        return False
    try:
        return bool(((got == exact) | (got == evaluated(model, model, feeds)[index])).all())
    except NotEvaluated:
        return False


def judge(got, wanted, model, feeds, seed, float_type):
    """(verdict, what there is to say) of results, given ONNX Runtime's."""
    tolerance = TOLERANCE[np.dtype(float_type)]
    outputs = [output.name for output in model.graph.output]
    suspects = [i for i in range(len(outputs)) if distance(got[i], wanted[i]) > (tolerance if is_float(wanted[i].dtype) else 0)]
    if not suspects:
        return RIGHT, ""
    random = np.random.default_rng(seed)
    try:
        exact = f64_results(model, feeds)
        others = [f64_results(model, changed(feeds, random, LAST_BITS[np.dtype(float_type)])) for _ in range(8)]
        others += disturbed_often(model, feeds, ROUNDING[np.dtype(float_type)], seed)
    except NotEvaluated as error:
        return UNDECIDED, str(error)
    verdict, text = RIGHT, ""
    for i in suspects:
        ours, theirs = distance(got[i], exact[i]), distance(wanted[i], exact[i])
        moved = max(distance(other[i], exact[i]) for other in others)
        if ours <= max(10 * tolerance, 4 * theirs):
            continue
        # Where the least of equal sums is, say, is a matter of rounding: neither has the index of f64.
        both_differ = not is_float(got[i].dtype) and got[i].shape == exact[i].shape and 0 < (got[i] != exact[i]).sum() <= 2 * (wanted[i] != exact[i]).sum()
        if moved > 0.1 * ours or moved > 100 * tolerance or both_differ or depends_on_rounding(got[i], exact[i], i, model, feeds):
            verdict = UNDECIDED if verdict == RIGHT else verdict
            continue
        verdict = WRONG
        text += f"; {outputs[i]} {got[i].dtype}{list(got[i].shape)}: error {ours:.2e}, ONNX Runtime's {theirs:.2e}, changed inputs' {moved:.2e}"
    return verdict, text


def check(seed, heddle, folder, float_type, interpreter=None, control=False):
    """(verdict, what there is to say)."""
    graph = Graph(seed, float_type, control)
    model = graph.model()
    if model is None:
        return EMPTY, ""
    path, module = folder / f"{seed}.onnx", folder / f"{seed}.heddle"
    onnx.save(model, path)
    names = [value.name for value in model.graph.input]
    feeds = graph.feeds
    np.savez(path.with_suffix(".npz"), **{name: feeds[name] for name in names})
    try:
        heddle.compile(path, module)
    except RuntimeError as error:
        return FAILED, str(error)
    for _ in range(MOST_INPUTS):
        verdict, text = check_with(feeds, names, model, path, module, heddle, seed, float_type, interpreter)
        if verdict != UNDECIDED:
            break
        feeds = graph.other_feeds()
        np.savez(path.with_suffix(".npz"), **{name: feeds[name] for name in names})
    return verdict, text


def others_results(path, model, feeds, float_type):
    """ONNX Runtime's, or those of f64 where it does not run the graph: of this type, say."""
    try:
        return onnxruntime.InferenceSession(str(path), session_options(), providers=["CPUExecutionProvider"]).run(None, feeds)
    except REFUSALS:
        return [array.astype(float_type) if is_float(array.dtype) else array for array in f64_results(model, feeds)]


def check_with(feeds, names, model, path, module, heddle, seed, float_type, interpreter):
    feeds = {name: feeds[name] for name in names}
    try:
        wanted = bf16_results(model, feeds) if float_type == BFLOAT16 else others_results(path, model, feeds, float_type)
    except NotEvaluated as error:
        return UNDECIDED, str(error)
    try:
        got = heddle.run(module, names, feeds)
    except RuntimeError as error:
        return FAILED, str(error)
    verdict, text = judge(got, wanted, model, feeds, seed, float_type)
    if verdict != WRONG and interpreter:
        meant = interpreter.run(path, path.parent, names, feeds, wanted)
        if meant:
            verdict, text = judge(meant, wanted, model, feeds, seed, float_type)
            text = text and "; as interpreted" + text
    return verdict, text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of the first graph")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--type", default="float32", choices=["float32", "float16", "bfloat16", "float64", "mixed"],
                        help="of floats; mixed: seven of ten graphs have f32, and one each of the others")
    parser.add_argument("--target", default="cpu:x86-64-v3", help="as of heddle compile")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--control", action="store_true", help="with branches, loops, extents that data decides, and sequences")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the graphs that are not right, and for their inputs")
    parser.add_argument("--interpret", type=int, default=0, metavar="N", help="interpret the regions of each Nth graph")
    parser.add_argument("--until-found", action="store_true", help="stop at the first graph that is wrong")
    parser.add_argument("--progress", type=int, default=0, metavar="N", help="print the counts after every N graphs")
    arguments = parser.parse_args()
    heddle, counts, start = Heddle(arguments.target, arguments.device), dict.fromkeys((RIGHT, EMPTY, UNDECIDED, WRONG, FAILED), 0), time.monotonic()
    interpreter = Interpreter(heddle) if arguments.interpret else None
    types = MIXED if arguments.type == "mixed" else [BFLOAT16 if arguments.type == "bfloat16" else np.dtype(arguments.type)]

    def summary():
        of_interpreter = f"; {interpreter.interpreted} interpreted, {interpreter.left_out} left out of that" if interpreter else ""
        return (f"{sum(counts.values())} graphs from seed {arguments.seed}, {arguments.type}, {arguments.target}: "
                + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()) + f"{of_interpreter}; {time.monotonic() - start:.0f} s")

    def stop(*_):
        print(f"stopped: {summary()}", flush=True)
        sys.exit(1)

    signal.signal(signal.SIGTERM, stop)
    with tempfile.TemporaryDirectory(prefix="heddle-random-") as name:
        folder = pathlib.Path(name)
        for seed in range(arguments.seed, arguments.seed + arguments.count):
            began = time.monotonic()
            turn = interpreter if arguments.interpret and seed % arguments.interpret == 0 else None
            verdict, text = check(seed, heddle, folder, types[seed % len(types)], turn, arguments.control)
            if time.monotonic() - began > 20:
                print(f"seed {seed}: {verdict}, after {time.monotonic() - began:.0f} s", flush=True)
            counts[verdict] += 1
            if verdict not in (RIGHT, EMPTY):
                print(f"seed {seed}: {verdict} {text}", flush=True)
                if arguments.keep:
                    arguments.keep.mkdir(parents=True, exist_ok=True)
                    for kept in (*folder.glob(f"{seed}.onnx"), *folder.glob(f"{seed}.npz")):
                        shutil.copy(kept, arguments.keep)
            if verdict == WRONG and arguments.until_found:
                break
            for path in folder.iterdir():
                path.unlink()
            if arguments.progress and sum(counts.values()) % arguments.progress == 0:
                print(f"so far: {summary()}", flush=True)
    print(summary())
    return 1 if counts[WRONG] or counts[FAILED] else 0


if __name__ == "__main__":
    sys.exit(main())
