# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""heddle.diff: the region that departs is named right, where a fault is planted in the compiler, and none is named where there is no fault."""
import contextlib
import io
import json
import os
import pathlib
import tempfile
import unittest

import faulty_compiler
import heddle
import numpy as np
import onnx
import onnx.helper as make
from heddle import _model_inputs, diff
from heddle._compare import Tolerance, compare
from heddle._programs import Failed
from onnx import TensorProto, numpy_helper

FLOAT = TensorProto.FLOAT


def model_of(nodes, inputs, outputs, weights, opset=20):
    stored = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = make.make_graph(nodes, "graph", [make.make_tensor_value_info(name, kind, shape) for name, kind, shape in inputs],
                            [make.make_tensor_value_info(name, kind, shape) for name, kind, shape in outputs], stored)
    return make.make_model(graph, opset_imports=[make.make_opsetid("", opset)], ir_version=10)


def layers():
    """Three layers, with shapes that are computed between them."""
    random = np.random.default_rng(3)
    weights = {f"w{i}": random.standard_normal((16, 16)).astype(np.float32) / 4 for i in range(3)}
    weights |= {"end": np.array([4, 4], np.int64), "axis": np.array([0], np.int64), "flat": np.array([16], np.int64)}
    nodes = [
        make.make_node("MatMul", ["x", "w0"], ["m0"], name="first"), make.make_node("Tanh", ["m0"], ["t0"], name="first_tanh"),
        make.make_node("Shape", ["x"], ["shape"], end=1), make.make_node("Concat", ["shape", "end"], ["square"], axis=0),
        make.make_node("Reshape", ["t0", "square"], ["r0"], name="fold"), make.make_node("Softmax", ["r0"], ["s0"], name="share"),
        make.make_node("Concat", ["shape", "flat"], ["line"], axis=0), make.make_node("Reshape", ["s0", "line"], ["r1"]),
        make.make_node("MatMul", ["r1", "w1"], ["m1"], name="second"), make.make_node("Erf", ["m1"], ["e1"], name="second_erf"),
        make.make_node("MatMul", ["e1", "w2"], ["m2"], name="third"), make.make_node("Relu", ["m2"], ["y"], name="third_relu"),
    ]
    return model_of(nodes, [("x", FLOAT, ["batch", 16])], [("y", FLOAT, ["batch", 16])], weights)


