# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A layer of a transformer as PyTorch exports it, against ONNX Runtime, and the regions that it becomes."""
import json

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from heddle_command import HeddleTestCase

BATCH, SEQUENCE, HEADS, SIZE = 2, 20, 4, 16
HIDDEN = HEADS * SIZE


class Layer:
    """Nodes and weights by and by; every method gives the name of its result."""

    def __init__(self):
        self.nodes, self.weights, self.random = [], [], np.random.default_rng(1)

    def node(self, operator, *inputs, **attributes):
        name = f"{operator.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, array):
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def number(self, value):
        return self.constant(np.array(value, np.float32))

    def weight(self, *shape):
        return self.constant(self.random.standard_normal(shape, np.float32) * np.float32(0.2))

    def linear(self, x, rows, columns):
        return self.node("Add", self.node("MatMul", x, self.weight(rows, columns)), self.weight(columns))

    def heads(self, x):
        shape = self.constant(np.array([BATCH, SEQUENCE, HEADS, SIZE], np.int64))
        return self.node("Transpose", self.node("Reshape", self.linear(x, HIDDEN, HIDDEN), shape), perm=[0, 2, 1, 3])

    def attention(self, x, mask):
        scale = self.number(SIZE ** -0.25)
        queries = self.node("Mul", self.heads(x), scale)
        keys = self.node("Mul", self.node("Transpose", self.heads(x), perm=[0, 1, 3, 2]), scale)
        scores = self.node("Add", self.node("MatMul", queries, keys), mask)
        softmax = self.node("Softmax", scores, axis=-1)
        weights = self.node("Where", self.node("IsNaN", softmax), self.number(0), softmax)
        result = self.node("Transpose", self.node("MatMul", weights, self.heads(x)), perm=[0, 2, 1, 3])
        return self.linear(self.node("Reshape", result, self.constant(np.array([BATCH, SEQUENCE, HIDDEN], np.int64))), HIDDEN, HIDDEN)

    def normalization(self, x):
        centered = self.node("Sub", x, self.node("ReduceMean", x, axes=[-1]))
        variance = self.node("ReduceMean", self.node("Pow", centered, self.number(2)), axes=[-1])
        scaled = self.node("Div", centered, self.node("Sqrt", self.node("Add", variance, self.number(1e-5))))
        return self.node("Add", self.node("Mul", scaled, self.weight(HIDDEN)), self.weight(HIDDEN))

    def gelu(self, x):
        erf = self.node("Erf", self.node("Div", x, self.number(2 ** 0.5)))
        return self.node("Mul", self.node("Mul", x, self.node("Add", erf, self.number(1))), self.number(0.5))

    def build(self):
        first = self.normalization(self.node("Add", self.attention("x", "mask"), "x"))
        inner = self.linear(self.gelu(self.linear(first, HIDDEN, 2 * HIDDEN)), 2 * HIDDEN, HIDDEN)
        last = self.normalization(self.node("Add", inner, first))
        values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in
                  (("x", (BATCH, SEQUENCE, HIDDEN)), ("mask", (BATCH, 1, 1, SEQUENCE)), (last, (BATCH, SEQUENCE, HIDDEN)))]
        graph = helper.make_graph(self.nodes, "layer", values[:2], values[2:], self.weights)
        return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 14)])


class TransformerLayer(HeddleTestCase):
    def test_a_layer(self):
        model, module = self.folder / "layer.onnx", self.folder / "layer.heddle"
        onnx.save(Layer().build(), model)
        report = json.loads(self.succeed("compile", model, "-o", module, "--target", "cpu", "--explain=json").stdout)
        regions = [region for region in report["regions"] if region["region"].startswith("main.")]
        # Queries, keys and values, attention, its projection with what is added, a normalization, two linear layers, a normalization.
        self.assertEqual([region["region"].split(".")[2] for region in regions],
                         ["matmul", "softmax", "matmul", "reduce", "matmul", "matmul", "reduce"])
        strategies = {kernel["kernel"]: kernel["strategy"] for kernel in report["kernels"]}
        self.assertEqual([strategies[region["kernel"]] for region in regions],
                         ["siblings", "attention", "microkernel", "rows", "microkernel", "microkernel", "rows"])
        random = np.random.default_rng(2)
        inputs = {"x": random.standard_normal((BATCH, SEQUENCE, HIDDEN), np.float32), "mask": np.zeros((BATCH, 1, 1, SEQUENCE), np.float32)}
        inputs["mask"][0, :, :, -3:] = -np.inf
        inputs["mask"][1] = -np.inf  # a row that is masked whole is 0
        for name, array in inputs.items():
            np.save(self.folder / f"{name}.npy", array)
        self.succeed("run", module, "--device", "cpu", *(part for name in inputs for part in ("--input", f"{name}=@{self.folder / name}.npy")),
                     "--output", f"@{self.folder}/y.npy")
        expected = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, inputs)[0]
        self.assert_close(np.load(self.folder / "y.npy"), expected, 1e-4, 1e-5)
