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


# As heddle.torch.export writes it: x + weight * 2, for an even number of rows, at least 4.
EXPORTED = """"builtin.module"() ({
  "func.func"() <{arg_attrs = [{torch.name = "x", torch.extents = ["s0", 4]}, {torch.name = "fc.weight", torch.data = {location = "weights.bin", offset = 16, length = 16}}], function_type = (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>, sym_name = "main"}> ({
  ^bb0(%a0: tensor<?x4xf32>, %a1: tensor<4xf32>):
    %n0 = "aten.add.Tensor"(%a0, %a1) {operands = ["self", "other"], alpha = 2, extents = [["s0", 4]]} : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32> loc("add")
    "func.return"(%n0) : (tensor<?x4xf32>) -> ()
  }) : () -> ()
}) {torch.graph = "2.13.0", torch.requires = [{value = "(s0 - 4)", least = 0, who = "the range"}, {value = "(0 - (s0 mod 2))", least = 0, who = "the factor"}]} : () -> ()
"""


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

    def write(self, text):
        path = self.folder / "graph.mlir"
        path.write_text(text)
        return path

    def refused(self, text):
        done = subprocess.run([IMPORT, self.write(text)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stdout)
        return done.stderr

    def test_all_that_is_not_supported_is_listed(self):
        text = (GRAPHS / "perceptron.mlir").read_text()
        self.assertIn('"aten.relu.default"', text)
        said = self.refused(text.replace("aten.relu.default", "aten.no_such.default").replace("aten.addmm.default", "aten.nor_this.default"))
        for operator in ("'aten.no_such.default' at '", "'aten.nor_this.default' at '"):
            self.assertIn(operator, said)

    def exported(self, **options):
        weights = np.arange(8, dtype=np.float32)
        (self.folder / "weights.bin").write_bytes(weights.tobytes())
        (self.folder / "exported.mlir").write_text(EXPORTED)
        return heddle.compile(self.folder / "exported.mlir", target="cpu:x86-64-v3", **options)

    def test_parameters_are_read_from_a_file_and_conditions_checked(self):
        with heddle.open(self.exported(), "cpu") as module:
            (self.folder / "weights.bin").unlink()  # their values are in the module
            np.testing.assert_array_equal(module(np.ones((4, 4), np.float32)).numpy(), np.ones((4, 1), np.float32) + 2 * np.arange(4, 8, dtype=np.float32))
            for rows, who in ((2, "the range"), (5, "the factor")):
                with self.assertRaisesRegex(heddle.InvalidArgumentError, who):
                    module(np.ones((rows, 4), np.float32))

    def test_parameters_are_left_to_files(self):
        np.savez(self.folder / "other.npz", **{"fc.weight": np.ones(4, np.float32)})
        path = self.exported(params_in=self.folder / "other.npz")
        with heddle.open(path, "cpu", parameters=self.folder / "other.npz") as module:
            np.testing.assert_array_equal(module(np.ones((4, 4), np.float32)).numpy(), np.full((4, 4), 3, np.float32))
        with self.assertRaisesRegex(heddle.Error, "fc.weight"):
            heddle.open(path, "cpu")
        np.savez(self.folder / "wrong.npz", **{"fc.weight": np.ones(5, np.float32)})
        with self.assertRaisesRegex(heddle.CompileError, r"the model has f32\[4\], the file has f32\[5\]"):
            self.exported(params_in=self.folder / "wrong.npz")

    def test_parameters_and_conditions_that_are_damaged_are_refused(self):
        (self.folder / "weights.bin").write_bytes(bytes(32))
        self.assertEqual(subprocess.run([IMPORT, self.write(EXPORTED)], capture_output=True).returncode, 0)
        for before, after, expected in (
                ('location = "weights.bin"', "location = 3", "needs a location"), ("offset = 16", "offset = -1", "needs a location"),
                ("offset = 16", "offset = 17", "its file has 32"), ("length = 16", "length = 12", "its shape says at least 16"),
                ('"weights.bin"', '"../weights.bin"', "opening external data"), ('"weights.bin"', '"none.bin"', "opening external data"),
                ("{location", "{place", "needs a location"), ('value = "(s0 - 4)"', 'value = "(s1 - 4)"', "torch.requires has an entry"),
                ('who = "the range"', "who = 3", "torch.requires has an entry"), ('value = "(s0 - 4)"', 'value = "(0 - 4)"', "the range is true for no sizes")):
            with self.subTest(expected):
                self.assertIn(before, EXPORTED)
                self.assertIn(expected, self.refused(EXPORTED.replace(before, after)))

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
