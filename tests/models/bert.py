# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layers of BERT's shape (base: 768 values for each of 128 tokens, 12 heads, 3,072 inner values), as PyTorch exports them with opset 14, with the weights
that a function gives."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TOKENS, HIDDEN, HEADS, INNER = 128, 768, 12, 3072
INPUTS = {"embeddings": (1, TOKENS, HIDDEN), "mask": (1, 1, 1, TOKENS)}


class Layers:
    def __init__(self, count, weight):
        """`weight(name, distribution, shape)` gives an initializer; random_weights.py says what a distribution is."""
        self.nodes, self.initializers, self.weight = [], [], weight
        x = "embeddings"
        for layer in range(count):
            x = self.layer(f"layer{layer}.", x)
        self.node("Identity", x, result="hidden")

    def node(self, operator, *inputs, result=None, **attributes):
        result = result or f"{operator.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [result], name=result, **attributes))
        return result

    def constant(self, value, kind=np.float32):
        name = f"constant{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.array(value, kind), name))
        return name

    def random(self, name, shape, mean=0, deviation=0.05):
        self.initializers.append(self.weight(name, ("normal", mean, deviation), shape))
        return name

    def linear(self, name, x, rows, columns):
        product = self.node("MatMul", x, self.random(name + "weight", (rows, columns)))
        return self.node("Add", self.random(name + "bias", (columns,)), product)

    def normalization(self, name, x):
        centered = self.node("Sub", x, self.node("ReduceMean", x, axes=[-1]))
        variance = self.node("ReduceMean", self.node("Pow", centered, self.constant(2)), axes=[-1])
        scaled = self.node("Div", centered, self.node("Sqrt", self.node("Add", variance, self.constant(1e-12))))
        return self.node("Add", self.node("Mul", scaled, self.random(name + "scale", (HIDDEN,), mean=1)), self.random(name + "shift", (HIDDEN,)))

    def heads(self, name, x, order):
        shape = self.constant([1, TOKENS, HEADS, HIDDEN // HEADS], np.int64)
        return self.node("Transpose", self.node("Reshape", self.linear(name, x, HIDDEN, HIDDEN), shape), perm=order)

    def layer(self, name, x):
        queries, keys = self.heads(name + "query.", x, [0, 2, 1, 3]), self.heads(name + "key.", x, [0, 2, 3, 1])
        scores = self.node("Div", self.node("MatMul", queries, keys), self.constant((HIDDEN // HEADS) ** 0.5))
        weights = self.node("Softmax", self.node("Add", scores, "mask"), axis=-1)
        mixed = self.node("Transpose", self.node("MatMul", weights, self.heads(name + "value.", x, [0, 2, 1, 3])), perm=[0, 2, 1, 3])
        mixed = self.node("Reshape", mixed, self.constant([1, TOKENS, HIDDEN], np.int64))
        x = self.normalization(name + "first.", self.node("Add", self.linear(name + "output.", mixed, HIDDEN, HIDDEN), x))
        inner = self.linear(name + "inner.", x, HIDDEN, INNER)
        erf = self.node("Add", self.node("Erf", self.node("Div", inner, self.constant(2 ** 0.5))), self.constant(1))
        inner = self.node("Mul", self.node("Mul", inner, erf), self.constant(0.5))
        return self.normalization(name + "second.", self.node("Add", self.linear(name + "outer.", inner, INNER, HIDDEN), x))


def model(count, weight):
    """Of `embeddings`, f32 [1, 128, 768], and `mask`, f32 [1, 1, 1, 128], which is added to the scores of tokens; its result is `hidden`."""
    layers = Layers(count, weight)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (*INPUTS.items(), ("hidden", INPUTS["embeddings"]))]
    graph = helper.make_graph(layers.nodes, "bert", values[:-1], values[-1:], layers.initializers)
    return helper.make_model(graph, producer_name="heddle tests/models/bert.py", ir_version=8, opset_imports=[helper.make_opsetid("", 14)])


def random_inputs():
    random = np.random.default_rng(7)
    mask = np.zeros(INPUTS["mask"], np.float32)
    mask[..., 100:] = np.finfo(np.float32).min  # as for tokens that fill up a batch
    return {"embeddings": random.standard_normal(INPUTS["embeddings"], dtype=np.float32), "mask": mask}
