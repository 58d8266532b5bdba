# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A chain of calls in which each replaces a large state: donated, updated in place, and borrowed. Memory of the device against the plan, and time.

    donated_chain.py [--device cuda:0] [--megabytes 1000] [--calls 10000] [--module state.heddle]

The state is updated as a whole: new = 0.5 * state + x, where x is one row. The plan is that of `heddle explain --memory`. --compile FILE writes the
module, and nothing else.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy as np

COLUMNS = 1 << 20
MODEL = """module {{
  func.func @main(%state: tensor<{rows}x{columns}xf32> {{tx.name = "state", tx.alias = 0 : i64}}, %x: tensor<{columns}xf32> {{tx.name = "x"}})
      -> (tensor<{rows}x{columns}xf32> {{tx.name = "new"}}) {{
    %half = tx.constant dense<0.5> : tensor<{columns}xf32>
    %h = tx.broadcast %half {{dimensions = array<i64: 1>}} : tensor<{columns}xf32> -> tensor<{rows}x{columns}xf32>
    %b = tx.broadcast %x {{dimensions = array<i64: 1>}} : tensor<{columns}xf32> -> tensor<{rows}x{columns}xf32>
    %0 = tx.mul %state, %h : tensor<{rows}x{columns}xf32>
    %1 = tx.add %0, %b : tensor<{rows}x{columns}xf32>
    return %1 : tensor<{rows}x{columns}xf32>
  }}
}}
"""


def plan_bytes(path, family):
    """The bytes of a call, with its tensors."""
    program = pathlib.Path(os.environ.get("HEDDLE_BIN", pathlib.Path(__file__).resolve().parents[2] / "build/release/bin")) / "heddle"
    report = json.loads(subprocess.check_output([program, "explain", "--memory", "--format", "json", path]))
    programs = report["memory"][0]["programs"]
    return next(one for one in programs if one["families"] == [family])["calls"][0]["places"][0]["total"]


def chain(heddle, module, device, calls, how):
    """Bytes requested after each of some calls, the peak, and the median time of a call in ms."""
    state, x = module.main.tensor("state", np.zeros((module.main.arguments[0].shape), "f4"), copy=True), np.ones(COLUMNS, "f4")
    x = module.main.tensor("x", x)
    held, times = [], []
    for i in range(calls):
        started = time.perf_counter()
        if how == "donated":
            state = module(state, x, donate="state")
        elif how == "in place":
            module(state, x, out=state)
        else:
            state = module(state, x)
        times.append((time.perf_counter() - started) * 1e3)
        if i >= 1 and (i < 20 or i % (calls // 20 or 1) == 0):
            held.append(module.memory()[0].requested)
    right = abs(float(state.numpy()[0, 0]) - (2 - 2.0 ** (1 - calls))) < 1e-5
    return held, module.memory()[0].peak_requested, statistics.median(times), right


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu:0")
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--calls", type=int, default=10000)
    parser.add_argument("--borrowed-calls", type=int, default=100)
    parser.add_argument("--module", type=pathlib.Path)
    parser.add_argument("--compile", type=pathlib.Path)
    options = parser.parse_args()
    import heddle

    with tempfile.TemporaryDirectory() as folder:
        path = options.compile or options.module or pathlib.Path(folder) / "state.heddle"
        if not options.module:
            source = pathlib.Path(folder) / "state.mlir"
            source.write_text(MODEL.format(rows=options.megabytes * 1_000_000 // (4 * COLUMNS), columns=COLUMNS))
            heddle.compile(source, path, target="cpu" if options.device.startswith("cpu") and not options.compile else "cpu,cuda:sm_90a")
            if options.compile:
                return
        plan = plan_bytes(path, options.device.partition(":")[0])
        print(f"{options.device}: a state of {options.megabytes} MB; the plan of a call is {plan:,} bytes")
        print("| state | calls | bytes after call 2 and later | peak | peak / plan | ms per call | right |\n| --- | ---: | ---: | ---: | ---: | ---: | --- |")
        for how, calls in (("donated", options.calls), ("in place", options.calls), ("borrowed", options.borrowed_calls)):
            with heddle.open(path, options.device) as module:
                held, peak, took, right = chain(heddle, module, options.device, calls, how)
            told = f"{held[0]:,}" if len(set(held)) == 1 else f"{min(held):,} to {max(held):,}"
            print(f"| {how} | {calls} | {told} | {peak:,} | {peak / plan:.4f} | {took:.2f} | {right} |")


if __name__ == "__main__":
    main()
