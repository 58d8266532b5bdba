# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Graphs that record_graphs.py wrote with heddle.torch give what PyTorch computed. No PyTorch is needed."""
import pathlib
import subprocess
import os
import tempfile
import unittest

import numpy as np

import heddle

GRAPHS = pathlib.Path(__file__).resolve().parent / "graphs"
IMPORT = os.path.join(os.environ["HEDDLE_BIN"], "heddle-import")


class RecordedGraphs(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="heddle-torch-graphs-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def check(self, name, change=lambda values: None):
        output = self.folder / (name + ".heddle")
        heddle.compile(GRAPHS / (name + ".mlir"), output)
        with np.load(GRAPHS / (name + ".npz")) as file:
            values = {key: file[key] for key in file.files}
        change(values)
        calls = sorted({key.split(".")[0] for key in values})
        self.assertTrue(calls)
        with heddle.open(output, "cpu") as module:
            for call in calls:
                arguments = {key.split(".")[1]: value for key, value in values.items() if key.startswith(call + ".a")}
                expected = {key.split(".")[1]: value for key, value in values.items() if key.startswith(call + ".r")}
                results = module(**arguments)
                results = {"r0": results} if len(expected) == 1 else {f"r{i}": one for i, one in enumerate(results)}
                self.assertEqual(results.keys(), expected.keys())
                for key, value in expected.items():
                    self.assertEqual(results[key].numpy().dtype, value.dtype, f"{call}.{key}")
                    np.testing.assert_allclose(results[key].numpy(), value, rtol=1e-4, atol=1e-5, err_msg=f"{call}.{key}")

    def test_perceptron_of_symbolic_batch(self):
        self.check("perceptron")

    def test_forward_and_backward_pass_of_a_network(self):
        self.check("network_forward")
        self.check("network_backward")

    def test_operators(self):
        self.check("operators")

    def test_a_wrong_value_is_found(self):
        def change(values):
            values["call0.r0"] = values["call0.r0"] + 0.01
        with self.assertRaises(AssertionError):
            self.check("perceptron", change)

    def refused(self, text):
        path = self.folder / "graph.mlir"
        path.write_text(text)
        done = subprocess.run([IMPORT, path], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stdout)
        return done.stderr

    def test_all_that_is_not_supported_is_listed(self):
        text = (GRAPHS / "perceptron.mlir").read_text()
        self.assertIn('"aten.relu.default"', text)
        said = self.refused(text.replace("aten.relu.default", "aten.no_such.default").replace("aten.addmm.default", "aten.nor_this.default"))
        for operator in ("'aten.no_such.default' at '", "'aten.nor_this.default' at '"):
            self.assertIn(operator, said)

    def test_text_that_is_damaged_is_refused(self):
        text = (GRAPHS / "perceptron.mlir").read_text()
        for before, after, expected in (
                ("dims = [1, 0]", "dims = [1, 1]", "do not fit"), ("dims = [1, 0]", "dims = [1, 7]", "outside of rank 2"),
                ('operands = ["self"]', 'operands = ["selfless"]', "operand 'self' is missing"),
                ('operands = ["self"]', "operands = []", "does not have the names"), ('sym_name = "main"', 'sym_name = "other"', "no function @main"),
                ('torch.extents = ["s', 'torch.extents = ["9s', "extent 0 is not known"), ("beta = 1", "beta = \"one\"", "must be a number")):
            with self.subTest(expected):
                self.assertIn(before, text)
                self.assertIn(expected, self.refused(text.replace(before, after)))


if __name__ == "__main__":
    unittest.main()
