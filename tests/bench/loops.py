# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a step of a loop costs above its kernels, beside ONNX Runtime, and memory over many steps.

    loops.py [--steps 100000] [--rounds 5] [--device cpu:0]

Loops of ONNX whose steps do almost nothing: `counted` has a number of steps that the call gives; `until` goes on as long as a value that each step computes allows;
`nested` runs a loop of 10 steps in each step, all of which count. A step's kernels are timed by a loop whose step has the same ones ten times more, one behind the
other: what they cost is a tenth of the difference. Memory is what the process and the device have after a hundredth of the steps, and after all.
Needs the Python package of the build, onnx and onnxruntime.
"""
import argparse
import pathlib
import statistics
import sys
import tempfile

import heddle
import numpy as np
import onnx
import onnxruntime
import turns
from onnx import TensorProto, helper

WIDTH, TIMES = 16, 10
FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def updates(value, result, count):
    """The value times 0.5 plus 1, `count` times; each of these is a kernel, since Cumsum between two does not fuse with them."""
    nodes, names = [], [value, *[f"{result}_{i}" for i in range(count - 1)], result]
    for before, after in zip(names, names[1:]):
        nodes += [helper.make_node("Mul", [before, "half"], [f"{after}_h"]), helper.make_node("CumSum", [f"{after}_h", "axis"], [after])]
    return nodes


def model(kind, count):
    value = helper.make_tensor_value_info
    go_on = [helper.make_node("Identity", ["c"], ["more"])]
    if kind == "until":
        go_on = [helper.make_node("Add", ["n", "one"], ["n_out"]), helper.make_node("Less", ["n_out", "limit"], ["more"])]
    carried = [("y_in", "y_out", FLOAT, [WIDTH])] + ([("n", "n_out", INT, [])] if kind == "until" else [])
    inner = updates("y_in", "y_out", count)
    if kind == "nested":
        inside = helper.make_graph([helper.make_node("Identity", ["cc"], ["mm"]), *updates("z_in", "z_out", count)], "inside",
                                   [value("ii", INT, []), value("cc", BOOL, []), value("z_in", FLOAT, [WIDTH])], [value("mm", BOOL, []), value("z_out", FLOAT, [WIDTH])])
        inner = [helper.make_node("Loop", ["ten", "", "y_in"], ["y_out"], body=inside)]
    body = helper.make_graph([*go_on, *inner], "body", [value("i", INT, []), value("c", BOOL, []), *[value(a, t, s) for a, _, t, s in carried]],
                             [value("more", BOOL, []), *[value(b, t, s) for _, b, t, s in carried]])
    inputs = ["" if kind == "until" else "steps", "true" if kind == "until" else "", "x", *(["zero"] if kind == "until" else [])]
    outer = helper.make_node("Loop", inputs, ["y", *(["last"] if kind == "until" else [])], body=body)
    constants = [helper.make_tensor(name, element, [], [number]) for name, element, number in
                 (("half", FLOAT, 0.5), ("axis", INT, 0), ("one", INT, 1), ("zero", INT, 0), ("ten", INT, 10), ("true", BOOL, True))]
    given = "limit" if kind == "until" else "steps"
    graph = helper.make_graph([outer], kind, [value("x", FLOAT, [WIDTH]), value(given, INT, [])], [value("y", FLOAT, [WIDTH])], constants)
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)]), given


def resident():
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
    return float("nan")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cpu:0")
    parser.add_argument("--target", default="cpu")
    arguments = parser.parse_args()
    onnxruntime.set_default_logger_severity(3)
    rows, wrong = [], 0
    with tempfile.TemporaryDirectory(prefix="heddle-bench-") as name:
        folder = pathlib.Path(name)
        for kind in ("counted", "until", "nested"):
            contenders, steps, x = {}, arguments.steps // (10 if kind == "nested" else 1), np.linspace(0, 1, WIDTH, dtype="f4") * 1e-3
            for count in (1, 1 + TIMES):
                made, given = model(kind, count)
                onnx.save(made, folder / f"{kind}_{count}.onnx")
                module = heddle.open(heddle.compile(folder / f"{kind}_{count}.onnx", folder / f"{kind}_{count}.heddle", target=arguments.target), arguments.device)
                session = onnxruntime.InferenceSession(folder / f"{kind}_{count}.onnx", providers=["CPUExecutionProvider"])

                def ours(number=steps, module=module, given=given):
                    return module(**{"x": x, given: np.int64(number)}).numpy()

                def theirs(number=steps, session=session, given=given):
                    return session.run(None, {"x": x, given: np.array(number)})[0]

                wrong += not np.allclose(ours(5), theirs(5), 1e-5)
                contenders |= {("Heddle", count): ours, ("ONNX Runtime", count): theirs}
                if count == 1:
                    ours(max(steps // 100, 1))
                    before = resident(), module.memory()[0].reserved
                    ours()
                    after = resident(), module.memory()[0].reserved
            times = turns.measure(contenders, arguments.rounds, 0, 1)
            for who in ("Heddle", "ONNX Runtime"):
                one, many = (statistics.median(times[who, count]) / arguments.steps * 1e6 for count in (1, 1 + TIMES))
                kernels = (many - one) / TIMES
                grown = f"{after[0] - before[0]:+.1f} MiB, {(after[1] - before[1]) / 1024:+.0f} KiB" if who == "Heddle" else ""
                rows.append([kind, who, f"{one:.2f}", f"{kernels:.2f}", f"{one - kernels:.2f}", grown])
    print(f"{turns.machine()}; {arguments.steps} steps; {arguments.rounds} rounds\n")
    print(turns.table(["loop", "", "µs a step", "its kernels", "above them", "process, device over the steps"], rows))
    if wrong:
        print(f"{wrong} results differ", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
