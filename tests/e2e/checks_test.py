# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What ONNX calls an error when a model runs: an index outside its dimension, an integer divided by zero. The call says which node and which value; good values
give what ONNX Runtime gives."""
import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from heddle_command import HeddleTestCase

FLOAT, INT64, INT32 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32


def model(nodes, inputs, outputs, constants=()):
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "checks", [value(name, kind, shape) for name, kind, shape in inputs],
                              [value(name, kind, shape) for name, kind, shape in outputs],
                              [numpy_helper.from_array(array, name) for name, array in constants])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return made.SerializeToString()


class Checks(HeddleTestCase):
    device, target = "cpu", "cpu"

    def compile(self, model):
        return super().compile(model, "--target", self.target)

    def save(self, *arguments):
        path = self.folder / "model.onnx"
        path.write_bytes(model(*arguments))
        return path

    def given(self, **inputs):
        arguments = []
        for name, array in inputs.items():
            np.save(self.folder / f"{name}.npy", array)
            arguments += ["--input", f"{name}=@{self.folder}/{name}.npy"]
        return arguments

    def expect_right(self, path, module, **inputs):
        expected = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, inputs)[0]
        self.succeed("run", module, "--device", self.device, *self.given(**inputs), "--output", f"@{self.folder}/output.npy")
        np.testing.assert_array_equal(np.load(self.folder / "output.npy"), expected)

    def expect_error(self, module, text, **inputs):
        result = self.fail_with(1, "run", module, "--device", self.device, *self.given(**inputs))
        self.assertIn(text, result.stderr)
        self.assert_clear_error(result)

    def test_gather_along_a_known_dimension(self):
        path = self.save([helper.make_node("Gather", ["x", "i"], ["y"], name="look-up", axis=1)],
                         [("x", FLOAT, [2, 5]), ("i", INT32, [3, 2])], [("y", FLOAT, [2, 3, 2])])
        module, x = self.compile(path), np.arange(10, dtype=np.float32).reshape(2, 5)
        self.expect_right(path, module, x=x, i=np.array([[0, 4], [-5, -1], [2, 2]], np.int32))
        for wrong in (5, -6, 2**31 - 1, -(2**31)):
            indices = np.zeros((3, 2), np.int32)
            indices[2, 1] = wrong
            self.expect_error(module, f"node 'look-up', dimension 1 of its input: index {wrong} is outside -5..4", x=x, i=indices)

    def test_gather_along_a_symbolic_dimension(self):
        path = self.save([helper.make_node("Gather", ["x", "i"], ["y"], name="look-up")],
                         [("x", FLOAT, ["n", 2]), ("i", INT64, ["k"])], [("y", FLOAT, ["k", 2])])
        module = self.compile(path)
        for extent in (3, 7):
            x = np.arange(2 * extent, dtype=np.float32).reshape(extent, 2)
            self.expect_right(path, module, x=x, i=np.array([extent - 1, 0, -extent], np.int64))
            self.expect_error(module, f"index {extent} is outside {-extent}..{extent - 1}", x=x, i=np.array([0, extent, 1], np.int64))
            self.expect_error(module, "is outside", x=x, i=np.array([2**63 - 1], np.int64))

    def test_places_of_a_table_that_a_sequence_is_too_long_for(self):
        """The index is no input here: positions are counted by the model."""
        nodes = [helper.make_node("Shape", ["x"], ["shape"]), helper.make_node("Gather", ["shape", "one"], ["length"]),
                 helper.make_node("Range", ["zero", "length", "step"], ["places"]),
                 helper.make_node("Gather", ["table", "places"], ["rows"], name="positions"), helper.make_node("Add", ["x", "rows"], ["y"])]
        table = np.random.default_rng(1).standard_normal((6, 3), np.float32)
        constants = [("table", table), ("zero", np.array(0, np.int64)), ("step", np.array(1, np.int64)), ("one", np.array(1, np.int64))]
        path = self.save(nodes, [("x", FLOAT, [1, "length", 3])], [("y", FLOAT, [1, "length", 3])], constants)
        module = self.compile(path)
        self.expect_right(path, module, x=np.ones((1, 6, 3), np.float32))
        self.expect_error(module, "node 'positions', dimension 0 of its input: index 6 is outside -6..5", x=np.ones((1, 7, 3), np.float32))

    def test_gather_nd_and_gather_elements(self):
        path = self.save([helper.make_node("GatherND", ["x", "i"], ["y"], name="points")],
                         [("x", FLOAT, [3, 4]), ("i", INT64, [2, 2])], [("y", FLOAT, [2])])
        module, x = self.compile(path), np.arange(12, dtype=np.float32).reshape(3, 4)
        self.expect_right(path, module, x=x, i=np.array([[2, 3], [-3, -4]]))
        self.expect_error(module, "node 'points', dimension 0 of its input: index 3 is outside -3..2", x=x, i=np.array([[3, 3], [0, 0]]))
        self.expect_error(module, "node 'points', dimension 1 of its input: index -5 is outside -4..3", x=x, i=np.array([[0, 3], [0, -5]]))
        path = self.save([helper.make_node("GatherElements", ["x", "i"], ["y"], name="elements", axis=1)],
                         [("x", FLOAT, [3, 4]), ("i", INT64, [3, 2])], [("y", FLOAT, [3, 2])])
        module = self.compile(path)
        self.expect_right(path, module, x=x, i=np.array([[0, 3], [-4, 1], [2, 2]]))
        self.expect_error(module, "node 'elements', dimension 1 of its input: index 4 is outside -4..3", x=x, i=np.full((3, 2), 4))

    def test_nothing_is_inside_of_everything(self):
        """No index and no quotient: nothing is wrong."""
        path = self.save([helper.make_node("Gather", ["x", "i"], ["y"]), helper.make_node("Gather", ["x", "none"], ["z"])],
                         [("x", FLOAT, [3, 2]), ("i", INT64, [0])], [("y", FLOAT, [0, 2]), ("z", FLOAT, [0, 2])],
                         [("none", np.zeros(0, np.int64))])
        self.expect_right(path, self.compile(path), x=np.zeros((3, 2), np.float32), i=np.zeros(0, np.int64))
        path = self.save([helper.make_node("Div", ["a", "b"], ["y"])], [("a", INT64, [0]), ("b", INT64, [])], [("y", INT64, [0])])
        self.succeed("run", self.compile(path), "--device", self.device, *self.given(a=np.zeros(0, np.int64), b=np.array(0)))

    def test_no_index_is_inside_of_nothing(self):
        path = self.save([helper.make_node("Gather", ["x", "i"], ["y"])], [("x", FLOAT, [0, 2]), ("i", INT64, [1])], [("y", FLOAT, [1, 2])])
        self.expect_error(self.compile(path), "index 0 of a dimension without elements", x=np.zeros((0, 2), np.float32), i=np.zeros(1, np.int64))

    def test_an_index_that_the_model_uses_itself(self):
        """The verdict of a node is also a value of the model, and two nodes share it."""
        nodes = [helper.make_node("Gather", ["x", "i"], ["a"], name="first"), helper.make_node("Gather", ["t", "i"], ["b"], name="second"),
                 helper.make_node("Add", ["a", "b"], ["y"])]
        path = self.save(nodes, [("x", FLOAT, [4, 2]), ("t", FLOAT, [6, 2]), ("i", INT64, [3])], [("y", FLOAT, [3, 2])])
        module, x, t = self.compile(path), np.ones((4, 2), np.float32), np.ones((6, 2), np.float32)
        self.expect_right(path, module, x=x, t=t, i=np.array([0, 3, -4]))
        self.expect_error(module, "node 'first', dimension 0 of its input: index 5 is outside -4..3", x=x, t=t, i=np.array([0, 5, 1]))

    def test_a_division_of_integers(self):
        path = self.save([helper.make_node("Div", ["a", "b"], ["y"], name="quotient")],
                         [("a", INT64, [2, 3]), ("b", INT64, [3])], [("y", INT64, [2, 3])])
        module, a = self.compile(path), np.array([[7, -7, 9], [1, 0, 5]])
        self.expect_right(path, module, a=a, b=np.array([2, 2, -3]))
        self.expect_error(module, "node 'quotient': an integer is divided by zero", a=a, b=np.array([2, 0, -3]))

    def test_integers_whose_result_is_out_of_range(self):
        for kind, name, dtype in ((INT32, "i32", np.int32), (INT64, "i64", np.int64)):
            least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
            for operator, attributes, x, y, expected in (
                ("Div", {}, [least, least, -7, 7], [-1, 1, 2, -2], [least, least, -3, -3]),
                ("Mod", {}, [least, least], [-1, 3], [0, least % 3]), ("Mod", {"fmod": 1}, [least, -7], [-1, 3], [0, -1]),
                ("Pow", {}, [2, -2, -3, 0, 0, 2, 3, 3], [64, 65, 41, -1, 0, -1, -1, 18], [most, least, least, most, 1, 0, 0, 3**18]),
            ):
                with self.subTest(operator=operator, type=name):
                    size = [len(x)]
                    module = self.compile(self.save([helper.make_node(operator, ["x", "y"], ["z"], **attributes)],
                                                    [("x", kind, size), ("y", kind, size)], [("z", kind, size)]))
                    self.succeed("run", module, "--device", self.device, *self.given(x=np.array(x, dtype), y=np.array(y, dtype)),
                                 "--expect", f"{name}[{len(expected)}]={','.join(map(str, expected))}", "--rtol", "0", "--atol", "0")

    def test_what_cannot_be_wrong_is_not_checked(self):
        nodes = [helper.make_node("ArgMax", ["x"], ["i"], axis=1, keepdims=0), helper.make_node("Gather", ["table", "i"], ["rows"]),
                 helper.make_node("Div", ["i", "two"], ["half"]), helper.make_node("Gather", ["rows", "half"], ["y"])]
        table = np.arange(10, dtype=np.float32).reshape(5, 2)
        path = self.save(nodes, [("x", FLOAT, [4, 5])], [("y", FLOAT, [4, 2])], [("table", table), ("two", np.array(2, np.int64))])
        module = self.compile(path)
        self.expect_right(path, module, x=np.random.default_rng(2).standard_normal((4, 5), np.float32))
        kernels = self.succeed("explain", module).stdout
        self.assertIn("arg_reduce", kernels)

    def test_a_constant_index_is_refused_when_the_model_is_compiled(self):
        path = self.save([helper.make_node("Gather", ["x", "i"], ["y"], name="look-up")], [("x", FLOAT, [3, 2])], [("y", FLOAT, [2, 2])],
                         [("i", np.array([0, 3]))])
        refused = self.fail_with(1, "compile", path, "-o", self.folder / "refused.heddle")
        self.assertIn("node 'look-up'", refused.stderr)
        path = self.save([helper.make_node("GatherND", ["x", "i"], ["y"], name="points")], [("x", FLOAT, [3, 4])], [("y", FLOAT, [2])],
                         [("i", np.array([[2, 3], [0, 4]]))])
        points = self.fail_with(1, "compile", path, "-o", self.folder / "refused.heddle")
        self.assertIn("dimension 1 of its input has 4 elements, and the index 4 is outside -4..3", points.stderr)
        self.assertIn("dimension 0 of its input has 3 elements, and the index 3 is outside -3..2", refused.stderr)

    def test_a_constant_divisor_of_zero_is_refused_when_the_model_is_compiled(self):
        for operator in ("Div", "Mod"):
            for divisor in (np.array([2, 0, 1]), np.array(0)):
                path = self.save([helper.make_node(operator, ["x", "d"], ["y"], name="ratio")], [("x", INT64, [3])], [("y", INT64, [3])], [("d", divisor)])
                refused = self.fail_with(1, "compile", path, "-o", self.folder / "refused.heddle")
                self.assertIn("node 'ratio'", refused.stderr)
                self.assertIn("an integer is divided by zero", refused.stderr)

    def test_what_is_known_at_load_is_checked_in_each_call(self):
        """Indices that are a parameter, not a constant of the program, and a divisor that is computed of such."""
        many = np.arange(20000) % 100
        many[12345] = 100
        path = self.save([helper.make_node("Gather", ["x", "i"], ["y"], name="look-up")], [("x", FLOAT, [100])], [("y", FLOAT, [20000])], [("i", many)])
        module, x = self.compile(path), np.arange(100, dtype=np.float32)
        for _ in range(2):
            self.expect_error(module, "node 'look-up', dimension 0 of its input: index 100 is outside -100..99", x=x)
        path = self.save([helper.make_node("Gather", ["x", "i"], ["y"])], [("x", FLOAT, [100])], [("y", FLOAT, [20000])], [("i", many % 100)])
        self.expect_right(path, self.compile(path), x=x)
        path = self.save([helper.make_node("Sub", ["i", "i"], ["zero"]), helper.make_node("Div", ["x", "zero"], ["y"], name="ratio")],
                         [("x", INT64, [20000])], [("y", INT64, [20000])], [("i", many)])
        self.expect_error(self.compile(path), "node 'ratio': an integer is divided by zero", x=np.ones(20000, np.int64))
