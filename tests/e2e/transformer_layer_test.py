# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layers of transformers as PyTorch exports them, against ONNX Runtime, and the regions that they become."""
import json

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from heddle_command import HeddleTestCase

BATCH, SEQUENCE, HEADS, SIZE = 2, 20, 4, 16
HIDDEN = HEADS * SIZE
KEY_HEADS = 2  # of the layer with grouped heads, where HEADS // KEY_HEADS of queries share one of keys and values
INNER = 96


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

    def model(self, inputs, last):
        values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
                  for name, shape in (*inputs.items(), (last, (BATCH, SEQUENCE, HIDDEN)))]
        graph = helper.make_graph(self.nodes, "layer", values[:-1], values[-1:], self.weights)
        return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 14)])

    def build(self):
        first = self.normalization(self.node("Add", self.attention("x", "mask"), "x"))
        inner = self.linear(self.gelu(self.linear(first, HIDDEN, 2 * HIDDEN)), 2 * HIDDEN, HIDDEN)
        last = self.normalization(self.node("Add", inner, first))
        return self.model({"x": (BATCH, SEQUENCE, HIDDEN), "mask": (BATCH, 1, 1, SEQUENCE)}, last)


class LlamaLayer(Layer):
    """Normalizations by the root mean square, rotary embeddings, grouped heads and a gate."""

    def shape(self, *extents):
        return self.constant(np.array(extents, np.int64))

    def root_mean_square(self, x):
        mean = self.node("ReduceMean", self.node("Pow", x, self.number(2)), axes=[-1])
        scale = self.node("Div", self.number(1), self.node("Sqrt", self.node("Add", mean, self.number(1e-6))))
        return self.node("Mul", self.weight(HIDDEN), self.node("Mul", x, scale))

    def project(self, x, count):
        columns = self.node("MatMul", x, self.weight(HIDDEN, count * SIZE))
        return self.node("Transpose", self.node("Reshape", columns, self.shape(BATCH, SEQUENCE, count, SIZE)), perm=[0, 2, 1, 3])

    def rotated(self, x):
        low = self.node("Slice", x, self.shape(0), self.shape(SIZE // 2), self.shape(3), self.shape(1))
        high = self.node("Slice", x, self.shape(SIZE // 2), self.shape(2 ** 63 - 1), self.shape(3), self.shape(1))
        turned = self.node("Concat", self.node("Neg", high), low, axis=-1)
        return self.node("Add", self.node("Mul", x, "cos"), self.node("Mul", turned, "sin"))

    def repeated(self, x):
        group = HEADS // KEY_HEADS
        wide = self.node("Expand", self.node("Unsqueeze", x, self.shape(2)), self.shape(BATCH, KEY_HEADS, group, SEQUENCE, SIZE))
        return self.node("Reshape", wide, self.shape(BATCH, HEADS, SEQUENCE, SIZE))

    def attention(self, x, mask):
        queries, keys, columns = self.project(x, HEADS), self.project(x, KEY_HEADS), self.project(x, KEY_HEADS)
        queries, keys = self.rotated(queries), self.repeated(self.rotated(keys))
        scores = self.node("MatMul", queries, self.node("Transpose", keys, perm=[0, 1, 3, 2]))
        weights = self.node("Softmax", self.node("Add", self.node("Mul", scores, self.number(SIZE ** -0.5)), mask), axis=-1)
        result = self.node("Transpose", self.node("MatMul", weights, self.repeated(columns)), perm=[0, 2, 1, 3])
        return self.node("MatMul", self.node("Reshape", result, self.shape(BATCH, SEQUENCE, HIDDEN)), self.weight(HIDDEN, HIDDEN))

    def build(self):
        first = self.node("Add", "x", self.attention(self.root_mean_square("x"), "mask"))
        normal = self.root_mean_square(first)
        gate, up = self.node("MatMul", normal, self.weight(HIDDEN, INNER)), self.node("MatMul", normal, self.weight(HIDDEN, INNER))
        inner = self.node("Mul", self.node("Mul", gate, self.node("Sigmoid", gate)), up)
        last = self.node("Add", first, self.node("MatMul", inner, self.weight(INNER, HIDDEN)))
        return self.model({"x": (BATCH, SEQUENCE, HIDDEN), "mask": (1, 1, SEQUENCE, SEQUENCE), "cos": (1, 1, SEQUENCE, SIZE),
                           "sin": (1, 1, SEQUENCE, SIZE)}, last)


def attention_of_integers():
    """Queries, keys, values and results are of 8 bits; the arithmetic is in f32."""
    layer = Layer()
    zero = layer.constant(np.array(3, np.int8))
    queries, keys, values = (layer.node("Transpose", layer.node("DequantizeLinear", name, layer.number(scale), zero), perm=order)
                             for name, scale, order in (("q", 0.02, [0, 2, 1, 3]), ("k", 0.01, [0, 2, 3, 1]), ("v", 0.03, [0, 2, 1, 3])))
    weights = layer.node("Softmax", layer.node("MatMul", queries, keys), axis=-1)
    results = layer.node("Transpose", layer.node("MatMul", weights, values), perm=[0, 2, 1, 3])
    last = layer.node("QuantizeLinear", results, layer.number(0.02), zero)
    infos = [helper.make_tensor_value_info(name, TensorProto.INT8, (BATCH, SEQUENCE, HEADS, SIZE)) for name in ("q", "k", "v", last)]
    graph = helper.make_graph(layer.nodes, "attention", infos[:-1], infos[-1:], layer.weights)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 14)])


class TransformerLayer(HeddleTestCase):
    def regions_of(self, model, module):
        """Of the function, in order, and the strategy of each kernel."""
        report = json.loads(self.succeed("compile", model, "-o", module, "--target", "cpu", "--explain=json").stdout)
        strategies = {kernel["kernel"]: kernel["strategy"] for kernel in report["kernels"]}
        return [region for region in report["regions"] if region["region"].startswith("main.")], strategies

    def check_values(self, model, module, inputs):
        for name, array in inputs.items():
            np.save(self.folder / f"{name}.npy", array)
        self.succeed("run", module, "--device", "cpu", *(part for name in inputs for part in ("--input", f"{name}=@{self.folder / name}.npy")),
                     "--output", f"@{self.folder}/y.npy")
        expected = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, inputs)[0]
        self.assert_close(np.load(self.folder / "y.npy"), expected, 1e-4, 1e-5)

    def test_a_layer(self):
        model, module = self.folder / "layer.onnx", self.folder / "layer.heddle"
        onnx.save(Layer().build(), model)
        regions, strategies = self.regions_of(model, module)
        # Queries, keys and values, attention, its projection with what is added, a normalization, two linear layers, a normalization.
        self.assertEqual([region["region"].split(".")[2] for region in regions],
                         ["matmul", "softmax", "matmul", "reduce", "matmul", "matmul", "reduce"])
        self.assertEqual([strategies[region["kernel"]] for region in regions],
                         ["siblings", "attention", "microkernel", "rows", "microkernel", "microkernel", "rows"])
        random = np.random.default_rng(2)
        inputs = {"x": random.standard_normal((BATCH, SEQUENCE, HIDDEN), np.float32), "mask": np.zeros((BATCH, 1, 1, SEQUENCE), np.float32)}
        inputs["mask"][0, :, :, -3:] = -np.inf
        inputs["mask"][1] = -np.inf  # a row that is masked whole is 0
        self.check_values(model, module, inputs)

    def test_a_layer_of_llama(self):
        model, module = self.folder / "layer.onnx", self.folder / "layer.heddle"
        onnx.save(LlamaLayer().build(), model)
        regions, strategies = self.regions_of(model, module)
        self.assertLessEqual(len(regions), 9, [(region["region"], strategies[region["kernel"]]) for region in regions])
        angles = np.outer(np.arange(SEQUENCE), 10000.0 ** (-np.arange(0, SIZE, 2) / SIZE))
        angles = np.concatenate([angles, angles], axis=-1)[None, None]
        mask = np.triu(np.full((SEQUENCE, SEQUENCE), -np.inf, np.float32), 1)[None, None]
        self.check_values(model, module, {"x": np.random.default_rng(2).standard_normal((BATCH, SEQUENCE, HIDDEN), np.float32), "mask": mask,
                                          "cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)})

    def test_products_of_one_operand_beside_a_value_that_ends(self):
        """One product's result has the type of a value that nothing reads afterwards, as in gradients; kernels of several products do not overwrite it."""
        layer = Layer()
        ends = layer.node("Softmax", "z", axis=-1)
        first = layer.node("Mul", layer.node("MatMul", "x", layer.weight(HIDDEN, INNER)), ends)
        second = layer.node("MatMul", "x", layer.weight(HIDDEN, HIDDEN))
        last = layer.node("Add", layer.node("MatMul", first, layer.weight(INNER, HIDDEN)), layer.node("Softmax", second, axis=-1))
        infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (SEQUENCE, columns)) for name, columns in (("x", HIDDEN), ("z", INNER), (last, HIDDEN))]
        graph = helper.make_graph(layer.nodes, "products", infos[:-1], infos[-1:], layer.weights)
        model, module = self.folder / "products.onnx", self.folder / "products.heddle"
        onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 14)]), model)
        _, strategies = self.regions_of(model, module)
        self.assertIn("siblings", strategies.values())
        random = np.random.default_rng(2)
        self.check_values(model, module, {"x": random.standard_normal((SEQUENCE, HIDDEN), np.float32), "z": random.standard_normal((SEQUENCE, INNER), np.float32)})

    def test_attention_of_integers_is_one_kernel(self):
        model, module = self.folder / "attention.onnx", self.folder / "attention.heddle"
        onnx.save(attention_of_integers(), model)
        report = json.loads(self.succeed("compile", model, "-o", module, "--target", "cpu,cuda,hip", "--explain=json").stdout)
        self.assertEqual({kernel["family"]: kernel["strategy"] for kernel in report["kernels"]},
                         {"cpu": "attention", "cuda": "attention", "hip": "attention"})
        self.assertEqual(len(report["kernels"]), 3)
        random = np.random.default_rng(2)
        inputs = {name: random.integers(-128, 128, (BATCH, SEQUENCE, HEADS, SIZE), np.int8) for name in ("q", "k", "v")}
        for name, array in inputs.items():
            np.save(self.folder / f"{name}.npy", array)
        self.succeed("run", module, "--device", "cpu", *(part for name in inputs for part in ("--input", f"{name}=@{self.folder / name}.npy")),
                     "--output", f"@{self.folder}/y.npy")
        # ONNX Runtime's optimizer makes an invalid graph of this one.
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        expected = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, inputs)[0]
        results = np.load(self.folder / "y.npy")
        self.assertEqual(results.dtype, np.int8)
        self.assertLessEqual(np.abs(results.astype(np.int32) - expected).max(), 1)  # those in the middle between two
        self.assertLess((results != expected).mean(), 0.01)