class Diff(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="heddle-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.model = self.folder / "layers.onnx"
        onnx.save(layers(), self.model)

    def test_a_right_model_does_not_depart(self):
        report = diff.compare(self.model, folder=self.folder / "out")
        self.assertFalse(report.departs, str(report))
        self.assertIsNone(report.first)
        self.assertEqual(report.extents, {"batch": 2})
        self.assertEqual(list(report.results), ["y"])
        self.assertTrue({"t0", "s0", "e1", "y"} <= {value.name for value in report.values}, [value.name for value in report.values])
        self.assertFalse({"shape", "square", "line"} & {value.name for value in report.values})
        self.assertFalse((self.folder / "out").exists())

    def test_the_region_with_the_fault_is_the_first(self):
        faulty_compiler.planted(self, faulty_compiler.node("Erf", "second_erf"), faulty_compiler.node("Cos", "second_erf"))
        report = diff.compare(self.model, folder=self.folder / "out", dims={"batch": 3})
        self.assertTrue(report.departs and report.given)
        self.assertEqual([value.name for value in report.departing], ["e1"])
        first = report.first
        self.assertEqual(first.type, "f32[3,16]")
        self.assertIn("second_erf (Erf)", first.nodes)
        self.assertNotIn("third (MatMul)", first.nodes)
        self.assertTrue(all(state.endswith("given") for state in first.inputs.values()), first.inputs)
        self.assertTrue(report.results["y"].departs)
        self.assertIn("departs as well", report.alone)
        # The isolated region departs for whoever runs it.
        region = onnx.load(self.folder / "out" / "region.onnx")
        self.assertEqual([node.op_type for node in region.graph.node], ["Shape", "Concat", "Reshape", "MatMul", "Erf"])
        with np.load(self.folder / "out" / "inputs.npz") as inputs, np.load(self.folder / "out" / "expected.npz") as expected:
            heddle.compile(self.folder / "out" / "region.onnx", self.folder / "region.heddle")
            with heddle.open(self.folder / "region.heddle") as module:
                got = module(*[inputs[one.name] for one in region.graph.input]).numpy()
            self.assertTrue(compare(got, expected["e1"], Tolerance()).departs)
            index = first.difference.index
            self.assertEqual((first.difference.got, first.difference.expected), (got[index], expected["e1"][index]))

    def test_differences_accumulate_on_request(self):
        faulty_compiler.planted(self, faulty_compiler.node("Tanh", "first_tanh"), faulty_compiler.node("Ceil", "first_tanh"))
        report = diff.compare(self.model, accumulate=True)
        self.assertFalse(report.given)
        self.assertEqual(report.first.name, "t0")
        self.assertIn("s0", [value.name for value in report.departing])
        later = next(value for value in report.values if value.name == "s0")
        self.assertIn("departs", later.inputs["t0"])

    def test_each_node(self):
        faulty_compiler.planted(self, faulty_compiler.node("Erf", "second_erf"), faulty_compiler.node("Cos", "second_erf"))
        report = diff.compare(self.model, each_node=True)
        self.assertEqual([value.name for value in report.departing], ["e1"])
        self.assertEqual((report.first.nodes, list(report.first.inputs)), (["second_erf (Erf)"], ["m1"]))

    def test_bodies_narrow_types_and_what_is_random(self):
        branch = make.make_graph([make.make_node("Exp", ["h"], ["grown"], name="inner")], "then", [], [make.make_tensor_value_info("grown", TensorProto.FLOAT16, ["n", 8])])
        other = make.make_graph([make.make_node("Neg", ["h"], ["less"], name="other")], "else", [], [make.make_tensor_value_info("less", TensorProto.FLOAT16, ["n", 8])])
        nodes = [
            make.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16, name="narrow"), make.make_node("If", ["c"], ["g"], then_branch=branch, else_branch=other, name="choice"),
            make.make_node("RandomNormalLike", ["x"], ["noise"], name="noise", seed=1.0), make.make_node("Mul", ["noise", "zero"], ["nothing"], name="mul"),
            make.make_node("Cast", ["g"], ["wide"], to=FLOAT, name="wide"), make.make_node("Add", ["wide", "nothing"], ["y"], name="sum"),
        ]
        onnx.save(model_of(nodes, [("x", FLOAT, ["n", 8]), ("c", TensorProto.BOOL, [])], [("y", FLOAT, ["n", 8])], {"zero": np.zeros(1, np.float32)}), self.model)
        inputs = {"c": np.array(True)}
        self.assertFalse(diff.compare(self.model, inputs=inputs).departs)
        faulty_compiler.planted(self, faulty_compiler.node("Exp", "inner"), faulty_compiler.node("Sin", "inner"))
        report = diff.compare(self.model, inputs=inputs)
        self.assertEqual(report.first.name, "g")
        self.assertIn("choice (If)", report.first.nodes)

    def test_strings(self):
        nodes = [make.make_node("StringConcat", ["s", "s"], ["twice"], name="twice"),
                 make.make_node("StringNormalizer", ["twice"], ["large"], name="large", case_change_action="UPPER", locale="C"),
                 make.make_node("Concat", ["large", "s"], ["y"], name="both", axis=0)]
        onnx.save(model_of(nodes, [("s", TensorProto.STRING, ["n"])], [("y", TensorProto.STRING, ["m"])], {}), self.model)
        right = diff.compare(self.model)
        self.assertEqual((right.departs, right.results["y"].elements, right.skipped), (False, 4, {}))
        faulty_compiler.planted(self, b"UPPER", b"LOWER")
        report = diff.compare(self.model, inputs={"s": np.array(["warp", "糸", ""], object)}, folder=self.folder / "out")
        first = report.first
        self.assertEqual((first.name, first.type, first.nodes), ("large", "string[3]", ["large (StringNormalizer)"]))
        self.assertEqual((first.difference.count, first.difference.got, first.difference.expected), (1, "warpwarp", "WARPWARP"))
        expected = {key: value for path in ("inputs.npz", "expected.npz") for key, value in np.load(self.folder / "out" / path).items()}
        self.assertEqual(expected["large"].tolist(), [b"WARPWARP", "糸糸".encode(), b""])
        again = diff.compare(self.folder / "out" / "region.onnx", inputs=_model_inputs.read([str(self.folder / "out" / "inputs.npz")]))
        self.assertTrue(again.departs)

    def test_complex_numbers(self):
        nodes = [make.make_node("Transpose", ["c"], ["turned"], name="turned", perm=[1, 0]), make.make_node("Trilu", ["turned"], ["half"], name="half", upper=1),
                 make.make_node("Concat", ["half", "half"], ["y"], name="both", axis=0)]
        onnx.save(model_of(nodes, [("c", TensorProto.COMPLEX64, [3, 4])], [("y", TensorProto.COMPLEX64, [8, 3])], {}), self.model)
        right = diff.compare(self.model, against="onnx")
        self.assertEqual((right.departs, right.results["y"].elements), (False, 24))
        with self.assertRaisesRegex(Failed, "complex64.*reference implementation of the package onnx"):
            diff.compare(self.model)
        faulty_compiler.planted(self, b"\x0a\x05upper\x18\x01", b"\x0a\x05upper\x18\x00")
        first = diff.compare(self.model, against="onnx").first
        self.assertEqual((first.name, first.type, first.difference.count), ("half", "complex64[4,3]", 9))

    def test_two_modules(self):
        model = layers()
        module, other = self.folder / "one.heddle", self.folder / "other.heddle"
        heddle.compile(self.model, module)
        changed = numpy_helper.to_array(model.graph.initializer[1]).copy()
        changed[3, 4] += 1
        model.graph.initializer[1].CopyFrom(numpy_helper.from_array(changed, "w1"))
        heddle.compile(model, other)
        inputs = ["x=f32[2,16]=0.5"]
        self.assertFalse(diff.compare_modules(module, module, inputs=inputs).departs)
        report = diff.compare_modules(module, other, inputs=inputs)
        self.assertTrue(report.departs)
        self.assertIn("second", " ".join(report.first.nodes) + report.first.name)  # its weights are packed first, and then it is computed
        self.assertFalse([value for value in report.departing if "first" in " ".join(value.nodes)])

    def command(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        before = os.getcwd()
        os.chdir(self.folder)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                try:
                    code = diff.main([str(one) for one in arguments])
                except SystemExit as end:
                    code = end.code
        finally:
            os.chdir(before)
        return code, out.getvalue(), err.getvalue()

    def test_the_command(self):
        code, out, _ = self.command(self.model, "--dim", "batch=4", "--against", "onnx")
        self.assertEqual(code, 0, out)
        self.assertIn("batch=4", out)
        faulty_compiler.planted(self, faulty_compiler.node("Erf", "second_erf"), faulty_compiler.node("Cos", "second_erf"))
        code, out, _ = self.command(self.model, "--format", "json", "-o", self.folder / "made")
        self.assertEqual((code, json.loads(out)["first"]), (3, "e1"))
        self.assertEqual(sorted(path.name for path in (self.folder / "made").iterdir()), ["expected.npz", "inputs.npz", "region.onnx"])
        for arguments, expected, text in (([self.folder / "absent.onnx"], 1, "there is no such file"), ([self.model, "--dim", "rows=2"], 2, "they have batch"),
                                          ([self.model, "--dim", "batch"], 2, "expected NAME=N"), (["a.heddle"], 2, "--against is missing"),
                                          ([self.model, "--option=--math=sloppy"], 2, "sloppy"), ([self.model, "--device", "nope:7"], 4, "nope"), ([], 2, "MODEL")):
            with self.subTest(arguments=arguments):
                code, out, err = self.command(*arguments)
                self.assertEqual((code, out), (expected, ""), err)
                self.assertIn(text, err)
                self.assertNotIn("Traceback", err)


class Compare(unittest.TestCase):
    def test_tolerances(self):
        base = np.array([1, 100, np.nan, np.inf, -np.inf, 0], np.float32)
        self.assertFalse(compare(base, base.copy(), Tolerance()).departs)
        near = np.nextafter(base, 200).astype(np.float32)
        found = compare(np.where(np.isfinite(base), near, base), base, Tolerance())
        self.assertEqual((found.departs, found.ulp), (False, 1.0))
        self.assertTrue(compare(near, base, Tolerance(0, 0)).departs)
        for index, value in ((2, 1), (3, np.nan), (3, -np.inf), (4, 0), (1, 100.2), (0, np.nan)):
            other = base.copy()
            other[index] = value
            found = compare(other, base, Tolerance())
            self.assertTrue(found.departs, (index, value))
            self.assertEqual((found.count, found.index), (1, (index,)))
        self.assertFalse(compare(base + np.float32(0.01), base, Tolerance()).departs)  # a tenth of the tolerance of the largest one
        self.assertTrue(compare(base + np.float32(0.02), base, Tolerance()).departs)

    def test_ulp_across_zero_and_of_narrow_types(self):
        least = np.array([np.nextafter(np.float32(0), np.float32(1))])
        self.assertEqual(compare(least, -least, Tolerance(0, 0)).ulp, 2)
        half = np.array([1], np.float16)
        self.assertEqual(compare(np.nextafter(half, np.float16(2)), half, Tolerance()).ulp, 1)

    def test_integers_are_exact(self):
        large = np.array([2**62, 5], np.int64)
        self.assertFalse(compare(large, large, Tolerance()).departs)
        found = compare(large + np.array([1, 0]), large, Tolerance())
        self.assertEqual((found.departs, found.index, found.ulp), (True, (0,), None))
        self.assertFalse(compare(np.array([4], np.int8), np.array([5], np.int8), Tolerance(atol=1)).departs)
        self.assertEqual(compare(np.array([-128], np.int8), np.array([127], np.int8), Tolerance()).absolute, 255)

    def test_shapes_and_types(self):
        one = np.zeros((2, 3), np.float32)
        self.assertIn("the shape", compare(one, one.T, Tolerance()).what)
        self.assertIn("the type", compare(one, one.astype(np.float64), Tolerance()).what)
        self.assertFalse(compare(one[:0], one[:0], Tolerance()).departs)
        self.assertFalse(compare(np.float32(1), np.float32(1), Tolerance()).departs)


if __name__ == "__main__":
    unittest.main()
