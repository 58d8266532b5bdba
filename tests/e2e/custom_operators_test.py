# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators of library plugins in the middle of networks: results against numpy, where they run, and what is said without their plugin."""
import json
import os
import pathlib
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from heddle_command import HeddleTestCase, heddle

BUILD = pathlib.Path(os.environ.get("HEDDLE_BIN", "build/release/bin")).parent
PLUGINS = BUILD / "tests" / "library" / "plugins.d"
WHITEN = BUILD / "tests" / "template" / "library" / "cpp"


def save(path, nodes, inputs, outputs, initializers=(), domains=("test",), values=(), opset=1):
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs],
        [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in outputs],
        [numpy_helper.from_array(value, name) for name, value in initializers], value_info=list(values))
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(domain, opset) for domain in domains)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


class CustomOperators(HeddleTestCase):
    def network(self, batch):
        """Convolution, whitened rows, a product, the same operator scaled: with what numpy says of it."""
        rng = np.random.default_rng(3)
        x = rng.standard_normal((4, 3, 8, 8)).astype(np.float32)
        filters = (rng.standard_normal((6, 3, 1, 1)) * 0.3).astype(np.float32)
        weight = (rng.standard_normal((6 * 64, 20)) * 0.1).astype(np.float32)
        scale = rng.standard_normal(20).astype(np.float32)
        nodes = [
            helper.make_node("Conv", ["x", "filters"], ["a"]),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("Whiten", ["b"], ["c"], name="first", domain="org.example", epsilon=0.25),
            helper.make_node("Flatten", ["c"], ["d"]),
            helper.make_node("MatMul", ["d", "weight"], ["e"]),
            helper.make_node("Whiten", ["e", "scale"], ["f"], name="second", domain="org.example"),
            helper.make_node("Softmax", ["f"], ["y"]),
        ]
        path = save(self.folder / "network.onnx", nodes, [("x", [batch, 3, 8, 8])], [("y", TensorProto.FLOAT, [batch, 20])],
                    [("filters", filters), ("weight", weight), ("scale", scale)], domains=["org.example"])

        def whiten(v, epsilon, factor=1.0):
            centered = v - v.mean(-1, keepdims=True)
            return centered / np.sqrt((centered**2).mean(-1, keepdims=True) + epsilon) * factor
        b = np.maximum(np.einsum("nchw,fc->nfhw", x.astype(np.float64), filters[:, :, 0, 0]), 0)
        f = whiten(whiten(b, 0.25).reshape(4, -1) @ weight, 1e-5, scale)
        e = np.exp(f - f.max(-1, keepdims=True))
        return path, x, (e / e.sum(-1, keepdims=True)).astype(np.float32)

    def test_a_network_with_two_of_them(self):
        for batch in (4, "batch"):
            with self.subTest(batch=batch):
                path, x, expected = self.network(batch)
                module = self.compile(path, "--operators", WHITEN)
                got = self.run_module(module, "x", x, "--plugin-path", WHITEN)
                self.assert_close(got, expected, 1e-4, 1e-6)
                told = self.succeed("explain", module, "--format", "json").stdout
                operations = json.loads(told)["functions"][0]["programs"][0]["operations"]
                self.assertEqual([one["operator"] for one in operations], ["org.example::Whiten/1"] * 2)
                self.assertEqual(operations[0]["attributes"], {"epsilon": 0.25})
                text = self.succeed("explain", module).stdout
                self.assertIn("  plugins    needed, see heddle plugins: 2 org.example::Whiten/1\n", text)
                self.assertRegex(text, r"main\.custom\.0\.Whiten +first +plugin operator +- +cpu +plugin: org\.example::Whiten/1\b")
                kinds = json.loads(self.succeed("profile", module, "--plugin-path", WHITEN, "--dim" if batch == "batch" else "--seed",
                                                "batch=4" if batch == "batch" else "1", "--iterations", "2", "--format", "json").stdout)["kinds"]
                self.assertEqual({one["kind"]: one["count"] for one in kinds}["plugin operator"], 2)

    def test_several_calls_in_flight(self):
        path, x, expected = self.network(4)
        module = self.compile(path, "--operators", WHITEN)
        given, wanted = self.folder / "x.npy", self.folder / "y.npy"
        np.save(given, x)
        np.save(wanted, expected)
        self.succeed("bench", module, "--plugin-path", WHITEN, "--input", f"x=@{given}")
        for _ in range(3):
            self.succeed("run", module, "--plugin-path", WHITEN, "--input", f"x=@{given}", "--expect", f"y=@{wanted}", "--rtol", "1e-4")

    def test_several_operands_and_results(self):
        rng = np.random.default_rng(5)
        x = rng.standard_normal((3, 7)).astype(np.float32)
        bias = rng.standard_normal(7).astype(np.float32)
        nodes = [
            helper.make_node("Neg", ["x"], ["n"]),
            helper.make_node("Butterfly", ["x", "n", "bias"], ["sum", "difference", "table"], domain="test", tag=-5, axes=[2, 0, 4],
                             weights=[0.5, 2.0]),
            helper.make_node("Relu", ["difference"], ["y"]),
        ]
        path = save(self.folder / "m.onnx", nodes, [("x", ["rows", 7])],
                    [("y", TensorProto.FLOAT, ["rows", 7]), ("sum", TensorProto.FLOAT, None), ("table", TensorProto.INT64, None)],
                    [("bias", bias)])
        module = self.compile(path, "--operators", PLUGINS)
        np.save(self.folder / "x.npy", x)
        outputs = [argument for name in ("y", "sum", "table") for argument in ("--output", f"{name}=@{self.folder / name}.npy")]
        self.succeed("run", module, "--plugin-path", PLUGINS, "--input", f"x=@{self.folder / 'x.npy'}", *outputs)
        self.assert_close(np.load(self.folder / "y.npy"), np.maximum(2 * x, 0), 1e-6, 0)
        self.assert_close(np.load(self.folder / "sum.npy"), (x * 0.5 - 2 * x).astype(np.float32) + bias, 1e-5, 1e-6)
        np.testing.assert_array_equal(np.load(self.folder / "table.npy"), [[-5, 3, 2, 4]] * 3)

    def test_the_model_says_the_type(self):
        nodes = [helper.make_node("Abs", ["x"], ["a"]), helper.make_node("Unsaid", ["a"], ["b"], domain="test"),
                 helper.make_node("Sqrt", ["b"], ["y"])]
        path = save(self.folder / "m.onnx", nodes, [("x", [2, 3])], [("y", TensorProto.FLOAT, [3, 2])],
                    values=[helper.make_tensor_value_info("b", TensorProto.FLOAT, [3, 2])])
        module = self.compile(path, "--operators", PLUGINS)
        x = np.array([[1, -4, 9], [16, -25, 36]], np.float32)
        self.assert_close(self.run_module(module, "x", x, "--plugin-path", PLUGINS), np.arange(1, 7, dtype=np.float32).reshape(3, 2), 1e-6, 0)

    def scale(self, **attributes):
        nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Scale", ["a"], ["b"], name="it", domain="test", **attributes),
                 helper.make_node("Neg", ["b"], ["y"])]
        return self.compile(save(self.folder / "scale.onnx", nodes, [("x", [2, 3])], [("y", TensorProto.FLOAT, [2, 3])]), "--operators", PLUGINS)

    def test_what_is_missing_is_said_and_ends_in_4(self):
        module = self.scale()
        missing = self.fail_with(4, "run", module)
        self.assertIn("region 'main.custom.0.Scale it': test::Scale/1 (f32[2,3] -> f32[2,3]) on device 'cpu:0' is not offered by any plugin", missing.stderr)
        other = self.fail_with(4, "run", module, "--plugin-path", WHITEN)
        self.assertIn("1 library plugin does not declare it", other.stderr)
        refused = self.fail_with(4, "run", self.scale(mode="refuse"), "--plugin-path", PLUGINS)
        self.assertIn("test.library returned UNIMPLEMENTED: test::Scale/1: it refuses on purpose", refused.stderr)

    def test_a_failing_operator_names_its_region(self):
        np.save(self.folder / "x.npy", np.ones((2, 3), np.float32))
        failed = self.fail_with(1, "run", self.scale(mode="fail"), "--plugin-path", PLUGINS, "--input", f"x=@{self.folder / 'x.npy'}")
        self.assertIn("in region 'main.custom.0.Scale it': test: scaling 6 elements failed", failed.stderr)

    def test_an_older_library_refuses_the_module_and_others_are_as_before(self):
        module = self.scale()
        self.assertEqual(module.read_bytes()[8:12], bytes([0, 0, 2, 0]))
        plain = save(self.folder / "plain.onnx", [helper.make_node("Relu", ["x"], ["y"])], [("x", [2, 3])], [("y", TensorProto.FLOAT, [2, 3])])
        self.assertEqual(self.compile(plain).read_bytes()[8:12], bytes([0, 0, 1, 0]))

    def test_compiling_twice_gives_the_same_bytes(self):
        first = self.scale(factor=3.0).read_bytes()
        self.assertEqual(self.scale(factor=3.0).read_bytes(), first)

    def test_compiling_without_a_declaration(self):
        nodes = [helper.make_node("Scale", ["x"], ["y"], name="it", domain="test")]
        path = save(self.folder / "m.onnx", nodes, [("x", [2, 3])], [("y", TensorProto.FLOAT, [2, 3])])
        refused = self.fail_with(1, "compile", path, "-o", self.folder / "m.heddle")
        self.assertIn("node 'it' (operator test.Scale, opset 1) failed: operator is not supported", refused.stderr)
        self.assertIn("--operators", refused.stderr)
        nothing = self.fail_with(1, "compile", path, "-o", self.folder / "m.heddle", "--operators", self.folder / "none.toml")
        self.assertIn("there is no such file", nothing.stderr)
        self.fail_with(2, "compile", path, "-o", PLUGINS / "test.library.toml", "--operators", PLUGINS / "test.library.toml")
        self.assertFalse((self.folder / "m.heddle").exists())

    def test_on_a_slot_of_its_own(self):
        nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Scale", ["a"], ["b"], name="it", domain="test", factor=3.0),
                 helper.make_node("Neg", ["b"], ["y"])]
        path = save(self.folder / "m.onnx", nodes, [("x", [2, 3])], [("y", TensorProto.FLOAT, [2, 3])])
        module = self.compile(path, "--operators", PLUGINS, "--place", "op:Scale=@host")
        drivers = BUILD / "tests" / "plugins.d"
        x = np.array([[1, -4, 9], [16, -25, 36]], np.float32)
        on = ["--plugin-path", PLUGINS, "--plugin-path", drivers, "--device", "test.streams", "--device", "@host=cpu"]
        self.assert_close(self.run_module(module, "x", x, *on), -3 * np.maximum(x, 0), 1e-6, 0)
        there = heddle("run", module, "--plugin-path", PLUGINS, "--plugin-path", drivers, "--device", "cpu", "--device", "@host=test.streams")
        self.assertEqual(there.code, 4, str(there))
        self.assertIn("on device 'streams:0': its driver does not run operations of library plugins; bind the slot to another device", there.stderr)

    def test_the_plugins_list(self):
        told = json.loads(self.succeed("plugins", "--plugin-path", PLUGINS, "--format", "json").stdout)
        listed = told if isinstance(told, list) else told["plugins"]
        library = next(one for one in listed if one["id"] == "test.library")
        self.assertEqual((library["kind"], library["state"]), (["library"], "available"))
        self.assertEqual(library["operators"], ["test::Scale/1", "test::Scale/3", "test::Butterfly/1", "test::Unsaid/1", "test::Sum/1",
                                                "ai.onnx::Gelu/20", "ai.onnx::Softmax/13"])


if __name__ == "__main__":
    unittest.main()
