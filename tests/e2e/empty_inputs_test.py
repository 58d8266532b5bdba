# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Symbolic extents that are 0: results without elements, as ONNX Runtime has them, or a clear refusal where there is something to compute from nothing."""
import numpy as np
import onnx
import onnxruntime
from onnx import helper

from heddle_command import HeddleTestCase

FLOATS, INTS = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def weights(name, *shape):
    return onnx.numpy_helper.from_array(np.random.default_rng(7).standard_normal(shape).astype(np.float32), name)


def node(*arguments, **attributes):
    return helper.make_node(*arguments, **attributes)


# Inputs with their shapes, nodes from these to y, constants, and extents of n to call with.
MODELS = {
    "elementwise": ({"x": ["n", 5]}, [node("Relu", ["x"], ["a"]), node("Add", ["a", "b"], ["y"])], [weights("b", 5)], (0, 3)),
    "matmul": ({"x": ["n", 24]}, [node("MatMul", ["x", "w"], ["a"]), node("Tanh", ["a"], ["y"])], [weights("w", 24, 40)], (0, 2, 30)),
    "convolution": ({"x": ["n", 3, 9, 9]}, [node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])], [weights("w", 8, 3, 3, 3)], (0, 2)),
    "pool": ({"x": ["n", 3, 8, 8]}, [node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2])], [], (0, 2)),
    "softmax": ({"x": [3, "n"]}, [node("Softmax", ["x"], ["y"], axis=-1)], [], (0, 7, 100)),
    "softmax_across": ({"x": ["n", 6]}, [node("Softmax", ["x"], ["y"], axis=0)], [], (0, 7)),
    "normalization": ({"x": ["n", 20]}, [node("LayerNormalization", ["x", "s"], ["y"], axis=-1)], [weights("s", 20)], (0, 4)),
    "attention": ({"x": [2, "n", 16]},
                  [node("Transpose", ["x"], ["t"], perm=[0, 2, 1]), node("MatMul", ["x", "t"], ["s"]), node("Softmax", ["s"], ["p"], axis=-1),
                   node("MatMul", ["p", "x"], ["y"])], [], (0, 5, 40)),
    "transpose": ({"x": [4, "n", 3]}, [node("Transpose", ["x"], ["y"], perm=[2, 1, 0])], [], (0, 6)),
    "joined": ({"x": ["n", 4], "z": [3, 4]}, [node("Concat", ["x", "z"], ["y"], axis=0)], [], (0, 2)),
    "sums_of_rows": ({"x": ["n", 9]}, [node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)],
                     [onnx.numpy_helper.from_array(np.array([1]), "axes")], (0, 4)),
    "sum_of_all": ({"x": ["n", 9]}, [node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)],
                   [onnx.numpy_helper.from_array(np.array([0]), "axes")], (0, 4)),
    "largest_of_all": ({"x": ["n", 9]}, [node("ReduceMax", ["x"], ["y"], axes=[0], keepdims=0)], [], (0, 4)),
    "appended": ({"x": [2, "n", 4], "z": [2, 3, 4]}, [node("Concat", ["x", "z"], ["a"], axis=1), node("Relu", ["a"], ["y"])], [], (0, 5)),
    "attended_with_past": ({"x": [2, "n", 16], "q": [2, 3, 16]},
                           [node("Concat", ["x", "q"], ["k"], axis=1), node("Transpose", ["k"], ["t"], perm=[0, 2, 1]),
                            node("MatMul", ["q", "t"], ["s"]), node("Softmax", ["s"], ["p"], axis=-1), node("MatMul", ["p", "k"], ["y"])], [],
                           (0, 5, 70)),
    "summed_behind": ({"x": [2, "n", 4], "z": [2, 3, 4]},
                      [node("Concat", ["x", "z"], ["a"], axis=1), node("Softmax", ["a"], ["y"], axis=1)], [], (0, 5)),
    "products_over_nothing": ({"x": [3, "n"], "z": ["n", 5]}, [node("MatMul", ["x", "z"], ["a"]), node("Add", ["a", "b"], ["y"])], [weights("b", 5)], (0, 7)),
    "looked_up": ({"x": ["n"]}, [node("Gather", ["table", "x"], ["y"])], [weights("table", 9, 4)], (0, 4)),
}
# The same where something is to be computed from nothing: n of 0 is refused.
REFUSED = {
    "first_of_all": ({"x": ["n", 9]}, [node("ArgMax", ["x"], ["i"], axis=0), node("Cast", ["i"], ["y"], to=FLOATS)], []),
    "looked_up_in_it": ({"x": ["n", 4]}, [node("Gather", ["x", "i"], ["y"])], [onnx.numpy_helper.from_array(np.array([0, 1]), "i")]),
    "padded": ({"x": ["n", 4]}, [node("Pad", ["x", "pads"], ["y"])], [onnx.numpy_helper.from_array(np.array([1, 0, 1, 0]), "pads")]),
}


class EmptyInputs(HeddleTestCase):
    device, targets = "cpu", ("cpu:x86-64-v3", "cpu")

    def make(self, name, inputs, nodes, constants, opset=17):
        integers = nodes[0].op_type == "Gather" and nodes[0].input[1] == "x"
        graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info(key, INTS if integers else FLOATS, shape) for key, shape in inputs.items()],
                                  [helper.make_tensor_value_info("y", FLOATS, None)], constants)
        path = self.folder / f"{name}.onnx"
        onnx.save(onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)), path)
        return path

    def give(self, inputs, nodes, extent):
        values = {}
        for key, shape in inputs.items():
            shape = [extent if one == "n" else one for one in shape]
            if nodes[0].op_type == "Gather" and nodes[0].input[1] == "x":
                values[key] = np.arange(extent, dtype=np.int64)
            else:
                values[key] = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
            np.save(self.folder / f"{key}.npy", values[key])
        return values, [word for key in inputs for word in ("--input", f"{key}=@{self.folder}/{key}.npy")]

    def check(self, name):
        inputs, nodes, constants, extents = MODELS[name]
        path = self.make(name, inputs, nodes, constants)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        for target in self.targets:
            module = self.compile(path, "--target", target)
            for extent in extents:
                with self.subTest(extent=extent, target=target):
                    values, given = self.give(inputs, nodes, extent)
                    self.succeed("run", module, "--device", self.device, *given, "--output", f"@{self.folder}/y.npy")
                    expected = session.run(None, values)[0]
                    if expected.size == 0 or not np.isfinite(expected).all():
                        self.assertTrue(np.array_equal(np.load(self.folder / "y.npy"), expected))
                    else:
                        self.assert_close(np.load(self.folder / "y.npy"), expected, 1e-4, 1e-5)

    def refuse(self, name):
        inputs, nodes, constants = REFUSED[name]
        module = self.compile(self.make(name, inputs, nodes, constants), "--target", self.targets[-1])
        for extent in (2, 0, 2):
            given = self.give(inputs, nodes, extent)[1]
            if extent > 0:
                self.succeed("run", module, "--device", self.device, *given)
            else:
                refused = self.fail_with(1, "run", module, "--device", self.device, *given)
                self.assertIn("has the extent s0, which is 0; s0 is dimension 0 ('n') of input", refused.stderr)

    def test_every_target_has_a_program_that_checks(self):
        self.compile(self.make("padded", *REFUSED["padded"]), "--target", "cpu,cuda")


for name in MODELS:
    setattr(EmptyInputs, f"test_{name}", lambda self, name=name: self.check(name))
for name in REFUSED:
    setattr(EmptyInputs, f"test_{name}_is_refused", lambda self, name=name: self.refuse(name))
