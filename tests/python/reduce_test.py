# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""heddle.reduce: what is left of a model is what is wrong with it, for faults planted in the compiler, and for a model that the compiler refuses."""
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

import faulty_compiler
import heddle
import numpy as np
import onnx
import onnx.helper as make
from diff_test import FLOAT, layers, model_of
from heddle import reduce
from heddle._programs import error_class
from onnx import TensorProto


class Reduce(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="heddle-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.model, self.small = self.folder / "model.onnx", self.folder / "small.onnx"
        onnx.save(layers(), self.model)

    def reduced(self, **options):
        result = reduce.reduce(self.model, self.small, **options)
        self.assertTrue(result.complete)
        model = onnx.load(self.small)
        onnx.checker.check_model(model)
        self.assertEqual(result.nodes[1], len(model.graph.node))
        return result, model

    def test_a_crash(self):
        faulty_compiler.planted(self, crash=faulty_compiler.node("Erf"))
        result, model = self.reduced()
        self.assertEqual(result.outcome, "compiling: SIGSEGV")
        self.assertEqual([node.op_type for node in model.graph.node], ["Erf"])
        (dims,) = [[dim.dim_value for dim in one.type.tensor_type.shape.dim] for one in model.graph.input]
        self.assertEqual(dims[1:], [1])
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["model.onnx", "small.onnx", "small.txt"])
        self.assertIn("Erf", (self.folder / "small.txt").read_text())

    def test_wrong_results(self):
        faulty_compiler.planted(self, faulty_compiler.node("Erf", "second_erf"), faulty_compiler.node("Cos", "second_erf"))
        result, model = self.reduced(differs_from="onnxruntime")
        self.assertEqual([node.name for node in model.graph.node], ["second_erf"])
        with np.load(result.inputs) as inputs:
            self.assertEqual({name: value.size for name, value in inputs.items()}, {"m1": 1})

    def test_a_refused_operator_in_a_body_of_a_body(self):
        tensor = make.make_tensor_value_info
        inner = make.make_graph([make.make_node("Neg", ["v"], ["n"]), make.make_node("Weave", ["n"], ["w"], domain="acme", name="weave"), make.make_node("Neg", ["w"], ["u"])],
                                "then", [], [tensor("u", FLOAT, [4])])
        other = make.make_graph([make.make_node("Identity", ["v"], ["same"])], "else", [], [tensor("same", FLOAT, [4])])
        body = make.make_graph([make.make_node("If", ["go"], ["chosen"], then_branch=inner, else_branch=other, name="choice"),
                                make.make_node("Add", ["chosen", "v"], ["next"]), make.make_node("Identity", ["go"], ["on"]), make.make_node("Exp", ["next"], ["row"])],
                               "body", [tensor("i", TensorProto.INT64, []), tensor("go", TensorProto.BOOL, []), tensor("v", FLOAT, [4])],
                               [tensor("on", TensorProto.BOOL, []), tensor("next", FLOAT, [4]), tensor("row", FLOAT, [4])])
        nodes = [make.make_node("Abs", ["x"], ["a"]), make.make_node("Loop", ["count", "", "a"], ["last", "rows"], body=body, name="loop"), make.make_node("Add", ["rows", "last"], ["y"])]
        model = model_of(nodes, [("x", FLOAT, [4])], [("y", FLOAT, [None, 4])], {"count": np.array(3, np.int64)})
        model.opset_import.append(make.make_opsetid("acme", 1))
        onnx.save(model, self.model)
        with self.assertRaises(heddle.CompileError) as refused:
            heddle.compile(self.model, self.folder / "m.heddle")
        result, small = self.reduced()
        self.assertEqual([node.op_type for node in small.graph.node], ["Weave"])
        with self.assertRaises(heddle.CompileError) as still:
            heddle.compile(self.small, self.folder / "m.heddle")
        self.assertEqual(error_class(str(still.exception)), error_class(str(refused.exception)))
        self.assertEqual(result.outcome, "compiling: " + error_class(str(still.exception)))

    def test_what_does_not_compile_needs_no_inputs(self):
        model = layers()
        kind = make.make_sequence_type_proto(make.make_tensor_type_proto(FLOAT, [3]))
        model.graph.input.append(make.make_value_info("s", kind))
        model.graph.node.append(make.make_node("SequenceLength", ["s"], ["length"], name="length"))
        model.graph.output.append(make.make_tensor_value_info("length", TensorProto.INT64, []))
        onnx.save(model, self.model)
        result, small = self.reduced()
        self.assertIn("it is a sequence", result.outcome)
        self.assertEqual(([one.name for one in small.graph.input], [path.name for path in self.folder.glob("*.npz")]), (["s"], []))

    def test_wrong_strings(self):
        nodes = [make.make_node("StringNormalizer", ["s"], ["large"], name="large", case_change_action="UPPER", locale="C"),
                 make.make_node("StringConcat", ["large", "large"], ["twice"]), make.make_node("Concat", ["twice", "s"], ["y"], axis=0)]
        onnx.save(model_of(nodes, [("s", TensorProto.STRING, ["n"])], [("y", TensorProto.STRING, ["m"])], {}), self.model)
        faulty_compiler.planted(self, b"UPPER", b"LOWER")
        result, small = self.reduced(differs_from="onnxruntime")
        self.assertEqual([node.op_type for node in small.graph.node], ["StringNormalizer"])
        with np.load(result.inputs) as inputs:
            self.assertEqual([value.dtype.kind for value in inputs.values()], ["S"])

    def test_functions_are_inlined_and_weights_become_small(self):
        function = make.make_function("local", "Twice", ["a"], ["b"], [make.make_node("Erf", ["a"], ["t"]), make.make_node("Add", ["t", "t"], ["b"])], [make.make_opsetid("", 20)])
        model = model_of([make.make_node("MatMul", ["x", "w"], ["m"]), make.make_node("Twice", ["m"], ["y"], domain="local")], [("x", FLOAT, ["n", 96])],
                         [("y", FLOAT, ["n", 32])], {"w": np.ones((96, 32), np.float32)})
        model.functions.append(function)
        model.opset_import.append(make.make_opsetid("local", 1))
        onnx.save(model, self.model)
        _, small = self.reduced(check=f"{sys.executable} -c \"import sys; m = open(sys.argv[1], 'rb').read(); sys.exit(b'MatMul' in m and b'Erf' in m and 'both are there')\" {{}}")
        self.assertEqual([node.op_type for node in small.graph.node], ["MatMul", "Erf"])
        self.assertEqual((len(small.functions), len(small.graph.initializer)), (0, 0))
        self.assertLess(small.ByteSize(), 250)

    def test_the_same_result_each_time_and_when_the_time_is_over(self):
        faulty_compiler.planted(self, crash=faulty_compiler.node("Erf"))
        first = (self.reduced()[0].tries, self.small.read_bytes())
        self.assertEqual((self.reduced()[0].tries, self.small.read_bytes()), first)
        result = reduce.reduce(self.model, self.small, time_limit=0)
        self.assertFalse(result.complete)
        self.assertEqual(len(onnx.load(self.small).graph.node), 12)

    def test_nothing_is_wrong(self):
        self.small.write_bytes(b"before")
        for options in ({}, {"crash": True}, {"differs_from": "onnx"}):
            with self.subTest(options=options), self.assertRaisesRegex(heddle.FailedPreconditionError, "nothing is wrong with it"):
                reduce.reduce(self.model, self.small, **options)
        self.assertEqual(self.small.read_bytes(), b"before")
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["model.onnx", "small.onnx"])

    def test_the_command(self):
        def command(*arguments):
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                try:
                    code = reduce.main([str(one) for one in arguments])
                except SystemExit as end:
                    code = end.code
            return code, out.getvalue(), err.getvalue()

        self.assertEqual(command(self.model, "-o", self.small)[0], 1)
        for arguments, text in (([self.model], "--output"), ([self.model, "-o", self.model], "the model itself"), ([self.model, "-o", self.folder / "no" / "m.onnx"], "no directory"),
                                ([self.model, "-o", self.small, "--text", "x"], "--text is for --check"), ([self.model, "-o", self.small, "--check", "x", "--crash"], "choose one")):
            with self.subTest(arguments=arguments):
                code, out, err = command(*arguments)
                self.assertEqual((code, out), (2, ""))
                self.assertIn(text, err)
        faulty_compiler.planted(self, crash=faulty_compiler.node("Erf"))
        code, out, err = command(self.model, "-o", self.small, "--crash")
        self.assertEqual(code, 0, err)
        self.assertIn("nodes  12 -> 1", out)
        self.assertIn("it has to stay: compiling: SIGSEGV", err)


class ErrorClass(unittest.TestCase):
    def test_names_and_numbers_do_not_matter(self):
        one = "onnx: importing node 'a/b' (operator Weave, opset 17) failed: f32[2,3] is no tensor<4xf16>\nmore"
        other = "onnx: importing node 'c' (operator Weave, opset 9) failed: bf16[8] is no tensor<2x7xi8>"
        self.assertEqual(error_class(one), error_class(other))
        self.assertNotEqual(error_class(one), error_class(one.replace("Weave", "Spin")))


if __name__ == "__main__":
    unittest.main()
