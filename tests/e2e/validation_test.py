# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""[validation] as a user meets it: where a NaN is made, dumps that equal ONNX Runtime's values, and calls that are checked."""
import os
import pathlib
import shutil
import subprocess

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from heddle_command import DIGITS, HeddleTestCase, environment, heddle, heddle_path

LIBRARY = "libheddle_validation.so"


def log_model():
    """out = log(x @ first) @ second: the logarithm of what is negative is no number."""
    rng = np.random.default_rng(7)
    first, second = (rng.uniform(0.5, 1.5, (8, 8)).astype(np.float32) for _ in range(2))
    nodes = [helper.make_node("MatMul", ["x", "first"], ["product"], name="product"),
             helper.make_node("Log", ["product"], ["logs"], name="logarithm"),
             helper.make_node("MatMul", ["logs", "second"], ["out"], name="last")]
    graph = helper.make_graph(
        nodes, "logs", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 8])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 8]) for name in ("out", "logs")],
        [numpy_helper.from_array(first, "first"), numpy_helper.from_array(second, "second")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def residual_model():
    """y = (first + relu(first @ w1) @ w2) @ w3, of first = x @ w0: the sum is written where one of the two was."""
    rng = np.random.default_rng(9)
    weights = [rng.uniform(-0.5, 0.5, (8, 8)).astype(np.float32) for _ in range(4)]
    nodes = [helper.make_node("MatMul", ["x", "w0"], ["first"], name="first"),
             helper.make_node("MatMul", ["first", "w1"], ["a"], name="branch"),
             helper.make_node("Relu", ["a"], ["r"], name="relu"),
             helper.make_node("MatMul", ["r", "w2"], ["c"], name="back"),
             helper.make_node("Add", ["c", "first"], ["s"], name="sum"),
             helper.make_node("MatMul", ["s", "w3"], ["y"], name="last")]
    graph = helper.make_graph(
        nodes, "residual", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 8])],
        [numpy_helper.from_array(weight, f"w{i}") for i, weight in enumerate(weights)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def branches_model():
    """Two convolutions of one image, the second of a sigmoid, joined along their channels, and the largest element of each channel."""
    rng = np.random.default_rng(11)
    weights = [rng.uniform(-0.3, 0.3, (32, 4, 1, 1)).astype(np.float32), rng.uniform(-0.3, 0.3, (16, 4, 3, 3)).astype(np.float32)]
    nodes = [helper.make_node("Conv", ["x", "w0"], ["a"], name="narrow"),
             helper.make_node("Conv", ["x", "w1"], ["b"], name="broad", pads=[1] * 4),
             helper.make_node("Sigmoid", ["b"], ["s"], name="sigmoid"),
             helper.make_node("Concat", ["a", "s"], ["c"], name="joined", axis=1),
             helper.make_node("GlobalMaxPool", ["c"], ["y"], name="largest")]
    graph = helper.make_graph(
        nodes, "branches", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4, 5, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 48, 1, 1])],
        [numpy_helper.from_array(weight, f"w{i}") for i, weight in enumerate(weights)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Validation(HeddleTestCase):
    def setUp(self):
        super().setUp()
        self.model = self.folder / "logs.onnx"
        onnx.save(log_model(), self.model)
        self.x = np.random.default_rng(8).uniform(0.5, 1.5, (3, 8)).astype(np.float32)
        self.input = self.folder / "x.npy"
        np.save(self.input, self.x)

    def run_heddle(self, module, *arguments, **options):
        return heddle("run", module, "--input", f"@{self.input}", *arguments, **options)

    def test_a_nan_in_the_middle_names_its_region(self):
        module = self.compile(self.model)
        fine = self.run_heddle(module, "--validate")
        self.assertEqual((fine.code, fine.stderr), (0, ""), fine)
        self.x[1] = -self.x[1]
        np.save(self.input, self.x)
        quiet = self.run_heddle(module)
        self.assertEqual(quiet.code, 0, quiet)
        self.assertIn("nan", quiet.stdout)
        stopped = self.run_heddle(module, "--validate=nan")
        self.assertEqual(stopped.code, 1, stopped)
        self.assertRegex(stopped.stderr, r"in region '[^']*(?:product|logarithm)[^']*': 8 of 24 elements of its binding \d+ \(f32\[3,8\]\) are NaN")
        self.assertIn("element 8 [1, 0]", stopped.stderr)
        self.assertNotIn("region 'main.*last", stopped.stderr)

    def test_a_parameter_that_makes_a_nan_when_it_is_prepared(self):
        model = onnx.load(self.model)
        model.graph.node.insert(0, helper.make_node("Log", ["raw"], ["first"], name="prepared"))
        model.graph.initializer[0].name = "raw"
        model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.full((8, 8), -1, np.float32), "raw"))
        onnx.save(model, self.model)
        stopped = self.run_heddle(self.compile(self.model), "--validate=nan")
        self.assertEqual(stopped.code, 1, stopped)
        self.assertRegex(stopped.stderr, r"running the initializer of .* failed: in region '[^']*prepared[^']*': 64 of 64 elements")

    def test_dumps_equal_onnx_runtimes_values(self):
        module = self.compile(self.model)
        folder = self.folder / "dumps"
        result = self.run_heddle(module, "--dump", "*", "--dump-to", folder)
        self.assertEqual(result.code, 0, result)
        out, logs = onnxruntime.InferenceSession(self.model, providers=["CPUExecutionProvider"]).run(None, {"x": self.x})
        written = sorted(folder.iterdir())
        self.assertTrue(all(file.suffix == ".npy" for file in written), written)
        by_region = {}
        for file in written:
            self.assertRegex(file.name, r"^\d{6}-\d{4}-.*-\d+-(in|out)\.npy$")
            by_region.setdefault(file.name.rsplit("-", 2)[0], {})[file.name.rsplit("-", 2)[1:][0] + file.stem[-3:]] = np.load(file)
        last = [values for name, values in by_region.items() if name.endswith("last")][-1]
        outputs = [value for key, value in last.items() if key.endswith("out")]
        inputs = [value for key, value in last.items() if not key.endswith("out")]
        np.testing.assert_allclose(outputs[0], out, rtol=1e-5, atol=1e-5)
        self.assertTrue(any(value.shape == logs.shape and np.allclose(value, logs, rtol=1e-5, atol=1e-6) for value in inputs), last)

    def test_a_region_that_works_in_place(self):
        model = self.folder / "residual.onnx"
        onnx.save(residual_model(), model)
        folder, ir = self.folder / "residual", self.folder / "residual.mlir"
        module = self.compile(model, "--dump-after=heddle-overwrite-operands", "--dump-to", ir)
        self.assertIn("tied", ir.read_text(), "no region works in place: this test shows nothing")
        plain = self.run_heddle(module, "--output", f"@{self.folder / 'plain.npy'}")
        self.assertEqual(plain.code, 0, plain)
        for asked in (["--validate"], ["--validate=nan"], ["--validate=inf"], ["--dump", "*", "--dump-to", folder]):
            result = self.run_heddle(module, *asked, "--output", f"@{self.folder / 'looked_at.npy'}")
            self.assertEqual((result.code, result.stderr), (0, ""), result)
            np.testing.assert_array_equal(np.load(self.folder / "looked_at.npy"), np.load(self.folder / "plain.npy"))
        # Each binding is dumped once, what is read as it was before.
        names = [file.name for file in folder.iterdir()]
        self.assertEqual(len({name.rsplit("-", 1)[0] for name in names}), len(names), sorted(names))

    def test_regions_that_store_a_part_of_each_row(self):
        model = self.folder / "branches.onnx"
        onnx.save(branches_model(), model)
        folder, ir = self.folder / "branches", self.folder / "branches.mlir"
        module = self.compile(model, "--dump-after=heddle-store-parts", "--dump-to", ir)
        self.assertEqual(ir.read_text().count("pitch = 48 : i64"), 2, "nothing is stored in parts: this test shows nothing")
        x = np.random.default_rng(12).uniform(-1, 1, (2, 4, 5, 6)).astype(np.float32)
        np.save(self.input, x)
        parts = onnx.load(model)
        for name in ("a", "s"):
            parts.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
        wanted = onnxruntime.InferenceSession(parts.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})
        for asked in (["--validate=nan"], ["--dump", "*", "--dump-to", folder]):
            result = self.run_heddle(module, *asked, "--output", f"@{self.folder / 'largest.npy'}")
            self.assertEqual((result.code, result.stderr), (0, ""), result)
            np.testing.assert_allclose(np.load(self.folder / "largest.npy"), wanted[0], rtol=1e-5, atol=1e-5)
        np.save(self.input, x[:0])
        self.assertEqual(self.run_heddle(module, "--output", f"@{self.folder / 'none.npy'}").code, 0)
        self.assertEqual(np.load(self.folder / "none.npy").shape, (0, 48, 1, 1))
        # The dump of a part has its own rows alone.
        written = [np.load(file) for file in folder.iterdir() if file.name.endswith("-out.npy")]
        for part in wanted[1:]:
            channels_last = part.transpose(0, 2, 3, 1)
            self.assertTrue(any(one.shape == channels_last.shape and np.allclose(one, channels_last, rtol=1e-5, atol=1e-5) for one in written),
                            [one.shape for one in written])

    def test_only_the_regions_that_are_asked_for(self):
        module = self.compile(self.model)
        folder = self.folder / "one"
        self.assertEqual(self.run_heddle(module, "--dump", "*last", "--dump-to", folder).code, 0)
        self.assertTrue(all("last" in file.name for file in folder.iterdir()))
        self.assertTrue(list(folder.iterdir()))

    def test_a_network_runs_behind_the_layer_without_a_report(self):
        module = self.compile(DIGITS)
        plain = heddle("run", module, "--input", "f32[2,1,8,8]=0.5")
        checked = heddle("run", module, "--input", "f32[2,1,8,8]=0.5", "--validate", extra_environment={"HEDDLE_LOG": "info"})
        self.assertEqual(checked.code, 0, checked)
        self.assertEqual(checked.stdout, plain.stdout)
        self.assertRegex(checked.stderr, r"validation: \d{2,} calls of heddle.cpu were checked, 0 violations were found")
        self.assertRegex(checked.stderr, r"validation: \d{2,} calls of heddle.pool were checked, 0 violations were found")

    def test_a_plugin_that_breaks_a_rule_is_named(self):
        odd = pathlib.Path(os.environ.get("HEDDLE_BUILD", heddle_path().parents[1])) / "tests" / "odd_driver"
        if not (odd / "test.odd_driver.toml").exists():
            self.skipTest("SKIP: the tests of the conformance kit are not built")
        arguments = ["devices", "--plugin-path", odd]
        broken = {"ODD_DRIVER": "alignment_of_3"}
        self.assertIn("test.odd_driver", heddle(*arguments, extra_environment=broken).stdout)
        checked = heddle(*arguments, extra_environment={**broken, "HEDDLE_SET": "validation.calls = true"})
        self.assertIn("describe of test.odd_driver failed: the plugin broke a rule: its min_alignment_bytes is 3", checked.stderr)
        self.assertIn("[HD-M-04]", checked.stderr)

    def test_what_the_flags_refuse(self):
        module = self.compile(self.model)
        self.assertIn("'numbers' is not a check", self.run_heddle(module, "--validate=numbers").stderr)
        nothing = self.run_heddle(module, "--dump", "no such region", "--dump-to", self.folder / "none")
        self.assertEqual(nothing.code, 1, str(nothing))
        self.assertIn("has a name like 'no such region'; heddle explain lists the names", nothing.stderr)
        self.assertEqual(nothing.stdout, "")
        both = self.run_heddle(module, "--dump", "*")
        self.assertEqual(both.code, 2, both)
        self.assertIn("--dump and --dump-to must be given together", both.stderr)

    def test_without_its_library(self):
        build = heddle_path().parents[1]
        moved = self.folder / "moved"
        (moved / "bin").mkdir(parents=True)
        shutil.copy(heddle_path(), moved / "bin")
        shutil.copy(heddle_path().parent / "heddle-probe", moved / "bin")
        shutil.copytree(build / "lib" / "heddle", moved / "lib" / "heddle")
        for file in (build / "lib").glob("libheddle.so*"):
            shutil.copy(file, moved / "lib", follow_symlinks=False)
        module = self.compile(self.model)

        def run(*arguments):
            return subprocess.run([moved / "bin" / "heddle", "run", module, "--input", f"@{self.input}", *arguments], text=True,
                                  capture_output=True, env=environment(), check=False)
        self.assertEqual(run().returncode, 0)
        missing = run("--validate")
        self.assertEqual(missing.returncode, 4, missing.stderr)
        self.assertIn("install the package heddle-validation", missing.stderr)
        shutil.copy(build / "lib" / LIBRARY, moved / "lib")
        self.assertEqual(run("--validate").returncode, 0)


if __name__ == "__main__":
    import unittest
    unittest.main()
