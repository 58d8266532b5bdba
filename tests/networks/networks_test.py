# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""That networks.py finds what is right and what is wrong, on a small model of two symbolic dimensions."""
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import networks

TARGET = "cpu:x86-64-v3"


class Networks(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="heddle-networks-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        (self.folder / "models").mkdir()

    def run_command(self, *arguments, code=0, out="out", models=True):
        given = [self.folder / "models"] if models else []
        with contextlib.redirect_stdout(io.StringIO()) as text:
            got = networks.main([*map(str, given), "--out", str(self.folder / out), "--target", TARGET, *map(str, arguments)])
        self.assertEqual(got, code, text.getvalue())
        return {one["name"]: one for one in json.loads((self.folder / out / "results.json").read_text())}

    def write(self, name, operator="Mul", change=lambda sizes, y: y):
        """y = max(x, 0) OPERATOR x with calls of two sizes; `change` makes what is expected of a product."""
        nodes = [helper.make_node("Relu", ["x"], ["positive"], "relu"), helper.make_node(operator, ["positive", "x"], ["y"], "last")]
        values = [helper.make_tensor_value_info(one, TensorProto.FLOAT, ["batch", "length"]) for one in ("x", "y")]
        model = helper.make_model(helper.make_graph(nodes, name, values[:1], values[1:]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, self.folder / "models" / f"{name}.onnx")
        calls = {}
        for rows, columns in ((2, 3), (4, 1)):
            x, sizes = np.random.default_rng(3).standard_normal((rows, columns), np.float32), f"batch={rows},length={columns}"
            # The order of a file is not that of the model.
            calls |= {f"{sizes}:in:unused": np.zeros(3, np.int64), f"{sizes}:in:x": x, f"{sizes}:out:y": change(sizes, np.maximum(x, 0) * x)}
        np.savez(self.folder / "models" / f"{name}.npz", **calls)

    def test_calls_of_all_sizes_are_compared(self):
        self.write("right")
        result = self.run_command()["right"]
        self.assertEqual((result["verdict"], [one["sizes"] for one in result["calls"]]), ("passed", ["batch=2,length=3", "batch=4,length=1"]))
        self.assertEqual(result["nodes"], {"kernels": 2, "host": 0, "neither": 0})
        page = (self.folder / "out" / "table.md").read_text()
        self.assertIn("1 of 1 networks are right for all sizes, 1 compile.", page)
        self.assertRegex(page, r"\| right \| 2 \| yes \| batch=2,length=3: \d\.\de[-+]\d+, batch=4,length=1: ")

    def test_what_is_wrong_for_one_size_is_found(self):
        changes = {"values": lambda y: y + 0.01, "nan": lambda y: y * np.nan, "shape": lambda y: y.reshape(-1), "type": lambda y: y.astype(np.float64)}
        for name, change in changes.items():
            self.write(name, change=lambda sizes, y, change=change: change(y) if "batch=4" in sizes else y)
        results = self.run_command(code=1)
        for name, one in results.items():
            self.assertEqual((one["verdict"], [bool(call["wrong"]) for call in one["calls"]]), ("failed", [False, True]), name)
        self.assertIn("y has shape [4, 1] and not [4]", results["shape"]["message"])

    def test_what_does_not_compile_has_a_reason(self):
        self.write("right")
        self.write("unknown", operator="Mystery")
        result = self.run_command(code=1)["unknown"]
        self.assertEqual((result["verdict"], result["reasons"], result["count"]), ("failed", ["operator Mystery"], 2))
        # Compared with an earlier run only what passed there has to pass.
        before = self.folder / "before.json"
        before.write_text(json.dumps([{"name": "right", "verdict": "passed"}, {"name": "unknown", "verdict": "failed"}]))
        self.run_command("--before", before)
        before.write_text(json.dumps([{"name": "unknown", "verdict": "passed"}]))
        self.run_command("--before", before, code=1)

    def test_modules_run_without_the_compiler(self):
        self.write("right")
        self.write("wrong", change=lambda sizes, y: y + 1)
        kept = ["--modules", self.folder / "modules"]
        self.run_command(*kept, "--device", "none")
        results = self.run_command(*kept, "--only-run", out="ran", models=False, code=1)
        self.assertEqual({name: one["verdict"] for name, one in results.items()}, {"right": "passed", "wrong": "failed"})
        self.assertEqual(len(results["right"]["calls"]), 2)


if __name__ == "__main__":
    unittest.main()
